"""Points that are chosen for what they tell: the standard errors promised, at a fraction of the points."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.domains import Ball
from unweave.solve.design import telling_points, unit_sizes
from unweave.solve.polish import polish

NOISE = 1e-6
BALL = Ball(4.0)


def _worst(network, x):
    """The largest standard error relative to its unit, by the fit's own account."""
    errors = polish(network, x, network(x), noise=NOISE).standard_errors
    return float(np.max(errors / unit_sizes(network)))


def _draw(seed):
    rng = np.random.default_rng(seed)
    return lambda num_points: BALL.sample(num_points, 6, rng)


@pytest.mark.parametrize("sizes", [(6, 5, 1), (6, 5, 3, 2)])
def test_the_goal_is_reached_with_a_fraction_of_the_points_that_chance_takes(sizes):
    network, draw = random_network(sizes, "tanh", 54), _draw(0)
    x = draw(150)
    goal = _worst(network, x) / 4
    chosen = telling_points(network, x, draw, noise=NOISE, goal=goal, most=10_000)
    assert np.all(BALL.contains(chosen))
    both = np.concatenate([x, chosen])
    assert 0.7 * goal < _worst(network, both) <= 1.01 * goal
    assert _worst(network, np.concatenate([x, draw(2 * len(chosen))])) > goal


def test_no_more_points_than_allowed_and_none_where_none_are_needed():
    network, draw = random_network((6, 5, 1), "tanh", 54), _draw(1)
    x = draw(150)
    worst = _worst(network, x)
    assert len(telling_points(network, x, draw, noise=NOISE, goal=worst / 100, most=40)) == 40
    assert len(telling_points(network, x, draw, noise=NOISE, goal=2 * worst, most=40)) == 0
    assert len(telling_points(network, x, draw, noise=NOISE, goal=worst / 100, most=0)) == 0


def test_directions_that_the_answers_hide_are_not_taken_for_known():
    network, draw = random_network((6, 5, 1), "tanh", 54), _draw(2)
    x = 1e-9 * draw(150)  # around the origin everything is affine to rounding
    assert len(telling_points(network, x, draw, noise=NOISE, goal=1.0, most=40)) > 0


def test_the_size_of_a_unit_is_its_largest_parameter():
    network = random_network((2, 3, 1), "tanh", 3)
    sizes = network.with_flat(unit_sizes(network))
    rows = np.hstack([network.weights[0], network.biases[0][:, None]])
    np.testing.assert_array_equal(sizes.weights[0][:, 0], np.max(np.abs(rows), axis=1))
    np.testing.assert_array_equal(sizes.biases[0], np.max(np.abs(rows), axis=1))
