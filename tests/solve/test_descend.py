"""Levenberg-Marquardt: it reaches rounding inside the basin, stops for stated reasons, primal and dual agree."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.core.network import Network
from unweave.solve import polish as polishing
from unweave.solve.accelerated import AcceleratedProblem
from unweave.solve.descend import Settings, descend, minimise
from unweave.solve.fit import fit_network, spread_of
from unweave.solve.information import NULL
from unweave.solve.layout import Layout
from unweave.solve.polish import polish
from unweave.solve.step import DenseStep


def _perturbed(network, seed, size=0.1):
    factors = 1 + size * np.random.default_rng(seed).standard_normal(network.num_parameters)
    return network.with_flat(network.flat() * factors)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu"])
@pytest.mark.parametrize("sizes", [(6, 5, 1), (5, 6, 3, 2)])
def test_from_nearby_the_truth_comes_back_to_rounding(sizes, activation):
    truth = random_network(sizes, activation, 5)
    x = np.random.default_rng(6).standard_normal((4 * truth.num_parameters, sizes[0]))
    fit = fit_network(_perturbed(truth, 7, 0.02), x, truth(x))
    assert fit.converged
    polished = polish(fit.network, x, truth(x))
    assert polished.rms < 1e-14
    assert polished.null_directions.shape[1] == 0
    assert compare(truth, polished.network).max_relative_error < 1e-11


def test_accelerated_steps_are_the_same_steps():
    truth = random_network((5, 6, 2), "tanh", 8)
    x = np.random.default_rng(9).standard_normal((200, 5))
    layout, start, y = Layout.of(truth), _perturbed(truth, 10).flat(), truth(x)
    settings = Settings(max_steps=6, coarse_damping=np.inf)
    problem = AcceleratedProblem(layout, x, y)
    here = descend(problem, problem.inside(start), spread_of(y), settings)
    there = fit_network(truth.with_flat(start), x, y, settings=settings)
    np.testing.assert_allclose(here.history, there.history, rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(problem.outside(here.parameters), there.network.flat(), rtol=1e-6, atol=1e-9)


def test_more_parameters_than_residuals_use_the_dual_system():
    rng = np.random.default_rng(11)
    matrix, right = rng.standard_normal((5, 12)), rng.standard_normal(5)
    found = minimise(lambda t: matrix @ t - right, lambda t: (matrix @ t - right, matrix), np.zeros(12))
    assert found.converged
    np.testing.assert_allclose(matrix @ found.parameters, right, atol=1e-11)


def test_differences_are_coarser_where_rounding_would_spoil_them(monkeypatch):
    network = random_network((3, 4, 1), "tanh", 5)
    x = np.random.default_rng(6).standard_normal((200, 3))
    y = network(x)
    asked = []
    propose = DenseStep.propose

    def watched(self, damping, **options):
        asked.append((np.sqrt(self.loss / 200) / spread_of(y), options["difference"]))
        return propose(self, damping, **options)

    monkeypatch.setattr(DenseStep, "propose", watched)
    fit = fit_network(_perturbed(network, 7), x, y, settings=Settings(difference=0.01))
    assert fit.converged
    assert {difference for rms, difference in asked if rms > 1e-7} == {0.01}
    assert {difference for rms, difference in asked if rms < 1e-7} == {0.1}


def test_a_hopeless_fit_stops_by_itself():
    rng = np.random.default_rng(12)
    network = random_network((3, 2, 1), "tanh", 13)
    fit = fit_network(network, rng.standard_normal((300, 3)), rng.standard_normal((300, 1)))
    assert fit.end in ("stalled", "stationary")
    assert 0.5 < fit.rms < 1.1


def test_the_clock_stops_a_fit():
    truth = random_network((6, 5, 1), "tanh", 14)
    x = np.random.default_rng(15).standard_normal((200, 6))
    fit = fit_network(_perturbed(truth, 16), x, truth(x), settings=Settings(deadline=0.0))
    assert (fit.end, fit.num_steps) == ("time", 0)


def test_polish_names_what_the_data_do_not_determine():
    truth = random_network((4, 5, 1), "tanh", 17)
    x = np.random.default_rng(18).standard_normal((200, 4))
    x[:, 2] = 0.5  # the third input never moves: its weights and the biases trade off
    polished = polish(truth, x, truth(x))
    assert polished.null_directions.shape[1] == 5
    weights = {5 * unit + 2 for unit in range(5)}
    assert weights <= set(np.flatnonzero(np.isinf(polished.standard_errors)).tolist())


@pytest.mark.parametrize("redundant", [False, True])
def test_what_seems_to_vanish_in_normal_equations_may_only_be_small(redundant, monkeypatch):
    truth = random_network((4, 5, 1), "sigmoid", 21)
    first, biases = truth.weights[0] * 1e-3, truth.biases[0].copy()  # hardly bends: condition 1e9
    if redundant:
        first[1], biases[1] = first[0], biases[0]
    nearly_affine = Network([first, truth.weights[1]], [biases, truth.biases[1]], ["sigmoid", "identity"])
    x = np.random.default_rng(22).standard_normal((400, 4))
    monkeypatch.setattr(polishing, "LARGE", 10)
    polished = polish(nearly_affine, x, nearly_affine(x))
    assert polished.information.condition > 1 / NULL
    assert bool(polished.null_directions.shape[1]) == redundant
    monkeypatch.setattr(polishing, "AFFORDABLE", 0)
    assert polish(nearly_affine, x, nearly_affine(x)).null_directions.shape[1]


def test_standard_errors_are_those_of_repeated_experiments():
    truth = random_network((3, 3, 1), "tanh", 19)
    rng = np.random.default_rng(20)
    x, noise = rng.standard_normal((300, 3)), 1e-4
    fits = [
        polish(truth, x, truth(x) + noise * rng.standard_normal((300, 1)), noise=noise) for _ in range(60)
    ]
    spread = np.std([fit.network.flat() for fit in fits], axis=0)
    ratio = spread / fits[0].standard_errors
    assert 0.6 < np.median(ratio) < 1.5
