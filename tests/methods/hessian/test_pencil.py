"""One hidden layer of at most as many units as inputs, from two Hessians."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave import Ball, Box
from unweave.algebra.pencil import eigen_pencil
from unweave.methods.hessian.pencil import HessianPencil
from unweave.methods.hessian.span_shallow import LARGE, fit_shallow
from unweave.students.scalars import fit_scalars


@pytest.mark.parametrize(
    ("sizes", "activation", "domain"),
    [
        ((12, 7, 1), "tanh", Ball(6.0)),
        ((10, 10, 1), "gelu", Box(-2.0, 2.0)),
        ((9, 6, 2), "softplus", Ball(5.0)),
        ((14, 14, 1), "sigmoid", None),
    ],
)
def test_as_many_units_as_inputs_or_fewer(sizes, activation, domain):
    network = random_network(sizes, activation, 3)
    given = "sigmoid" if activation == "sigmoid" else "auto"
    found = unweave.identify(network, method="hessian-pencil", domain=domain, activation=given, seed=3)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8
    assert found.details["ranks"]["hessian_spectrum"] == sizes[1]


def test_it_takes_a_fourth_of_what_the_span_takes():
    network = random_network((16, 16, 1), "tanh", 4)
    spent = {
        method: unweave.identify(
            network, method=method, domain=Ball(7.0), activation="tanh", seed=1
        ).ledger.total
        for method in ("hessian-pencil", "hessian-span")
    }
    assert 3 * spent["hessian-pencil"] < spent["hessian-span"]
    assert spent["hessian-pencil"] < 7 * network.num_parameters


@pytest.mark.parametrize("sizes", [(10, 16, 1), (10, 10, 4, 1)])
def test_more_units_or_layers_are_not_claimed(sizes):
    found = unweave.identify(
        random_network(sizes, "tanh", 5), method="hessian-pencil", domain=Ball(6.0), activation="tanh", seed=2
    )
    assert found.network is None
    assert "in-domain" in found.reason


def test_coarse_answers_small_budgets_and_other_shapes_are_declined_at_once():
    network = random_network((12, 6, 1), "tanh", 6)
    rounded = unweave.identify(
        lambda x: np.round(network(x), 5), input_size=12, method="hessian-pencil", seed=0
    )
    assert "coarse" in rounded.reason
    short = unweave.identify(network, method="hessian-pencil", activation="tanh", budget=200, seed=0)
    assert "288 queries" in short.reason
    assert short.ledger.total <= 200
    deep = unweave.identify(network, method="hessian-pencil", activation="tanh", hidden=(6, 3), seed=0)
    assert "one hidden layer" in deep.reason


def test_from_thirty_inputs_on_auto_asks_for_two_hessians_first():
    network = random_network((32, 9, 1), "gelu", 7)
    found = unweave.identify(network, domain=Ball(9.0), seed=4)
    assert found.identified, found.reason
    assert found.method == "hessian-pencil"
    assert unweave.compare(network, found).max_relative_error < 1e-8


def test_eigenvectors_of_the_pencil_are_the_rows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 6))
    first, second = (rows.T * d @ rows for d in rng.standard_normal((2, 6)))
    vectors = np.real(eigen_pencil(first, second)[1])
    cosines = np.abs((rows / np.linalg.norm(rows, axis=1, keepdims=True)) @ vectors)
    np.testing.assert_allclose(np.max(cosines, axis=1), 1.0, atol=1e-9)


def test_slopes_and_shifts_follow_from_answers():
    network = random_network((8, 5, 2), "softplus", 8)
    norms = np.linalg.norm(network.weights[0], axis=1)
    x = 2 * np.random.default_rng(1).standard_normal((400, 8))
    found = fit_scalars(x, network(x), network.weights[0] / norms[:, None], "softplus", float("inf"))
    assert found.rms < 1e-10
    np.testing.assert_allclose(np.abs(found.slopes), norms, rtol=1e-7)
    np.testing.assert_allclose(found.shifts * np.sign(found.slopes), network.biases[0], atol=1e-7)


@pytest.mark.parametrize(
    ("sizes", "activation"), [((14, 22, 1), "tanh"), ((12, 15, 2), "sigmoid"), ((12, 16, 1), "gelu")]
)
def test_more_units_than_inputs_from_hessians_in_a_few_directions(sizes, activation):
    network = random_network(sizes, activation, 8)
    method = HessianPencil(crowded_from=10)
    found = unweave.identify(network, method=method, domain=Box(-1.5, 1.5), activation="auto", seed=4)
    assert found.identified, found.reason
    assert found.network is not None
    as_given = found.network.as_sigmoid() if activation == "sigmoid" else found.network
    assert unweave.compare(network, as_given).max_relative_error < 1e-8
    assert found.details["ranks"]["hessian_spectrum"] == sizes[1]


def test_further_layers_are_no_sum_of_few_squares():
    network = random_network((12, 12, 5, 1), "tanh", 5)
    method = HessianPencil(crowded_from=10)
    found = unweave.identify(network, method=method, domain=Box(-1.0, 1.0), activation="tanh", seed=2)
    assert found.network is None
    assert "sum of few squares" in found.reason
    assert found.ledger.total < 30 * network.num_parameters


def test_large_fits_reach_the_last_digits_without_a_jacobian():
    network = random_network((40, 45, 1), "sigmoid", 3)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3 * network.num_parameters // 2, 40))
    rows = network.weights[0] * (1 + 1e-3 * rng.standard_normal(network.weights[0].shape))
    fit = fit_shallow(x, network(x), rows, network.biases[0] + 1e-3, "sigmoid", noise=0.0)
    assert network.num_parameters > LARGE
    assert fit.network is not None
    assert unweave.compare(network, fit.network).max_relative_error < 1e-10
