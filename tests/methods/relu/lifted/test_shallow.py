"""Units that stand for what is affine in a box."""

from __future__ import annotations

import numpy as np

import unweave
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.shallow import assemble_bends


def test_a_unit_that_is_always_on_in_a_box_of_positive_inputs_stays_on_beyond_it():
    rng = np.random.default_rng(1)
    rows, half = rng.standard_normal((3, 5)), rng.standard_normal((3, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    offsets, always = -rows.sum(axis=1) / 2, rng.uniform(0.2, 1, 5)
    tilt = np.einsum("mk,md->kd", half, rows) + np.outer(rng.standard_normal(4), always)
    x = rng.uniform(size=(500, 5))

    def answer(points: np.ndarray) -> np.ndarray:
        return np.abs(points @ rows.T + offsets) @ half + points @ tilt.T

    planes = Planes(rows, offsets, np.zeros((3, 6, 6)), np.ones(3))
    found = assemble_bends(planes, half, tilt, x, answer(x), unweave.Box(0.0, 1.0), rough=1e-9)
    far = 100 * rng.uniform(size=(500, 5))
    assert found.num_affine == (1, 0)
    assert np.max(np.abs(found.network(far) - answer(far))) < 1e-6
