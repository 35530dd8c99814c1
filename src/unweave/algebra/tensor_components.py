"""Components of a symmetric tensor: ``T = sum_i z_i w_i^k`` with unit vectors w_i, and how well they explain it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from unweave.algebra.active_subspace import spectral_gap
from unweave.algebra.symmetric import frobenius, multiplicities, powers


@dataclass(frozen=True)
class TensorComponents:
    """Unit ``vectors`` (r, d), strongest first, with ``coefficients`` (r,).

    For even order the sign of a vector means nothing; for odd order it goes with that of its coefficient.
    """

    vectors: np.ndarray = field(repr=False)
    coefficients: np.ndarray
    order: int
    residual: float
    """``|T - sum z_i w_i^k|_F / |T|_F``."""
    spectrum: np.ndarray = field(repr=False)
    """Singular values of the flattening that the number of components was read from."""

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def gap(self) -> float:
        """The last singular value kept over the first one left out; infinite when none was left out."""
        return spectral_gap(self.spectrum, len(self))

    def packed(self) -> np.ndarray:
        """The tensor they make."""
        return self.coefficients @ powers(self.vectors, self.order)

    @staticmethod
    def none(size: int, order: int, spectrum: np.ndarray, packed: np.ndarray) -> TensorComponents:
        left = 1.0 if np.any(packed) else 0.0
        return TensorComponents(np.zeros((0, size)), np.zeros(0), order, left, spectrum)


def fit_coefficients(
    packed: np.ndarray, size: int, order: int, vectors: np.ndarray, spectrum: np.ndarray
) -> TensorComponents:
    """Components with given unit vectors (r, d), their coefficients by least squares."""
    products = powers(vectors, order)
    values = _solve(packed, size, order, vectors, products)
    rest = frobenius(packed - values @ products, size, order)
    whole = max(float(frobenius(packed, size, order)), 1e-300)
    ranking = np.argsort(-np.abs(values), kind="stable")
    return TensorComponents(vectors[ranking], values[ranking], order, float(rest) / whole, spectrum)


def solve_coefficients(packed: np.ndarray, size: int, order: int, vectors: np.ndarray) -> np.ndarray:
    """``argmin_z |sum_i z_i w_i^k - T|_F`` (r,)."""
    return _solve(packed, size, order, vectors, powers(vectors, order))


def _solve(
    packed: np.ndarray, size: int, order: int, vectors: np.ndarray, products: np.ndarray
) -> np.ndarray:
    """By Cholesky of the Gram matrix ``(w_i . w_j)^k`` with two steps of refinement, which make up for its squared
    condition; by orthogonal factors where that is too large.
    """
    if not len(vectors):
        return np.zeros(0)
    gram = (vectors @ vectors.T) ** order
    spread = np.linalg.eigvalsh(gram)
    if spread[0] < 1e-9 * spread[-1]:
        scales = np.sqrt(multiplicities(size, order))
        return np.linalg.lstsq((products * scales).T, packed * scales, rcond=1e-13)[0]
    factor = scipy.linalg.cho_factor(gram, check_finite=False)
    values, rest = np.zeros(len(vectors)), packed
    for _ in range(3):
        values = values + scipy.linalg.cho_solve(factor, products @ (multiplicities(size, order) * rest))
        rest = packed - values @ products
    return values


def merge_parallel(vectors: np.ndarray, strengths: np.ndarray, same: float) -> np.ndarray:
    """Indices of vectors no stronger one of which lies within ``same`` of it, up to sign."""
    kept: list[int] = []
    for i in np.argsort(-strengths, kind="stable"):
        if not kept:
            kept.append(int(i))
            continue
        cosines = vectors[kept] @ vectors[i]
        apart = np.linalg.norm(vectors[i] - np.sign(cosines)[:, None] * vectors[kept], axis=1)
        if np.min(apart) > same:
            kept.append(int(i))
    return np.array(kept, dtype=int)
