"""Symmetric tensors in packed form: each entry once.

A symmetric tensor of order k over R^d has ``C(d+k-1, k)`` different entries, one for each multiset of k indices
``i_1 <= ... <= i_k``. They are kept in colexicographic order, where the entry ``(i_1, ..., i_k)`` has position
``sum_t C(i_t + t - 1, t)`` whatever d is. Frobenius norms weigh an entry with its multiplicity, the number of places
it takes in the full array.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb, factorial

import numpy as np


def packed_length(size: int, order: int) -> int:
    """The number of different entries of a symmetric tensor of this order over R^size."""
    return comb(size + order - 1, order)


@lru_cache(maxsize=64)
def multi_indices(size: int, order: int) -> np.ndarray:
    """All ``i_1 <= ... <= i_k`` (length, k) in packed order; read only."""
    listed = np.empty((1, 0), dtype=np.int64)
    for degree in range(1, order + 1):
        # entries whose largest index is i: those of degree one less, none of whose indices is larger
        lengths = [packed_length(i + 1, degree - 1) for i in range(size)]
        shorter = np.concatenate([listed[:length] for length in lengths])
        listed = np.column_stack([shorter, np.repeat(np.arange(size), lengths)])
    listed.flags.writeable = False
    return listed


def positions(indices: np.ndarray) -> np.ndarray:
    """Where entries with sorted ``indices`` (..., k) stand in a packed tensor."""
    order = indices.shape[-1]
    place = np.zeros(indices.shape[:-1], dtype=np.int64)
    for t in range(1, order + 1):
        rising = np.ones_like(place)
        for j in range(t):
            rising *= indices[..., t - 1] + j
        place += rising // factorial(t)
    return place


@lru_cache(maxsize=64)
def multiplicities(size: int, order: int) -> np.ndarray:
    """How often each packed entry stands in the full array; read only."""
    indices = multi_indices(size, order)
    counts = np.full(len(indices), float(factorial(order)))
    run = np.ones(len(indices))
    for t in range(1, order):
        run = np.where(indices[:, t] == indices[:, t - 1], run + 1, 1.0)
        counts /= run
    counts.flags.writeable = False
    return counts


def pack(tensor: np.ndarray, order: int) -> np.ndarray:
    """The different entries (..., length) of full symmetric tensors (..., d, ..., d)."""
    if tensor.ndim < order or len(set(tensor.shape[tensor.ndim - order :])) > 1:
        raise ValueError(f"a tensor of shape {tensor.shape} is not symmetric of order {order}")
    if not order:
        return tensor[..., None]
    indices = multi_indices(tensor.shape[-1], order)
    return tensor[(..., *indices.T)]


def unpack(packed: np.ndarray, size: int, order: int) -> np.ndarray:
    """Full arrays (..., d, ..., d) of packed tensors (..., length)."""
    require_packed(packed, size, order)
    if not order:
        return packed[..., 0]
    return packed[..., _places(size, order)].reshape(*packed.shape[:-1], *([size] * order))


def require_packed(packed: np.ndarray, size: int, order: int) -> None:
    """Refuse a packed tensor of another length."""
    if packed.shape[-1:] != (packed_length(size, order),):
        raise ValueError(
            f"a packed tensor of order {order} over {size} inputs has {packed_length(size, order)} entries, "
            f"not {packed.shape[-1:]}"
        )


@lru_cache(maxsize=16)
def _places(size: int, order: int) -> np.ndarray:
    return positions(np.sort(np.indices([size] * order).reshape(order, -1), axis=0).T)


def powers(vectors: np.ndarray, order: int, *, isometric: bool = False) -> np.ndarray:
    """Packed ``w^k`` (n, length) of vectors (n, d); ``isometric`` scales so that plain dot products are Frobenius's."""
    size = vectors.shape[-1]
    products = np.ones((*vectors.shape[:-1], 1))
    for degree in range(1, order + 1):
        shorter, products = products, np.empty((*vectors.shape[:-1], packed_length(size, degree)))
        end = 0
        for i in range(size):
            # entries whose largest index is i: those of degree one less, none of whose indices is larger
            begin, end = end, end + packed_length(i + 1, degree - 1)
            np.multiply(shorter[..., : end - begin], vectors[..., i, None], out=products[..., begin:end])
    if isometric:
        products *= np.sqrt(multiplicities(size, order))
    return products


def frobenius(packed: np.ndarray, size: int, order: int) -> np.ndarray:
    """Frobenius norms (...) of packed tensors (..., length)."""
    return np.sqrt(np.sum(multiplicities(size, order) * packed**2, axis=-1))


def flatten(packed: np.ndarray, size: int, order: int, rows: int) -> np.ndarray:
    """The flattening with ``rows`` indices down and the rest across, each side packed; an isometry.

    ``sum_i z_i w_i^k`` becomes ``sum_i z_i u_i v_i'`` with ``u_i``, ``v_i`` the isometric packed powers of w_i.
    """
    require_packed(packed, size, order)
    place, weights = _flat_places(size, order, rows)
    return packed[..., place] * weights


@lru_cache(maxsize=16)
def _flat_places(size: int, order: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    down, across = multi_indices(size, rows), multi_indices(size, order - rows)
    shape = (len(down), len(across))
    joint = np.concatenate(
        [
            np.broadcast_to(down[:, None, :], (*shape, rows)),
            np.broadcast_to(across[None, :, :], (*shape, order - rows)),
        ],
        axis=-1,
    )
    weights = np.sqrt(multiplicities(size, rows)[:, None] * multiplicities(size, order - rows))
    return positions(np.sort(joint, axis=-1)), weights
