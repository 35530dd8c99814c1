"""Packed symmetric tensors against full arrays."""

from itertools import permutations

import numpy as np
import pytest

from unweave.algebra.symmetric import (
    flatten,
    frobenius,
    multi_indices,
    multiplicities,
    pack,
    packed_length,
    positions,
    powers,
    unpack,
)


def symmetric_tensor(size: int, order: int, seed: int = 0) -> np.ndarray:
    full = np.random.default_rng(seed).standard_normal([size] * order)
    return sum(np.transpose(full, p) for p in permutations(range(order)))


@pytest.mark.parametrize(("size", "order"), [(1, 4), (3, 1), (4, 2), (4, 3), (3, 5), (2, 6)])
def test_packing_loses_nothing(size, order):
    full = symmetric_tensor(size, order)
    packed = pack(full, order)
    assert len(packed) == packed_length(size, order)
    np.testing.assert_allclose(unpack(packed, size, order), full, rtol=1e-12)
    assert frobenius(packed, size, order) == pytest.approx(np.linalg.norm(full))
    assert multiplicities(size, order).sum() == size**order


def test_positions_number_the_entries():
    for size, order in ((5, 3), (2, 5), (7, 2)):
        np.testing.assert_array_equal(
            positions(multi_indices(size, order)), range(packed_length(size, order))
        )


def test_powers_and_flattenings():
    vectors = np.random.default_rng(1).standard_normal((3, 4))
    w = vectors[0]
    np.testing.assert_allclose(
        unpack(powers(vectors, 4)[0], 4, 4), np.einsum("i,j,k,l->ijkl", w, w, w, w), atol=1e-14
    )
    halves = powers(vectors, 2, isometric=True)
    np.testing.assert_allclose(halves @ halves.T, (vectors @ vectors.T) ** 2, atol=1e-12)
    np.testing.assert_allclose(
        flatten(powers(vectors, 5)[0], 4, 5, 2),
        np.outer(halves[0], powers(vectors, 3, isometric=True)[0]),
        atol=1e-13,
    )


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="not symmetric of order 3"):
        pack(np.zeros((2, 3, 3)), 3)
    with pytest.raises(ValueError, match="has 10 entries"):
        unpack(np.zeros(9), 4, 2)
