"""Weighted Gauss-Newton on any network: to rounding or to the noise, by whole factors, unit blocks or layer blocks."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core import clock
from unweave.core.deadline import Deadline, hold
from unweave.core.network import Network
from unweave.solve import gauss_newton
from unweave.solve.descend import End
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.weighted import weighted_polish, weighted_system


def _task(sizes, activation, noise=0.0, error=1e-4, seed=1):
    truth, rng = random_network(sizes, activation, seed), np.random.default_rng(seed)
    x = rng.standard_normal((3 * truth.num_parameters, sizes[0]))
    y = truth(x) + noise * rng.standard_normal((len(x), sizes[-1]))
    start = truth.with_flat(truth.flat() * (1 + error * rng.standard_normal(truth.num_parameters)))
    return truth, start, x, y


@pytest.fixture(params=["coupled", "unit blocks", "layer blocks"])
def factor(request, monkeypatch):
    monkeypatch.setattr(gauss_newton, "MOST_COUPLED", 6000 if request.param == "coupled" else 0)
    monkeypatch.setattr(gauss_newton, "MOST_BLOCKS", 0 if request.param == "layer blocks" else 10**7)


@pytest.mark.parametrize(("sizes", "activation"), [((12, 8, 6, 1), "relu"), ((6, 8, 5, 3), "tanh")])
def test_exact_answers_bring_the_network_to_rounding(factor, sizes, activation):
    truth, start, x, y = _task(sizes, activation)
    spread = np.std(y)
    fit = polish_weighted(start, x, y, 1e-16 * spread, max_steps=15)
    assert fit.history[0] > 1e10
    assert fit.rms < 30
    assert np.max(np.abs(fit.network(x) - truth(x))) < 1e-13 * spread


def test_noisy_answers_end_at_the_weighted_optimum(factor):
    truth, start, x, y = _task((6, 5, 1), "tanh", noise=0.0)
    sigma = np.exp(np.random.default_rng(3).uniform(-9, -5, len(x)))
    y = y + sigma[:, None] * np.random.default_rng(4).standard_normal(y.shape)
    fit = polish_weighted(start, x, y, sigma, max_steps=20)
    assert 0.7 < fit.rms < 1  # a third of the answers' errors goes into the parameters
    jacobian = gauss_newton.Layout.of(truth).linearise(fit.network.flat(), x)[1] / sigma[:, None]
    slope = jacobian.T @ ((fit.network(x) - y).ravel() / sigma)
    assert np.max(np.abs(slope) / np.linalg.norm(jacobian, axis=0)) < 1e-2 * np.sqrt(len(x))


def test_a_rough_start_wants_damping():
    truth, start, x, y = _task((10, 6, 5, 1), "relu", error=3e-2)
    fit = polish_weighted(start, x, y, 1e-16 * np.std(y), max_steps=40, damping=1e-4, patience=5)
    assert np.max(np.abs(fit.network(x) - truth(x))) < 1e-13 * np.std(y)


def test_units_that_no_answer_tells_about_stay_where_they_are(factor):
    truth, start, x, y = _task((6, 5, 1), "relu")
    biases = start.biases[0].copy()
    biases[2] = -100.0  # never active
    dead = Network(start.weights, [biases, start.biases[1]], start.activations)
    y = Network(truth.weights, [biases, truth.biases[1]], truth.activations)(x)
    fit = polish_weighted(dead, x, y, 1e-16 * np.std(y), max_steps=15)
    np.testing.assert_array_equal(fit.network.weights[0][2], dead.weights[0][2])
    assert np.max(np.abs(fit.network(x) - y)) < 1e-13 * np.std(y)
    assert weighted_system(fit.network, x, y, 1e-16) is not None


@pytest.mark.parametrize("polish", ["by products", "by a triangle"])
def test_a_limit_is_kept_inside_a_step(polish):
    """The factor alone of so many parameters takes longer; what was there is returned."""
    _, start, x, y = _task((10, 50, 40, 2), "relu")
    limit = Deadline(0.2)
    began = clock.now()
    with hold(limit):
        if polish == "by products":
            fit = polish_weighted(start, x, y, 1e-12)
            assert fit.end is End.TIME
            network = fit.network
        else:
            network = weighted_polish(start, x[:3000], y[:3000], 1e-12)
    assert clock.now() - began < 0.7
    np.testing.assert_array_equal(network.flat(), start.flat())


def test_a_factor_of_everything_takes_fewer_steps_where_units_stand_in_for_one_another():
    network = random_network((12, 40, 1), "tanh", 3)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2 * network.num_parameters, 12))
    start = network.with_flat(network.flat() + 1e-3 * rng.standard_normal(network.num_parameters))

    def after_four(most_coupled: int) -> float:
        fit = polish_weighted(
            start, x, network(x), 1e-15, max_steps=4, damping=1e-9, most_coupled=most_coupled
        )
        return fit.rms

    assert after_four(1000) < 1e-3 * after_four(100)
