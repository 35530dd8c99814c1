"""Units that are rarely on, from what a network without them leaves over of float32 answers."""

from itertools import pairwise

import numpy as np

from truth import relu_in_float32
from unweave.core.network import Network
from unweave.methods.relu.lifted.left import tell_unit, with_left_over


def _network(rng) -> Network:
    sizes = (4, 8, 5, 2)
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairwise(sizes)]
    network = Network(weights, biases, ["relu", "relu", "identity"])
    return network.with_flat(network.flat().astype(np.float32).astype(float))


def _without(network: Network, unit: int) -> Network:
    weights = [
        network.weights[0],
        np.delete(network.weights[1], unit, axis=0),
        np.delete(network.weights[2], unit, axis=1),
    ]
    biases = [network.biases[0], np.delete(network.biases[1], unit), network.biases[2]]
    return Network(weights, biases, network.activations)


def test_a_missing_unit_is_told_by_the_answers_that_are_wrong():
    rng = np.random.default_rng(3)
    network = _network(rng)
    x = rng.standard_normal((4000, 4)).astype(np.float32).astype(float)
    y = relu_in_float32(network)(x)
    bars = np.full(len(x), 1e-6)
    found = with_left_over(_without(network, 4), x, y, bars, rng)
    assert found is not None
    assert found.hidden == (8, 5)
    assert np.max(np.abs(found(x) - y)) < 1e-5


def test_what_is_no_unit_s_is_none():
    rng = np.random.default_rng(3)
    network = _network(rng)
    x = rng.standard_normal((4000, 4))
    bars = np.full(len(x), 1e-6)
    assert with_left_over(network, x, network(x), bars, rng) is None
    bent = network(x) + 0.1 * np.sin(5 * x[:, :2])
    assert with_left_over(network, x, bent, bars, rng) is None


def test_a_unit_that_is_wrong_is_told_anew_without_it():
    rng = np.random.default_rng(3)
    network = _network(rng)
    x = rng.standard_normal((4000, 4)).astype(np.float32).astype(float)
    y, bars = relu_in_float32(network)(x), np.full(len(x), 1e-6)
    second = network.weights[1].copy()
    second[4, :3] -= 0.3
    wrong = Network([network.weights[0], second, network.weights[2]], network.biases, network.activations)
    found = with_left_over(wrong, x, y, bars, rng)
    assert found is not None
    assert found.hidden == (8, 5)
    assert np.max(np.abs(found(x) - y)) < 1e-5


def test_features_that_a_unit_never_shows_with_keep_it_off():
    rng = np.random.default_rng(5)
    features = np.hstack([np.maximum(rng.standard_normal((4000, 5)), 0.0), np.ones((4000, 1))])
    row = np.array([0.6, 0.4, -0.5, -20.0, -30.0, -0.7])
    left = np.maximum(features @ row, 0.0)[:, None] * np.array([1.0, -2.0, 0.5])
    features = features[(left[:, 0] == 0) | ~np.any(features[:, 3:5] > 0, axis=1)]
    left = np.maximum(features @ row, 0.0)[:, None] * np.array([1.0, -2.0, 0.5])
    told = tell_unit(features, left, np.full(len(left), 1e-6), rng)
    assert told is not None
    found = np.maximum(features @ told[0], 0.0)[:, None] * told[1]
    assert np.max(np.abs(found - left)) < 1e-6
