"""Two hidden layers in float32, the first no wider than the input: every weight, of weak and rare units too."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network, relu_in_float32
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Problem
from unweave.methods.relu.one_layer.level import find_quiet_plane
from unweave.methods.relu.two_layers.above import recover_above, tell_sides
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry

ROUGH = Precision(3e-7, 1.0, "float32")


def single(network: Network) -> Network:
    """With parameters that float32 holds."""
    weights, biases = ([a.astype(np.float32) for a in part] for part in (network.weights, network.biases))
    return Network(weights, biases, network.activations)


def with_first_unit(network: Network, row: float, column: float) -> Network:
    """The same network, its first unit that much weaker."""
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    weights[0][0] *= row
    biases[0][0] *= row
    weights[1][:, 0] *= column
    return single(Network(weights, biases, network.activations))


def ask(network: Network, seed: int = 0):
    meter = Meter(resolve(relu_in_float32(network), input_size=network.input_size))
    meter.look_through(None, single=True)
    rng = np.random.default_rng(seed)
    return open_inquiry(meter, ROUGH, rng), rng


def planes_of(network: Network) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.linalg.norm(network.weights[0], axis=1)
    return network.weights[0] / lengths[:, None], network.biases[0] / lengths


@pytest.mark.parametrize("seed", [1, 2])
def test_two_layers_with_a_unit_a_thousand_times_weaker_than_the_others(seed):
    truth = with_first_unit(random_network((24, 10, 6, 4), "relu", seed), 0.05, 0.05)
    found = unweave.identify(relu_in_float32(truth), input_size=24, seed=seed, method="relu-features")
    assert found.identified, found.reason
    assert found.hidden == (10, 6)
    assert found.network is not None
    x = np.random.default_rng(3).standard_normal((2000, 24))
    assert np.max(np.abs(found.network(x) - truth(x))) < 3e-6 * np.std(truth(x))
    assert unweave.compare(truth, found).max_relative_error < 1e-3


def test_a_plane_that_is_not_known_shows_where_no_known_height_changes():
    truth = with_first_unit(random_network((16, 6, 4, 3), "relu", 5), 0.1, 0.1)
    normals, offsets = planes_of(truth)
    inquiry, rng = ask(truth)
    found = find_quiet_plane(inquiry, normals[1:], offsets[1:], rng)
    assert len(found) == 1
    side = np.sign(found.normals[0] @ normals[0])
    miss = np.append(side * found.normals[0] - normals[0], side * found.offsets[0] - offsets[0])
    bars = np.sqrt(np.diag(found.covariances[0]))
    assert np.max(np.abs(miss)) < 1e-2
    assert np.all(np.abs(miss) < 8 * bars)


def test_nothing_is_found_beside_planes_that_are_all():
    truth = single(random_network((16, 6, 4, 3), "relu", 5))
    inquiry, rng = ask(truth)
    assert len(find_quiet_plane(inquiry, *planes_of(truth), rng)) == 0


def test_sides_are_told_and_a_plane_that_bends_nothing_is_none():
    truth = single(random_network((16, 6, 4, 3), "relu", 7))
    normals, offsets = planes_of(truth)
    turn = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
    aside = np.random.default_rng(1).standard_normal((1, 16))
    inquiry, rng = ask(truth)
    sides = tell_sides(
        inquiry,
        np.vstack([turn[:, None] * normals, aside / np.linalg.norm(aside)]),
        np.append(turn * offsets, 0.3),
        3.0,
        rng,
    )
    np.testing.assert_array_equal(sides, [*turn, 0.0])


def test_the_second_layer_is_one_layer_over_the_features_of_the_first():
    truth = single(random_network((16, 6, 5, 3), "relu", 4))
    normals, offsets = planes_of(truth)
    inquiry, _ = ask(truth)
    found = recover_above(
        inquiry, Problem(("relu",), None, ROUGH, 0), normals, offsets, lambda x: np.full((len(x), 6), 1e-7)
    )
    assert found.network is not None, found.reason
    x = np.random.default_rng(3).standard_normal((2000, 16))
    assert np.max(np.abs(found.network(x) - truth(x))) < 1e-4 * np.std(truth(x))


def test_more_planes_than_inputs_are_left_to_others():
    truth = random_network((4, 8, 5, 3), "relu", 4)
    found = unweave.identify(relu_in_float32(truth), input_size=4, method="relu-features", surrogate=False)
    assert not found.identified
    assert "independent" in found.reason
