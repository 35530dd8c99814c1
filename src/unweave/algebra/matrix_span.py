"""Spans of symmetric matrices (Fornasier et al., Algorithm 2), half-vectorised.

A symmetric d x d matrix is kept as the d(d+1)/2 numbers of its upper triangle, those off the diagonal times
sqrt(2), so that inner products are those of Frobenius. The span of many matrices (Hessians of a network) is
the space of their leading singular vectors; for a shallow network it is spanned by the outer squares of the
weights exactly, for two hidden layers by those and the entangled weights approximately (Theorem 4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from unweave.algebra.active_subspace import choose_rank, spectral_gap


@dataclass(frozen=True)
class MatrixSpan:
    """An orthonormal ``basis`` (k, d(d+1)/2) of half-vectorised matrices, and the spectrum it came from."""

    basis: np.ndarray = field(repr=False)
    spectrum: np.ndarray = field(repr=False)
    size: int
    """d: the matrices are d x d."""

    @property
    def dimension(self) -> int:
        return len(self.basis)

    @property
    def gap(self) -> float:
        """The last singular value kept over the first one left out."""
        return spectral_gap(self.spectrum, self.dimension)

    def project(self, matrices: np.ndarray) -> np.ndarray:
        """``P_W`` of symmetric matrices (..., d, d)."""
        return self.matrices(self.coordinates(matrices))

    def coordinates(self, matrices: np.ndarray) -> np.ndarray:
        """Inner products (..., k) with the basis."""
        return half_vectorise(matrices) @ self.basis.T

    def matrices(self, coordinates: np.ndarray) -> np.ndarray:
        """The elements (..., d, d) with these coordinates."""
        return unvectorise(coordinates @ self.basis, self.size)

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """``|(1 - P_W) u u'|_F`` for unit vectors (n, d): how far each is from a rank-one element."""
        squares = half_vectorise(outer_squares(vectors))
        return np.linalg.norm(squares - (squares @ self.basis.T) @ self.basis, axis=1)


def estimate_span(
    matrices: np.ndarray,
    *,
    dimension: int | None = None,
    floor: float = 1e-12,
    least_gap: float = 10.0,
    gram: bool | None = None,
) -> MatrixSpan:
    """The span of symmetric matrices (n, d, d); its dimension is read off the spectrum unless given.

    Parameters
    ----------
    floor
        Relative error of the matrices; smaller singular values are taken for it.
    gram
        Whether to decompose the Gram matrix (fifteen times faster for many matrices, but singular values
        below 1e-8 of the largest are lost) or the matrices themselves. By default the Gram matrix is used
        when there are more than half a million numbers.
    """
    rows = half_vectorise(matrices)
    if gram is None:
        gram = rows.size > 500_000
    if gram:
        values, vectors = np.linalg.eigh(rows.T @ rows)
        spectrum = np.sqrt(np.maximum(values[::-1], 0.0))[: len(rows)]
        basis, floor = vectors[:, ::-1].T, max(floor, 1e-7)
    else:
        _, spectrum, basis = np.linalg.svd(rows, full_matrices=False)
    rank = (
        choose_rank(spectrum, floor, least_gap=least_gap)
        if dimension is None
        else min(dimension, len(spectrum))
    )
    return MatrixSpan(np.ascontiguousarray(basis[:rank]), spectrum, matrices.shape[-1])


def span_of_squares(vectors: np.ndarray) -> MatrixSpan:
    """The span of ``w w'`` for given vectors (m, d)."""
    return estimate_span(outer_squares(vectors), dimension=len(vectors), gram=False)


def common_span(spans: list[MatrixSpan], dimension: int) -> MatrixSpan:
    """What several spans have in common: leading eigenvectors of the mean of their projections.

    ``spectrum`` holds the eigenvalues, 1 for directions that lie in every span.
    """
    stacked = np.concatenate([s.basis for s in spans]) / np.sqrt(len(spans))
    _, values, basis = np.linalg.svd(stacked, full_matrices=False)
    return MatrixSpan(np.ascontiguousarray(basis[:dimension]), values**2, spans[0].size)


def projection_error(found: MatrixSpan, truth: MatrixSpan) -> float:
    """``|P - P'|_F^2 / dim`` of two spans: 0 when equal, up to 2 when orthogonal."""
    overlap = float(np.sum((found.basis @ truth.basis.T) ** 2))
    return (found.dimension + truth.dimension - 2 * overlap) / truth.dimension


def outer_squares(vectors: np.ndarray) -> np.ndarray:
    """``u u'`` for vectors (..., d)."""
    return vectors[..., :, None] * vectors[..., None, :]


def half_vectorise(matrices: np.ndarray) -> np.ndarray:
    """(..., d, d) to (..., d(d+1)/2), an isometry."""
    rows, columns, weights = _triangle(matrices.shape[-1])
    return matrices[..., rows, columns] * weights


def unvectorise(halves: np.ndarray, size: int) -> np.ndarray:
    """(..., d(d+1)/2) back to symmetric (..., d, d)."""
    rows, columns, weights = _triangle(size)
    matrices = np.empty((*halves.shape[:-1], size, size))
    matrices[..., rows, columns] = matrices[..., columns, rows] = halves / weights
    return matrices


@lru_cache(maxsize=64)
def _triangle(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))
