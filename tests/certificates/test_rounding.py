"""Rounded answers are intervals: a claim keeps to all of them, and no other unit of the family does as well."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.certificates.bends import roundest_bend
from unweave.certificates.rounding import BENDS, check_rounding
from unweave.core.domains import Ball
from unweave.core.network import Network
from unweave.evidence.precision import Precision
from unweave.solve.fit import fit_network


def rounded(function, decimals: int):
    return lambda x: np.round(function(x), decimals)


def answers_of(function, num_points: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = Ball(2.5).sample(num_points, 3, np.random.default_rng(seed))
    return x, function(x)


@pytest.mark.parametrize("decimals", [2, 3, 5])
def test_the_fitted_truth_keeps_to_every_interval_and_is_alone(decimals):
    truth = random_network((3, 3, 1), "tanh", 2)
    model = rounded(truth, decimals)
    used, fresh = answers_of(model, 200), answers_of(model, 200, 1)
    every = np.concatenate([used[0], fresh[0]]), np.concatenate([used[1], fresh[1]])
    step = 10.0**-decimals
    precision = Precision(step / np.sqrt(12), 1.0, "rounded", step)
    fitted = fit_network(truth, *used).network
    intervals, alone = check_rounding(fitted, used, every, precision)
    assert intervals.passed
    assert 0.3 < intervals.figures["worst"] <= 1
    assert alone.passed
    assert alone.figures["num_tried"] == 2


def test_a_network_that_is_off_by_more_than_half_a_step_is_refused():
    truth = random_network((3, 3, 1), "tanh", 2)
    model = rounded(truth, 3)
    used = answers_of(model, 300)
    precision = Precision(1e-3 / np.sqrt(12), 1.0, "rounded", 1e-3)
    wrong = Network(truth.weights, [truth.biases[0], truth.biases[1] + 1.5e-3], truth.activations)
    (intervals,) = check_rounding(wrong, used, used, precision)
    assert intervals.passed is False
    assert "than rounding explains" in intervals.reason


def test_what_two_digits_cannot_tell_apart_is_not_claimed():
    weights = [0.3 * np.ones((1, 3)), np.ones((1, 1))]
    flat = Network(weights, [np.array([0.1]), np.zeros(1)], ["tanh", "identity"])
    model = rounded(lambda x: 0.2 * flat(x), 1)
    used = answers_of(model, 100)
    precision = Precision(0.1 / np.sqrt(12), 0.1, "rounded", 0.1)
    smaller = Network([weights[0], 0.2 * weights[1]], flat.biases, flat.activations)
    _, alone = check_rounding(smaller, used, used, precision)
    assert alone.passed is False
    assert "explain the answers as well" in alone.reason


@pytest.mark.parametrize("decimals", [2, 3])
@pytest.mark.parametrize("domain", [None, Ball(2.0)], ids=str)
@pytest.mark.parametrize("unit", ["gudermannian", "algebraic"])
def test_one_unit_of_another_kind_is_not_claimed_as_a_wider_network(unit, decimals, domain):
    functions = {
        "gudermannian": lambda z: 2 * np.arctan(np.tanh(z / 2)),
        "algebraic": lambda z: z / np.sqrt(1 + z * z),
    }
    for seed in range(2):
        rng = np.random.default_rng(seed)
        w, b, a = 1.3 * rng.standard_normal(3), 0.3 * rng.standard_normal(), 2 * rng.standard_normal()
        model = rounded(lambda x, w=w, b=b, a=a: a * functions[unit](x @ w + b), decimals)
        found = unweave.identify(model, input_size=3, domain=domain, time_limit=5)
        assert not found.identified, found.verdict()


def soft_corner(rng: np.random.Generator, size: float, steepness: float):
    w = rng.standard_normal(3)
    return lambda x: size * np.logaddexp(0, steepness * (x @ w + 0.2))[:, None] / steepness


@pytest.mark.parametrize("seed", range(3))
def test_a_bend_that_may_be_round_is_not_claimed_as_sharp(seed):
    # the answers take some twenty values: nothing says that what they bend over is a corner
    model = rounded(soft_corner(np.random.default_rng(seed), 0.1, 400.0), 2)
    found = unweave.identify(model, input_size=3, time_limit=5)
    assert not found.identified, found.verdict()


@pytest.mark.parametrize("seed", range(3))
def test_a_claim_behind_rounding_says_how_round_its_bends_may_be(seed):
    clean = soft_corner(np.random.default_rng(seed), 2.0, 400.0)
    found = unweave.identify(rounded(clean, 2), input_size=3, time_limit=5)
    assert not found.identified or "would not show" in found.verdict()
    if found.identified:
        stated = found.certificate.check(BENDS).figures["roundest"]
        assert 2.0 * np.log(2) / 400 <= stated < 0.05


def test_every_bend_is_bounded_by_the_answer_next_to_it():
    network = Network(
        [np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 1.0]])],
        [np.zeros(2), np.zeros(1)],
        ["relu", "identity"],
    )
    on_both = np.array([[0.0, 5.0], [7.0, 0.0]])
    assert roundest_bend(network, on_both, np.full((2, 1), 0.01)) == pytest.approx(0.02)
    beside_one = np.array([[0.4, 5.0], [7.0, 0.0]])
    assert roundest_bend(network, beside_one, np.full((2, 1), 0.01)) == pytest.approx(0.02 + 3 * 0.2)
