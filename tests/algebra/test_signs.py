"""Signs of a sum of vectors: linear, enumerated, meet-in-the-middle, by lattice, and when they are not determined."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.algebra.signs import needs_lattice, solve_signs, solve_weights
from unweave.core import clock
from unweave.core.deadline import Deadline, hold


@pytest.mark.parametrize(
    ("num_vectors", "num_equations"),
    [(8, 10), (20, 10), (30, 8), (40, 5), (60, 12)],
    ids=["linear", "enumerated", "enumerated-22", "halved", "lattice"],
)
def test_signs_are_found(num_vectors, num_equations):
    rng = np.random.default_rng(num_vectors)
    vectors = rng.standard_normal((num_vectors, num_equations)) * rng.uniform(0.2, 3, size=(num_vectors, 1))
    signs = rng.choice([-1.0, 1.0], size=num_vectors)
    target = signs @ vectors + 1e-13 * rng.standard_normal(num_equations)
    solution = solve_signs(vectors, target, 1e-11)
    assert solution.num_solutions == 1
    assert solution.determined.all()
    np.testing.assert_array_equal(solution.signs, signs)


def test_many_signs_are_found_where_the_bound_on_the_error_is_cautious():
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((70, 8)) * rng.uniform(0.02, 0.1, size=(70, 1))
    signs = rng.choice([-1.0, 1.0], size=70)
    solution = solve_signs(vectors, signs @ vectors + 5e-9 * rng.standard_normal(8), 1e-6)
    np.testing.assert_array_equal(solution.signs, signs)


def test_no_signs_fit_an_arbitrary_target():
    rng = np.random.default_rng(0)
    for num_vectors in (4, 14):
        solution = solve_signs(rng.standard_normal((num_vectors, 8)), rng.standard_normal(8), 1e-9)
        assert solution.signs is None
        assert solution.num_solutions == 0


def test_a_relation_among_the_vectors_leaves_their_signs_open():
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((6, 5))
    vectors[2] = -(vectors[0] + vectors[1])  # flipping 0, 1 and 2 together changes nothing
    solution = solve_signs(vectors, np.ones(6) @ vectors, 1e-10)
    assert solution.num_solutions == 2
    np.testing.assert_array_equal(solution.determined, [False, False, False, True, True, True])


def test_a_vector_below_the_error_has_no_sign():
    vectors = np.diag([1.0, 1e-14])
    solution = solve_signs(vectors, np.array([1.0, 0.0]), 1e-10)
    assert solution.determined[0]
    assert not solution.determined[1]


def test_real_weights_only_where_they_are_unique():
    rng = np.random.default_rng(2)
    vectors, weights = rng.standard_normal((4, 9)), np.array([1.0, -0.3, 2.0, -1.0])
    found = solve_weights(vectors, weights @ vectors, 1e-10)
    assert found is not None
    np.testing.assert_allclose(found, weights, atol=1e-12)
    assert solve_weights(rng.standard_normal((9, 4)), np.ones(4), 1e-10) is None


@pytest.mark.parametrize("num_vectors", [5, 50])
def test_vectors_that_are_all_below_the_error_leave_every_sign_open(num_vectors):
    vectors = 1e-9 * np.ones((num_vectors, 3))
    solution = solve_signs(vectors, np.zeros(3), 1e-5)
    assert solution.signs is not None
    assert not solution.determined.any()
    assert solve_signs(vectors, np.ones(3), 1e-5).signs is None


def _many_signs(num_vectors: int, num_equations: int, error: float):
    rng = np.random.default_rng(num_vectors)
    vectors = rng.standard_normal((num_vectors, num_equations))
    began = clock.now()
    found = solve_signs(vectors, rng.choice([-1.0, 1.0], size=num_vectors) @ vectors, error)
    return found, clock.now() - began


def test_more_signs_than_a_reduction_can_find_are_given_up_at_once():
    found, seconds = _many_signs(500, 18, 1e-11)
    assert found.signs is None
    assert not found.complete
    assert seconds < 1
    assert needs_lattice(60, 12)
    assert not needs_lattice(500, 18)  # no digits help


def test_a_reduction_keeps_to_the_time_of_its_run():
    with hold(Deadline(0.3)):
        found, seconds = _many_signs(150, 24, 1e-12)
    assert found.signs is None
    assert seconds < 0.6
