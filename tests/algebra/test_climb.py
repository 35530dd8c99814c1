"""Climbs of functions that are linear between hyperplanes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from unweave.algebra.climb import Climb


def draw_planes(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rows = rng.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), rng.uniform(-0.5, 0.5, n)


@pytest.mark.parametrize("seed", range(5))
def test_linear_functions_end_where_a_linear_program_does(seed):
    rng = np.random.default_rng(seed)
    rows, offsets = draw_planes(6, 4, rng)
    slopes = rng.standard_normal((8, 4))
    climb = Climb.begin(rows, offsets, np.zeros((8, 4)))
    climb.counts[:, :6] = True
    climb.slope = slopes
    ends = climb.run(np.zeros((8, 4)))
    sign = np.where(offsets > 0, 1.0, -1.0)
    for slope, end in zip(slopes, ends, strict=True):
        best = linprog(-slope, A_ub=-sign[:, None] * rows, b_ub=sign * offsets, bounds=[(-1, 1)] * 4)
        assert slope @ end == pytest.approx(-best.fun, abs=1e-9)


def test_a_climb_goes_through_hyperplanes_and_ends_where_nothing_near_is_higher():
    rng = np.random.default_rng(7)
    (rows, offsets), d = draw_planes(10, 5, rng), 5
    start, linear = rng.uniform(-1, 1, (20, d)), rng.standard_normal((20, d))
    ridges = rng.standard_normal((20, 10))
    climb = Climb.begin(rows, offsets, start)
    climb.rise(linear, ridges)
    ends = climb.run(start)

    def height(x: np.ndarray) -> np.ndarray:
        return np.einsum("qd,...qd->...q", linear, x) + np.einsum(
            "qn,...qn->...q", ridges, np.abs(x @ rows.T + offsets)
        )

    near = np.clip(ends + 1e-4 * rng.standard_normal((500, 20, d)), -1, 1)
    assert np.all(height(near) <= height(ends) + 1e-10)
    assert np.all(height(ends) >= height(start) - 1e-10)
    assert np.mean(height(ends) > height(start) + 0.1) > 0.9


def test_a_climb_keeps_to_its_hyperplane():
    rng = np.random.default_rng(3)
    rows, offsets = draw_planes(3, 4, rng)
    start = rng.uniform(-0.2, 0.2, (6, 4))
    start -= (start @ rows[0] + offsets[0])[:, None] * rows[0]
    climb = Climb.begin(rows, offsets, start)
    climb.fixed[:] = 0
    climb.rise(rng.standard_normal((6, 4)), np.zeros((6, 3)))
    ends = climb.run(start)
    assert np.max(np.abs(ends @ rows[0] + offsets[0])) < 1e-9
    assert np.all(np.sum(np.abs(np.abs(ends) - 1) < 1e-9, axis=1) >= 3)  # a corner of the part in the box
