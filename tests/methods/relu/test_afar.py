"""Relu networks behind rounding and noise, seen from afar."""

import numpy as np
import pytest

import unweave
from truth import random_network


def rounded(network, decimals):
    return lambda x: np.round(network(x), decimals) + 0.0


def noisy(network, size, seed=0):
    rng = np.random.default_rng(seed)
    return lambda x: network(x) + size * rng.standard_normal((len(x), network.output_size))


@pytest.mark.parametrize("decimals", [4, 3])
def test_few_decimals(decimals):
    network = random_network((8, 12, 1), "relu", seed=2)
    found = unweave.identify(rounded(network, decimals), input_size=8)
    assert found.identified, found.reason
    assert found.network.hidden == (12,)
    errors = unweave.compare(found.network, network).per_layer[0].unit_errors
    assert np.all(np.array(errors) < 5 * found.certificate.max_standard_error)
    assert found.certificate.max_standard_error < 1e-2
    assert found.ledger.total < 25 * network.num_parameters


def test_noise_reaches_the_bound():
    network = random_network((10, 16, 1), "relu", seed=3)
    found = unweave.identify(noisy(network, 1e-3), input_size=10)
    assert found.identified, found.reason
    assert found.precision.noise == pytest.approx(1e-3, rel=0.15)
    layers = unweave.compare(found.network, network).per_layer
    errors = np.concatenate([layer.unit_errors for layer in layers])
    assert np.sqrt(np.mean((errors / found.certificate.fresh["deviations"]) ** 2)) < 1.5


def test_two_layers_behind_noise():
    network = random_network((8, 12, 6, 1), "relu", seed=0)
    found = unweave.identify(noisy(network, 1e-3), input_size=8)
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 2e-2


def test_leak_behind_rounding():
    network = random_network((8, 10, 2), "leaky_relu(0.1)", seed=2)
    found = unweave.identify(rounded(network, 3), input_size=8)
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 2e-2


def test_smooth_units_are_not_taken_for_kinks():
    network = random_network((5, 6, 1), "gelu", seed=0)
    found = unweave.identify(rounded(network, 3), input_size=5, method="relu-lines")
    assert not found.identified
    assert "smoothly" in found.reason


def test_noise_that_grows_with_the_answers_is_no_view_from_afar():
    network = random_network((5, 6, 1), "relu", seed=0)
    rng = np.random.default_rng(0)
    found = unweave.identify(
        lambda x: network(x) * (1 + 1e-3 * rng.standard_normal((len(x), 1))),
        input_size=5,
        method="relu-lines",
    )
    assert not found.identified
    assert "grows" in found.reason
