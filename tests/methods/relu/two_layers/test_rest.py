"""Sides of second-layer units beside a unit that is always on, whatever its size."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.two_layers.rest import signs_with_rest, single_row


def test_sides_beside_a_unit_that_outweighs_the_others():
    rng = np.random.default_rng(0)
    rows, outputs = rng.standard_normal((18, 20)), rng.standard_normal((18, 2))
    vectors = (rows[:, :, None] * outputs[:, None, :] / 2).reshape(18, -1)
    signs = np.where(rng.uniform(size=18) < 0.5, -1.0, 1.0)
    steady = np.outer(10 * rng.uniform(0.5, 1, size=20), rng.standard_normal(2))
    tilt = (signs @ vectors).reshape(20, 2) + steady
    found, rest = signs_with_rest(vectors, tilt, 1e-9, np.ones(20, dtype=bool))
    assert np.array_equal(found, signs)
    assert np.allclose(rest, steady)
    assert single_row(rest) is not None
