"""Sums of y x^k over rows, each different entry once: what Hermite tensors are made of.

With ``x_0 = 1`` all monomials of degree at most k in x are the monomials of degree exactly k in ``(1, x)``, so one
packed symmetric tensor holds every moment up to order k. A monomial ``x_{i_1} ... x_{i_k}``, indices sorted, is
the product of a low part ``i_1..i_h`` and a high part ``i_{h+1}..i_k``; chunk by chunk the low parts (times y) and the
high parts are formed once and multiplied by GEMM. Low parts are taken in blocks of their largest index, and each
block meets only the high parts whose smallest index is not below the block: at order 4 this does about a third of the
work of the full product ``(y Z)' Z`` of all monomials of degree two.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from unweave.algebra.symmetric import multi_indices, packed_length, positions

BLOCK = 3
"""Indices a block of low parts; fewer waste less work, more make better shapes for the GEMM."""


class PowerSums:
    """Adds up ``sum_n y_n x~_n^k`` for augmented rows ``x~ = (1, x)``; memory does not grow with the rows."""

    size: int
    order: int
    chunk_rows: int

    def __init__(self, size: int, order: int):
        self.size, self.order = size, order
        self._plan = _plan(size + 1, order)
        widest = max(self._plan.num_low, self._plan.num_high)
        self.chunk_rows = int(np.clip(100_000 // widest, 512, 4096))

    def add(self, x: np.ndarray, weights: np.ndarray, totals: np.ndarray) -> None:
        """Add the sums over rows x (n, d) with each column of ``weights`` (n, q) to ``totals`` (q, length)."""
        plan = self._plan
        products = [[np.zeros(block.shape) for block in plan.blocks] for _ in range(weights.shape[1])]
        for begin in range(0, len(x), self.chunk_rows):
            rows = x[begin : begin + self.chunk_rows]
            augmented = np.empty((self.size + 1, len(rows)))
            augmented[0] = 1.0
            augmented[1:] = rows.T
            high = _high_parts(augmented, plan.high_order)
            for column, sums in zip(weights[begin : begin + self.chunk_rows].T, products, strict=True):
                low = _low_parts(augmented, column, plan.low_order)
                for block, total in zip(plan.blocks, sums, strict=True):
                    total += low[block.low] @ high[block.high :].T
        for sums, total in zip(products, totals, strict=True):
            for block, product in zip(plan.blocks, sums, strict=True):
                total[block.target] += product.ravel()[block.source]


class _Block:
    """One GEMM: rows ``low`` of the low parts against the high parts from ``high`` on, and where entries go."""

    def __init__(self, low: slice, high: int, low_indices: np.ndarray, high_indices: np.ndarray):
        self.low, self.high = low, high
        left, right = low_indices[low], high_indices[high:]
        self.shape = (len(left), len(right))
        valid = _last(left)[:, None] <= _first(right)[None, :]
        self.source = np.flatnonzero(valid)
        rows, columns = np.nonzero(valid)
        self.target = positions(np.concatenate([left[rows], right[columns]], axis=1))


class _Plan:
    def __init__(self, size: int, order: int):
        self.low_order = order // 2
        self.high_order = order - self.low_order
        low, high = multi_indices(size, self.low_order), _from_smallest(size, self.high_order)
        self.num_low, self.num_high = len(low), len(high)
        self.blocks = []
        for lowest in range(0, size, BLOCK):
            # packed order sorts low parts by their largest index; the list of high parts by their smallest
            rows = slice(
                packed_length(lowest, self.low_order) if lowest else 0,
                packed_length(min(lowest + BLOCK, size), self.low_order),
            )
            if not self.low_order:
                rows = slice(0, 1)
            first_high = len(high) - packed_length(size - lowest, self.high_order)
            self.blocks.append(_Block(rows, first_high, low, high))
            if not self.low_order:
                break


@lru_cache(maxsize=16)
def _plan(size: int, order: int) -> _Plan:
    return _Plan(size, order)


def _last(indices: np.ndarray) -> np.ndarray:
    return indices[:, -1] if indices.shape[1] else np.full(len(indices), -1)


def _first(indices: np.ndarray) -> np.ndarray:
    return indices[:, 0] if indices.shape[1] else np.full(len(indices), np.iinfo(np.int64).max)


def _from_smallest(size: int, order: int) -> np.ndarray:
    """The sorted multi-indices in lexicographic order."""
    indices = multi_indices(size, order)
    return indices[np.lexsort(indices.T[::-1])] if order else indices


def _low_parts(x: np.ndarray, weights: np.ndarray, order: int) -> np.ndarray:
    """``weights`` times the monomials of degree ``order`` of the columns of x (size, n), in packed order."""
    size = len(x)
    parts = weights[None, :]
    for degree in range(1, order + 1):
        shorter, parts = parts, np.empty((packed_length(size, degree), x.shape[1]))
        end = 0
        for i in range(size):
            begin, end = end, end + comb(i + degree - 1, degree - 1)
            np.multiply(x[i], shorter[: end - begin], out=parts[begin:end])
    return parts


def _high_parts(x: np.ndarray, order: int) -> np.ndarray:
    """The monomials of degree ``order`` of the columns of x (size, n), in lexicographic order."""
    size = len(x)
    parts = np.ones((1, x.shape[1]))
    for degree in range(1, order + 1):
        shorter, parts = parts, np.empty((packed_length(size, degree), x.shape[1]))
        end = 0
        for i in range(size):
            length = packed_length(size - i, degree - 1)
            begin, end = end, end + length
            np.multiply(x[i], shorter[len(shorter) - length :], out=parts[begin:end])
    return parts
