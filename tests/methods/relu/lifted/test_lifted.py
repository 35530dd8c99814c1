"""One and two hidden layers from rough answers and in boxes, through ``identify``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import unweave
from truth import relu_in_float32
from unweave.core.network import Network
from unweave.methods.relu.lifted.information import balance, measure_information
from unweave.methods.relu.lifted.method import name_parts
from unweave.methods.relu.lifted.refit import DENSE, refit


def draw_network(sizes, seed: int, leak: float = 0.0) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairs]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairs]
    name = "relu" if leak == 0 else f"leaky_relu({leak})"
    return Network(weights, biases, [name] * (len(sizes) - 2) + ["identity"])


@pytest.mark.parametrize("domain", [None, unweave.Box(-1.0, 1.0)])
def test_one_layer_relu_in_float32(domain):
    network = draw_network((6, 8, 2), 4)
    found = unweave.identify(relu_in_float32(network), input_size=6, domain=domain, seed=1)
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 1e-4


def test_two_layers_relu_in_float32():
    network = draw_network((8, 8, 6, 3), 5)
    found = unweave.identify(relu_in_float32(network), input_size=8, seed=1)
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 1e-3


def test_two_layers_in_a_box_wider_than_the_input():
    network, box = draw_network((4, 10, 6, 3), 1), unweave.Box(-2.0, 2.0)
    found = unweave.identify(lambda x: network(x), input_size=4, domain=box, seed=1, method="relu-lifted")
    x = box.sample(4000, 4, np.random.default_rng(9))
    if found.identified:
        assert np.max(np.abs(found.network(x) - network(x))) < 1e-9 * np.std(network(x))
    assert found.network is None or found.identified or found.reason


def test_leaky_units_in_two_layers():
    network = draw_network((8, 8, 6, 3), 3, leak=0.1)
    found = unweave.identify(lambda x: network(x), input_size=8, seed=1, method="relu-lifted")
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 1e-9


@pytest.mark.parametrize("dense", [True, False])
def test_refit_recovers_perturbed_weights(dense, monkeypatch):
    if not dense:
        monkeypatch.setattr("unweave.methods.relu.lifted.refit.DENSE", 0)
    assert DENSE > 0
    network, rng = draw_network((5, 6, 2), 0), np.random.default_rng(1)
    x = rng.standard_normal((600, 5))
    moved = Network(
        [w + 1e-4 * rng.standard_normal(w.shape) for w in network.weights],
        network.biases,
        network.activations,
    )
    fitted = refit(moved, x, network(x), np.full(len(x), 1e-9)).network
    assert np.max(np.abs(fitted(x) - network(x))) < 1e-7


def test_information_names_what_no_answer_shows():
    network, rng = balance(draw_network((4, 3, 1), 0)), np.random.default_rng(2)
    x = rng.standard_normal((400, 4))
    dead = x[network.weights[0][1] @ x.T + network.biases[0][1] < 0]
    seen = measure_information(network, x, np.full(len(x), 1e-6), goal=1e-3)
    blind = measure_information(network, dead, np.full(len(dead), 1e-6), goal=1e-3)
    assert seen.worst < 1e-3
    assert blind.units[0][1] > 1 > blind.units[0][0]


def test_parts_that_may_be_one_unit_are_named():
    rng = np.random.default_rng(3)
    out = rng.standard_normal((2, 6))
    out[:, 4] = -2.5 * out[:, 1]
    out[0, 2:4] = 0.0  # both reach the second output alone: that says nothing
    weights = [rng.standard_normal((5, 3)), rng.standard_normal((6, 5)), out]
    network = Network(weights, [np.zeros(5), np.zeros(6), np.zeros(2)], ["relu", "relu", "identity"])
    assert name_parts(network, 6) == ["layer 2, units 1 and 4: whether they are parts of one unit"]
    assert name_parts(network, 4) == []
