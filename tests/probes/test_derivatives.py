"""Derivatives against analytic ones, at several noise levels, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.core.domains import Ball
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision, measure_precision
from unweave.models.python_callable import CallableOracle
from unweave.probes.derivatives import (
    Differences,
    choose_step,
    estimate_gradients,
    estimate_hessians,
    estimate_length,
)


def meter_of(network: Network, noise: float = 0.0, **settings) -> Meter:
    rng = np.random.default_rng(0)

    def answer(x):
        y = network(x)
        return y + noise * rng.standard_normal(y.shape)

    oracle = CallableOracle("test", network.input_size, network.output_size, "float64", answer)
    return Meter(oracle, **settings)


def true_derivatives(network: Network, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (n, d, outputs) and Hessians (n, outputs, d, d) of a network with one hidden layer."""
    rows, outgoing = network.weights
    z = x @ rows.T + network.biases[0]
    phi = act.get(network.activations[0])
    gradients = np.einsum("ok,nk,kd->ndo", outgoing, phi.first(z, np), rows)
    return gradients, np.einsum("ok,nk,ki,kj->noij", outgoing, phi.second(z, np), rows, rows)


@pytest.mark.parametrize(
    ("scheme", "first", "second"),
    [("forward", 3e-7, 3e-4), ("central", 1e-9, 3e-6), ("richardson", 1e-10, 1e-8)],
)
def test_exact_answers_give_the_accuracy_of_the_scheme(scheme, first, second):
    network = random_network((6, 9, 2), "tanh", 1)
    meter = meter_of(network)
    precision = measure_precision(meter, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((5, 6))
    steps = Differences.chosen(scheme, precision)
    gradients, hessians = true_derivatives(network, x)
    assert np.max(np.abs(estimate_gradients(meter, x, steps) - gradients)) < first
    assert np.max(np.abs(estimate_hessians(meter, x, steps) - hessians)) < second


@pytest.mark.parametrize("noise", [1e-10, 1e-6, 1e-3])
def test_steps_follow_the_noise(noise):
    network = random_network((5, 6, 1), "tanh", 2)
    x = np.random.default_rng(1).standard_normal((6, 5))
    gradients, hessians = true_derivatives(network, x)
    precision = Precision(noise, 1.0, "noisy")
    steps = Differences.chosen("central", precision)
    first = np.max(np.abs(estimate_gradients(meter_of(network, noise), x, steps) - gradients))
    second = np.max(np.abs(estimate_hessians(meter_of(network, noise), x, steps) - hessians))
    assert first < 40 * noise ** (2 / 3)
    assert second < 60 * noise**0.5
    assert choose_step("central", 1, precision) == pytest.approx(noise ** (1 / 3), rel=0.5)
    naive = Differences("central", 1e-6, 1e-5)
    assert second < np.max(np.abs(estimate_hessians(meter_of(network, noise), x, naive) - hessians))


@pytest.mark.parametrize(
    ("scheme", "count"), [("forward", 1 + 7 + 28), ("central", 1 + 7 + 49), ("richardson", 1 + 2 * (7 + 49))]
)
def test_a_hessian_costs_what_it_says(scheme, count):
    network = random_network((7, 5, 1), "sigmoid", 3)
    meter = meter_of(network)
    estimate_hessians(meter, np.full((1, 7), 0.25), Differences(scheme, 2.0**-10, 2.0**-10))
    assert meter.ledger.total == count


def test_along_a_subspace():
    network = random_network((8, 5, 1), "tanh", 4)
    meter = meter_of(network)
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((8, 3)))[0]
    x = np.random.default_rng(6).standard_normal((4, 8))
    gradients, hessians = true_derivatives(network, x)
    steps = Differences("richardson", 2.0**-9, 2.0**-7)
    inner = np.einsum("ia,noij,jb->noab", basis, hessians, basis)
    assert np.max(np.abs(estimate_hessians(meter, x, steps, basis) - inner)) < 1e-6
    along = np.einsum("ia,nio->nao", basis, gradients)
    assert np.max(np.abs(estimate_gradients(meter, x, steps, basis) - along)) < 1e-6


@pytest.mark.parametrize("norm", [0.2, 1.0, 8.0])
def test_the_length_follows_the_size_of_the_rows(norm):
    base = random_network((6, 8, 1), "tanh", 7, norms=(1.0, 1.0))
    network = Network([norm * base.weights[0], base.weights[1]], base.biases, base.activations)
    meter = meter_of(network, domain=Ball(200.0))
    precision = Precision(1e-16, 1.0, "float64")
    x = np.random.default_rng(8).standard_normal((6, 6)) / norm
    length = estimate_length(meter, precision, x, np.random.default_rng(9), longest=2.0)
    assert 0.2 / norm < length < 10 / norm
