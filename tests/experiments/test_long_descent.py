"""Blocks of gradient descent end where single steps end."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.experiments.long_descent import LONGEST, SHORTEST, descend_plainly


class Valley:
    """A curved valley ``(1 - x)^2 + 5 (y - x^2)^2 + 0.001 z^2`` that counts what it is asked."""

    def __init__(self):
        self.num_gradients = 0

    def gradient(self, p: np.ndarray) -> np.ndarray:
        self.num_gradients += 1
        x, y, z = p
        return np.array([-2 * (1 - x) - 20 * x * (y - x * x), 10 * (y - x * x), 0.002 * z])

    @staticmethod
    def curvature(p: np.ndarray) -> np.ndarray:
        x, y, _ = p
        return np.array([[2 - 20 * y + 60 * x * x, -20 * x, 0], [-20 * x, 10, 0], [0, 0, 0.002]])


def step_by_step(gradient, p, rate, num_steps):
    for _ in range(num_steps):
        p = p - rate * gradient(p)
    return p


@pytest.mark.parametrize("num_steps", [1, SHORTEST - 1, 1000, 30_000])
def test_the_same_iterate_as_single_steps(num_steps):
    valley, start = Valley(), np.array([-0.8, 0.9, 2.0])
    found = descend_plainly(valley.gradient, valley.curvature, start, rate=0.01, num_steps=num_steps)
    assert found == pytest.approx(step_by_step(Valley().gradient, start, 0.01, num_steps), abs=1e-12)


def test_long_descents_cost_few_gradients():
    valley, start = Valley(), np.array([-0.8, 0.9, 2.0])
    found = descend_plainly(valley.gradient, valley.curvature, start, rate=0.01, num_steps=100 * LONGEST)
    assert valley.num_gradients < 10 * LONGEST
    assert found == pytest.approx([1.0, 1.0, 2.0 * (1 - 0.01 * 0.002) ** (100 * LONGEST)], abs=1e-9)


def test_a_poor_curvature_costs_time_and_nothing_else():
    valley, start = Valley(), np.array([-0.8, 0.9, 2.0])
    found = descend_plainly(valley.gradient, lambda p: np.zeros((3, 3)), start, rate=0.01, num_steps=3000)
    assert found == pytest.approx(step_by_step(Valley().gradient, start, 0.01, 3000), abs=1e-12)


def test_oscillation_and_divergence_are_followed():
    """A rate at which single steps swing or run away does the same here."""
    valley, start = Valley(), np.array([1.2, 1.3, 0.5])
    swinging = descend_plainly(valley.gradient, valley.curvature, start, rate=0.037, num_steps=400)
    assert swinging == pytest.approx(step_by_step(Valley().gradient, start, 0.037, 400), abs=1e-11)
    with np.errstate(all="ignore"):
        away = descend_plainly(valley.gradient, valley.curvature, start, rate=1.0, num_steps=1000)
    assert not np.all(np.isfinite(away))
