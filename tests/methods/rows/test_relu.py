"""Relu units from rows: exact recovery, noise at the Cramer-Rao bound, and honest ends."""

from __future__ import annotations

import re

import numpy as np
import pytest

from unweave import Network, Outcome, compare, learn
from unweave.solve.streamed import streamed_information


def planted(d: int, m: int, seed: int, *, largest_bias: float = 1.0, activation: str = "relu") -> Network:
    rng = np.random.default_rng([seed, d, m])
    rows = rng.standard_normal((m, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    outputs = rng.choice([-1.0, 1.0], m) * rng.uniform(0.5, 1.5, m)
    biases = rng.uniform(-largest_bias, largest_bias, m)
    return Network([rows, outputs[None]], [biases, None], [activation, "identity"])


def draw(network: Network, num_rows: int, seed: int = 0, noise: float = 0.0):
    rng = np.random.default_rng([seed, 7])
    x = rng.standard_normal((num_rows, network.input_size))
    return x, network(x) + noise * rng.standard_normal((num_rows, network.output_size))


@pytest.mark.parametrize(
    ("d", "m", "ratio", "largest_bias"),
    [(5, 5, 4, 1), (10, 5, 4, 1), (10, 10, 4, 1), (8, 15, 4, 1), (10, 10, 8, 2)],
)
def test_exact_at_four_rows_a_parameter(d, m, ratio, largest_bias):
    for seed in (1, 2):
        truth = planted(d, m, seed, largest_bias=largest_bias)
        found = learn(*draw(truth, ratio * (m + 1) * (d + 1)), activation="relu", seed=seed)
        assert found.identified, found.verdict()
        assert compare(truth, found.network).max_relative_error < 1e-9


def test_leaky_units_and_their_slope():
    truth = planted(6, 6, 0, activation="leaky_relu(0.2)")
    found = learn(*draw(truth, 300), activation="leaky_relu(0.2)")
    assert found.identified
    assert compare(truth, found.network).max_relative_error < 1e-9


def test_several_outputs():
    rng = np.random.default_rng(5)
    truth = Network(
        [rng.standard_normal((6, 4)), rng.standard_normal((3, 6))],
        [rng.uniform(-1, 1, 6), rng.standard_normal(3)],
        ["relu", "identity"],
    )
    found = learn(*draw(truth, 300), activation="relu")
    assert found.identified
    assert compare(truth, found.network).max_relative_error < 1e-9


def test_noisy_rows_reach_the_bound_and_state_their_errors():
    squared, bound, inside = [], [], []
    for seed in range(2, 7):
        truth = planted(5, 5, seed)
        x, y = draw(truth, 5000, seed, noise=0.05)
        found = learn(x, y, activation="relu", seed=seed)
        assert found.identified, found.verdict()
        assert found.hidden == (5,)
        assert found.precision is not None
        assert abs(found.precision.noise - 0.05) < 0.003
        comparison = compare(truth, found.network)
        error = comparison.aligned.flat() - comparison.reference.flat()
        expected = streamed_information(comparison.reference, [(x, y)])
        assert expected is not None
        squared.append(np.mean(error**2))
        bound.append(np.mean((0.05 * expected.deviations) ** 2))
        largest = np.sort(found.details["standard_errors"])  # the order of units differs, the sizes do not
        inside.append(np.mean(np.abs(error) <= 3 * np.max(largest)))
    assert np.sqrt(np.mean(squared) / np.mean(bound)) < 1.3
    assert np.min(inside) == 1


def test_signs_that_the_function_does_not_determine():
    """Dependent weights with zero biases: relu(u) + relu(v) + relu(-u-v) is even, so all signs may flip at once."""
    rows = np.random.default_rng(0).standard_normal((2, 3))
    truth = Network(
        [np.vstack([rows, -rows.sum(axis=0)]), np.ones((1, 3))], [np.zeros(3), None], ["relu", "identity"]
    )
    x, y = draw(truth, 400)
    found = learn(x, y, activation="relu")
    assert found.outcome is Outcome.PARTLY
    assert "signs of 3 units are not determined by the function" in found.reason
    assert found.network is not None
    assert np.max(np.abs(found.network(x) - y)) < 1e-12


def test_units_that_are_never_or_always_active():
    truth = planted(6, 6, 1)
    for bias, outcome in ((-9.0, Outcome.IDENTIFIED), (9.0, Outcome.PARTLY)):
        biases = truth.biases[0].copy()
        biases[2] = bias
        x, y = draw(Network(truth.weights, [biases, None], truth.activations), 600)
        found = learn(x, y, activation="relu", width=6)
        assert found.outcome is outcome
        assert found.network is not None
        assert np.max(np.abs(found.network(x) - y)) < 1e-11
        assert "cannot be seen in the rows" in found.verdict()
    assert "linear term" in found.reason


def test_too_few_rows():
    x, y = draw(planted(10, 10, 1), 200)
    found = learn(x, y, activation="relu", width=10)
    assert found.outcome is Outcome.NOT_IDENTIFIED
    assert "180 rows are too few for 10 units of 10 inputs" in found.reason


def test_noise_alone_is_no_network():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2000, 4))
    found = learn(x, x @ [1.0, 2.0, 3.0, 4.0] + 0.1 * rng.standard_normal(2000), activation="relu")
    assert found.outcome is Outcome.PARTLY
    assert found.hidden == ()
    stated = re.search(r"noise of standard deviation (\S+) explains the rows", found.reason)
    assert stated is not None, found.reason
    assert abs(float(stated[1]) - 0.1) < 0.005


@pytest.mark.parametrize(("activation", "noise"), [("tanh", 0.0), ("softplus", 0.02)])
def test_smooth_units_are_not_taken_for_relu(activation, noise):
    found = learn(*draw(planted(4, 3, 3, activation=activation), 250, noise=noise), activation="relu")
    assert not found.identified, found.verdict()
