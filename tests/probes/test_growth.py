"""Growth far out, and whether the answers are piecewise linear."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.domains import Ball, Domain
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.growth import Growth, observe_growth
from unweave.probes.piecewise_linear import is_piecewise_linear


def meter_for(network: Network, domain: Domain | None = None) -> Meter:
    return Meter(resolve(network), domain=domain)


@pytest.mark.parametrize(
    ("activation", "growth"),
    [
        ("tanh", Growth.SATURATING),
        ("sigmoid", Growth.SATURATING),
        ("erf", Growth.SATURATING),
        ("softsign", Growth.SLOW),
        ("relu", Growth.LINEAR),
        ("gelu", Growth.LINEAR),
        ("softplus", Growth.LINEAR),
        ("quadratic", Growth.OTHER),
    ],
)
@pytest.mark.parametrize("sizes", [(5, 6, 1), (4, 6, 5, 2)])
def test_growth_separates_the_families(activation, growth, sizes):
    meter = meter_for(random_network(sizes, activation, 3))
    precision = measure_precision(meter, np.random.default_rng(0))
    assert observe_growth(meter, precision, np.random.default_rng(1)) is growth


def test_a_ray_close_to_a_hyperplane_does_not_hide_saturation():
    ray = np.random.default_rng(1).standard_normal((4, 5))[0]
    ray /= np.linalg.norm(ray)
    network = random_network((5, 6, 1), "tanh", 3)
    weights = [network.weights[0].copy(), network.weights[1]]
    weights[0][0] += (8e-6 - weights[0][0] @ ray) * ray
    meter = meter_for(Network(weights, network.biases, network.activations))
    precision = measure_precision(meter, np.random.default_rng(0))
    assert observe_growth(meter, precision, np.random.default_rng(1)) is Growth.SATURATING


def test_relu_layers_that_are_off_along_most_rays_do_not_hide_growth():
    """One unit that is on in a tenth of all directions: none of the first rays shows it."""
    normal = np.array([0.5, 0.5, 0.5, 0.5])
    first = Network(
        [normal[None], np.eye(1), np.eye(1)],
        [np.array([0.1]), np.zeros(1), np.ones(1)],
        ["relu", "relu", "identity"],
    )
    seen = []
    for seed in range(12):
        meter = meter_for(first)
        precision = measure_precision(meter, np.random.default_rng(0))
        seen.append(observe_growth(meter, precision, np.random.default_rng(seed)))
    assert set(seen) == {Growth.LINEAR}


def test_a_constant_is_told_from_saturation():
    constant = Network([np.zeros((1, 3))], [np.array([2.5])], ["identity"])
    meter = meter_for(constant)
    precision = measure_precision(meter, np.random.default_rng(0))
    assert observe_growth(meter, precision, np.random.default_rng(1)) is Growth.CONSTANT


def test_a_bounded_domain_is_not_left():
    meter = meter_for(random_network((3, 4, 1), "tanh"), Ball(5.0))
    precision = measure_precision(meter, np.random.default_rng(0))
    before = meter.ledger.total
    assert observe_growth(meter, precision, np.random.default_rng(1)) is Growth.UNSEEN
    assert meter.ledger.total == before


@pytest.mark.parametrize("domain", [None, Ball(4.0), Ball(1e3), Ball(1e9)])
@pytest.mark.parametrize(
    ("activation", "expected"),
    [("relu", True), ("leaky_relu", True), ("gelu", False), ("softplus", False), ("tanh", False)],
)
def test_piecewise_linear_answers_are_recognised(activation, expected, domain):
    for seed in range(3):
        meter = meter_for(random_network((8, 20, 1), activation, seed), domain)
        precision = measure_precision(meter, np.random.default_rng(0))
        assert is_piecewise_linear(meter, precision, np.random.default_rng(seed)) is expected
