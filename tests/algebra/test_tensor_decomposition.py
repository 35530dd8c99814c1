"""Symmetric tensors with known components come back: exactly without noise, near the truth with it."""

import numpy as np
import pytest

from unweave.algebra.jennrich import decompose_by_jennrich
from unweave.algebra.symmetric import frobenius, multiplicities, powers, unpack
from unweave.algebra.tensor_components import merge_parallel
from unweave.algebra.tensor_decomposition import decompose


def random_components(size: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, size))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, rng.uniform(0.5, 2, count) * rng.choice([-1, 1], count)


def worst_distance(truth: np.ndarray, found: np.ndarray) -> float:
    """The largest distance of a true vector from its own nearest found one, up to sign."""
    cosines = truth @ found.T
    nearest = np.argmax(np.abs(cosines), axis=1)
    assert len(set(nearest)) == len(truth)
    signs = np.sign(cosines[np.arange(len(truth)), nearest])
    return float(np.max(np.linalg.norm(truth - signs[:, None] * found[nearest], axis=1)))


def add_noise(packed: np.ndarray, size: int, order: int, relative: float) -> tuple[np.ndarray, float]:
    noise = np.random.default_rng(9).standard_normal(len(packed)) / np.sqrt(multiplicities(size, order))
    wanted = relative * float(frobenius(packed, size, order))
    return packed + noise * wanted / frobenius(noise, size, order), wanted


@pytest.mark.parametrize(
    ("size", "count", "order"),
    [
        (5, 5, 3),
        (10, 10, 3),
        (20, 20, 3),
        (10, 4, 3),
        (10, 30, 4),
        (20, 120, 4),
        (6, 14, 5),
        (4, 9, 5),
        (5, 9, 6),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_tensors_give_all_components(size, count, order, seed):
    vectors, coefficients = random_components(size, count, seed)
    found = decompose(coefficients @ powers(vectors, order), order, size=size)
    assert len(found) == count
    assert worst_distance(vectors, found.vectors) < 1e-10
    assert found.residual < 1e-11
    np.testing.assert_allclose(np.sort(np.abs(found.coefficients)), np.sort(np.abs(coefficients)), rtol=1e-9)


def test_full_arrays_and_signs_of_odd_order():
    vectors, coefficients = random_components(6, 6, 3)
    full = unpack(coefficients @ powers(vectors, 3), 6, 3)
    found = decompose(full, 3)
    np.testing.assert_allclose(unpack(found.packed(), 6, 3), full, atol=1e-12)


@pytest.mark.parametrize(("size", "count", "order"), [(10, 10, 3), (10, 20, 4)])
def test_noise_moves_components_by_about_as_much(size, count, order):
    vectors, coefficients = random_components(size, count, 7)
    noisy, noise = add_noise(coefficients @ powers(vectors, order), size, order, 1e-3)
    found = decompose(noisy, order, size=size, noise=noise)
    assert len(found) == count
    assert worst_distance(vectors, found.vectors) < 3e-3
    assert found.residual < 1e-3


@pytest.mark.parametrize(("count", "order", "split"), [(5, 3, 1), (5, 4, 1), (12, 5, 2), (12, 6, 2)])
def test_jennrich_of_both_splits(count, order, split):
    vectors, coefficients = random_components(5, count, 11)
    packed = coefficients @ powers(vectors, order)
    found = decompose_by_jennrich(packed, 5, order, np.random.default_rng(0), split=split)
    assert len(found) == count
    assert worst_distance(vectors, found.vectors) < 1e-7
    assert found.gap > 1e6


def test_a_zero_tensor_has_no_components():
    for order in (3, 4):
        assert len(decompose(np.zeros([4] * order), order)) == 0


def test_parallel_vectors_are_merged_up_to_sign():
    a, b = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    kept = merge_parallel(np.array([a, -a, b]), np.array([1.0, 2.0, 0.5]), 1e-3)
    assert kept.tolist() == [1, 2]


def test_impossible_requests_are_refused():
    with pytest.raises(ValueError, match="order 2"):
        decompose(np.eye(3), 2)
    with pytest.raises(ValueError, match="split of 2"):
        decompose_by_jennrich(np.zeros(35), 4, 4, np.random.default_rng(0), split=2)
