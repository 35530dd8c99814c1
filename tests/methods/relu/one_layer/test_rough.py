"""One hidden relu layer in float32: every unit, its side, few queries; deeper networks end the search early."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network, relu_in_float32
from unweave.core.network import Network
from unweave.methods.relu.one_layer.ridge_fit import Ridges, fit_ridges


def single(network: Network):
    """The network computed in float32, and its parameters as they are then."""
    weights, biases = ([a.astype(np.float32) for a in part] for part in (network.weights, network.biases))
    answer = relu_in_float32(network)
    return Network(weights, biases, network.activations), lambda x: answer(x).astype(np.float32)


@pytest.mark.parametrize("sizes", [(6, 8, 2), (10, 16, 1), (20, 12, 3)])
@pytest.mark.parametrize("box", [None, 2.0])
def test_float32_networks_of_one_layer(sizes, box):
    truth, answer = single(random_network(sizes, "relu", seed=3))
    domain = None if box is None else unweave.Box(-box, box)
    found = unweave.identify(answer, input_size=sizes[0], domain=domain, method="relu-lines")
    assert found.identified
    assert found.hidden == truth.hidden
    assert unweave.compare(truth, found).max_relative_error < 1e-4
    assert found.ledger.total < 18 * max(truth.num_parameters, 150)


def test_a_fit_forgives_starts_that_are_off_by_a_tenth():
    truth = random_network((8, 6, 2), "relu", seed=1)
    rows = np.hstack([truth.weights[0], truth.biases[0][:, None]])
    exact = Ridges(rows, truth.weights[1].T, np.hstack([np.zeros((2, 8)), truth.biases[1][:, None]]))
    rng = np.random.default_rng(2)
    x = 2 * rng.standard_normal((300, 8))
    start = Ridges(rows + 0.05 * rng.standard_normal(rows.shape), 1.1 * exact.columns, exact.affine)
    fitted = fit_ridges(start, x, truth(x), np.full(300, 1e-9))
    assert np.max(np.abs(fitted.ridges.rows - exact.balanced().rows)) < 1e-8
    assert np.max(fitted.unit_errors()) < 1e-6


def test_two_layers_are_left_to_other_methods_early():
    truth, answer = single(random_network((10, 12, 12, 2), "relu", seed=1))
    found = unweave.identify(answer, input_size=10, method="relu-lines")
    assert not found.identified
    assert found.ledger.total < 20 * truth.num_parameters
