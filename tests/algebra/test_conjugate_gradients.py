"""Conjugate gradients stop when it is enough, and a good preconditioner makes that soon."""

from __future__ import annotations

import numpy as np

from unweave.algebra.conjugate_gradients import conjugate_gradients


def test_as_roughly_as_is_wanted():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((40, 30))
    matrix, b, taken = root.T @ root + np.eye(30), rng.standard_normal(30), []
    solution = np.linalg.solve(matrix, b)

    def multiply(v):
        taken.append(1)
        return matrix @ v

    def num_products(**options):
        taken.clear()
        return conjugate_gradients(multiply, b, **options), len(taken)

    rough, few = num_products(enough=0.3)
    exact, many = num_products(enough=1e-10)
    np.testing.assert_allclose(exact, solution, rtol=1e-6)
    assert np.linalg.norm(b - matrix @ rough) < 0.3 * np.linalg.norm(b)
    assert few < many
    assert num_products(enough=1e-10, most=3)[1] == 3
    at_once, one = num_products(enough=1e-10, precondition=lambda r: np.linalg.solve(matrix, r))
    np.testing.assert_allclose(at_once, solution)
    assert one == 1
    assert not conjugate_gradients(multiply, np.zeros(30), enough=0.3).any()
