"""Domains: samples and edges lie inside, points beyond do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unweave.core.domains import Ball, Box, Domain, Everywhere, Normal
from unweave.core.errors import InputError

DOMAINS = [
    Ball(2.0),
    Ball(0.5, centre=np.array([5.0, -7.0, 100.0])),
    Box(-1, 3),
    Box(np.array([0.0, -5.0, 1000.0]), np.array([1e-3, 5.0, 1001.0])),
    Normal(2.0, 1.0),
    Everywhere(),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), num_points=st.integers(1, 40))
def test_samples_and_edges_lie_inside(domain, seed, num_points):
    assert isinstance(domain, Domain)
    for draw in (domain.sample, domain.edge):
        x = draw(num_points, 3, np.random.default_rng(seed))
        assert x.shape == (num_points, 3)
        assert np.all(np.isfinite(x))
        assert np.all(domain.contains(x))
        assert np.array_equal(x, draw(num_points, 3, np.random.default_rng(seed)))
        assert np.all(domain.contains(x, 0.0))


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_nearest_point_is_strictly_inside_and_survives_rounding(domain):
    x = 1e3 * np.random.default_rng(3).standard_normal((200, 3))
    assert np.all(domain.contains(domain.nearest(x), 0.0))
    inside = domain.sample(50, 3, np.random.default_rng(4))
    assert np.allclose(domain.nearest(inside), inside, rtol=1e-14, atol=1e-13)
    rounded = domain.nearest(x, 2.0**-24).astype(np.float32).astype(np.float64)
    assert np.all(domain.contains(rounded, 0.0))


def test_slack_is_relative_to_the_size_of_the_domain():
    box = Box(1e6, 1e6 + 1e-5)
    assert not box.contains(np.full((1, 2), 1e6 + 1.01e-5))[0]
    assert box.contains(np.full((1, 2), 1e6 + 1e-5))[0]


@pytest.mark.parametrize("radius", [1e-90, 1e-6, 1e90])
def test_very_small_and_very_large_balls_know_what_they_contain(radius):
    ball = Ball(radius)
    x = ball.edge(20, 3, np.random.default_rng(0))
    assert np.all(ball.contains(x, 0.0))
    assert not np.any(ball.contains(1.1 * x))


def test_points_beyond_are_outside():
    directions = np.random.default_rng(0).standard_normal((20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert not np.any(Ball(2.0).contains(2.0001 * directions))
    assert np.all(Ball(2.0).contains(1.9999 * directions))
    box = Box(np.array([0.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0]))
    assert list(box.contains(np.array([[0.5, 1.5, 2.5], [1.1, 1, 1], [0.5, -0.1, 1], [1, 2, 3.0]]))) == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_ball_of_radius_reach_is_inside(domain):
    reach = domain.reach(3)
    radius = 1e3 if np.isinf(reach) else reach
    directions = np.random.default_rng(1).standard_normal((50, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert radius == 0 or np.all(domain.contains(radius * directions))


def test_edges_are_edges():
    rng = np.random.default_rng(2)
    assert np.allclose(np.linalg.norm(Ball(2.0).edge(30, 4, rng), axis=1), 2.0)
    edge = Box(-1, 3).edge(30, 4, rng)
    assert np.all(np.any((edge == -1) | (edge == 3), axis=1))


def test_mistakes_are_explained():
    for radius in (0, -1, np.inf, np.nan):
        with pytest.raises(InputError, match="positive number"):
            Ball(radius)
    for low, high in ((1, 1), (2, 1), (0, np.inf), (np.nan, 1)):
        with pytest.raises(InputError, match="below its high"):
            Box(low, high)
    for make in (lambda: Ball(1e160), lambda: Ball(1e-160), lambda: Box(0, 1e-120), lambda: Box(-1e200, 0)):
        with pytest.raises(InputError, match="between 1e-100 and 1e"):
            make()
    with pytest.raises(InputError, match="5 numbers"):
        Box([0, 0, 0], [1, 1, 1]).contains(np.zeros((2, 5)))
    with pytest.raises(InputError, match="give 2 numbers"):
        Ball(1.0, centre=np.zeros(3)).sample(4, 2, np.random.default_rng(0))


def test_a_box_is_written_as_python_and_said_in_few_words():
    box = Box(np.array([0.0, -1.5]), np.array([40.0, 1.0]))
    again = eval(repr(box))
    assert np.array_equal(again.low, box.low)
    assert np.array_equal(again.high, box.high)
    assert repr(Box(-1.0, 1.0)) == str(Box(-1.0, 1.0)) == "Box(low=-1.0, high=1.0)"
    wide = Box(np.zeros(784), np.ones(784))
    assert len(eval(repr(wide)).high) == 784
    assert len(str(wide)) < 80
