"""Average derivatives from samples alone: against quadrature, and as the start of an exact fit."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.algebra.rank_one import find_components
from unweave.comparison import compare
from unweave.core import activations as act
from unweave.core.errors import InputError
from unweave.experiments.stein import Gaussian, average_derivatives, span_from_samples
from unweave.methods.hessian.span_shallow import fit_shallow


def test_averages_under_a_general_gaussian_agree_with_quadrature():
    rng = np.random.default_rng(0)
    network = random_network((3, 2, 2), "tanh", 1)
    mixing = rng.standard_normal((3, 3)) * 0.4 + np.eye(3)
    density = Gaussian(np.array([0.3, -0.2, 0.5]), mixing @ mixing.T)
    x = density.mean + rng.standard_normal((200_000, 3)) @ mixing.T
    found = average_derivatives(x, network(x), density)
    rows, outgoing = network.weights
    phi = act.get("tanh")
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    mean, deviation = rows @ density.mean + network.biases[0], np.linalg.norm(rows @ mixing, axis=1)
    z = mean[:, None] + deviation[:, None] * nodes
    gradient = np.einsum("ok,k,ki->oi", outgoing, phi.first(z, np) @ weights, rows)
    hessian = np.einsum("ok,k,ki,kj->oij", outgoing, phi.second(z, np) @ weights, rows, rows)
    assert found.num_effective == pytest.approx(200_000)
    assert np.max(np.abs(found.gradient - gradient)) < 0.02
    assert np.max(np.abs(found.hessian - hessian)) < 0.03
    plain = average_derivatives(x, network(x), density, control=False)
    assert np.max(np.abs(plain.hessian - hessian)) < 0.2


def test_quadratics_are_exact_from_few_samples():
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((4, 4))
    matrix = matrix + matrix.T
    x = rng.standard_normal((60, 4))
    y = 0.5 * np.einsum("ni,ij,nj->n", x, matrix, x)[:, None] + x[:, :1] - 2
    found = average_derivatives(x, y, Gaussian.standard(4))
    assert np.allclose(found.hessian[0], matrix, atol=1e-10)


def test_a_shallow_network_is_recovered_exactly_from_samples_through_the_span():
    network = random_network((5, 3, 1), "tanh", 2)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60_000, 5))
    y = network(x)
    span, _ = span_from_samples(x, y, Gaussian.standard(5), rng, num_centres=40, dimension=3)
    found = find_components(span, rng, exact=False).top(3).vectors
    rows = network.weights[0] / np.linalg.norm(network.weights[0], axis=1, keepdims=True)
    cosines = np.max(np.abs(rows @ found.T), axis=1)
    assert np.min(cosines) > 0.95
    fit = fit_shallow(x[:400], y[:400], found, np.zeros(3), "tanh", noise=0.0)
    assert fit.network is not None
    assert compare(network, fit.network).max_relative_error < 1e-8


def test_shapes_are_checked():
    with pytest.raises(InputError, match="do not fit"):
        average_derivatives(np.zeros((5, 2)), np.zeros((5, 1)), Gaussian.standard(3))
