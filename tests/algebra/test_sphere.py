"""The sphere decoder finds what enumeration finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unweave.algebra.sphere import nearest_signs


@pytest.mark.parametrize(("rows", "m"), [(6, 6), (9, 5), (4, 8)])
def test_it_finds_what_enumeration_finds(rows, m):
    for seed in range(10):
        rng = np.random.default_rng([seed, rows, m])
        matrix, target = rng.standard_normal((rows, m)), rng.standard_normal(rows) * 2
        everything = np.array(list(itertools.product([-1.0, 1.0], repeat=m)))
        distances = np.sum((everything @ matrix.T - target) ** 2, axis=1)
        wanted = np.sort(distances[distances <= distances.min() + 3])
        found = nearest_signs(matrix, target, within=3.0)
        assert found.complete
        assert np.allclose(found.distances, wanted, rtol=1e-6, atol=1e-9)
        assert np.allclose(
            np.sum((found.signs @ matrix.T - target) ** 2, axis=1), wanted, rtol=1e-6, atol=1e-9
        )


def test_the_search_is_bounded_and_says_so():
    rng = np.random.default_rng(0)
    found = nearest_signs(rng.standard_normal((3, 40)), np.zeros(3), within=1.0, max_nodes=500)
    assert not found.complete


def test_many_signs_of_a_clear_problem():
    rng = np.random.default_rng(1)
    matrix, signs = rng.standard_normal((60, 50)), rng.choice([-1.0, 1.0], 50)
    found = nearest_signs(100 * matrix, 100 * matrix @ signs + rng.standard_normal(60), within=20.0)
    assert found.complete
    assert np.array_equal(found.signs[0], signs)
