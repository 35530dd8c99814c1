"""Quadratic forms ``x' M x`` as linear functions of a symmetric matrix M.

``svec`` writes M as its upper triangle with the off-diagonal entries times sqrt(2), so that inner products agree:
``x' M x = svec(x x') . svec(M)``. The rows ``svec(x_i x_i')`` are the half-vectorised design; its Gram matrix over
samples is ``(X X')`` squared entry by entry, which needs no design at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky

ROUNDING = 2.0**-52


def num_forms(d: int) -> int:
    """Dimension of the symmetric d x d matrices."""
    return d * (d + 1) // 2


def design(x: np.ndarray) -> np.ndarray:
    """``svec(x_i x_i')``, one row a sample, (n, d(d+1)/2)."""
    i, j = np.triu_indices(x.shape[1])
    rows = x[:, i] * x[:, j]
    rows[:, i != j] *= np.sqrt(2)
    return rows


def smat(vector: np.ndarray, d: int) -> np.ndarray:
    """The symmetric matrix of ``svec``."""
    i, j = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = np.where(i == j, vector, vector / np.sqrt(2))
    return matrix + np.triu(matrix, 1).T


def sample_gram(x: np.ndarray) -> np.ndarray:
    """``design(x) design(x)'`` without the design."""
    return (x @ x.T) ** 2


class LeastValue(NamedTuple):
    """The least non-zero singular value of a design: a lower bound, the rank, and the largest value."""

    lower: float
    rank: int
    largest: float


def least_singular_value(x: np.ndarray) -> LeastValue | None:
    """The least non-zero singular value of the half-vectorised design; None when rounding hides which are zero.

    A well conditioned Gram matrix is factored once, its least eigenvalue estimated by inverse iteration, and half of
    that proved by factoring the shifted matrix. The Gram matrix squares the condition, so anything else goes through
    the singular values of the design itself.
    """
    n, full = len(x), num_forms(x.shape[1])
    gram = sample_gram(x) if n <= full else (rows := design(x)).T @ rows
    bound = proven_least_eigenvalue(gram)
    largest = float(np.sqrt(np.max(np.sum(np.abs(gram), axis=1))))
    if bound is not None:
        return LeastValue(float(np.sqrt(bound)), len(gram), largest)
    values = np.linalg.svd(design(x), compute_uv=False)
    # A value is called zero only well below the rounding of the design, and non-zero only well above it.
    noise = max(n, full) * ROUNDING * values[0]
    kept = values > 1e4 * noise
    if np.any(values[~kept] > 10 * noise) or not kept.any():
        return None
    return LeastValue(float(values[kept][-1] - noise), int(kept.sum()), float(values[0]))


def proven_least_eigenvalue(gram: np.ndarray) -> float | None:
    """A positive lower bound, about half the least eigenvalue; None when the matrix is too close to singular."""
    size, floor = len(gram), 1e-9 * float(np.max(np.diag(gram), initial=0.0))
    if not floor > 0:
        return None
    try:
        factor = cho_factor(gram, lower=True, check_finite=False)
    except LinAlgError:
        return None
    vector, estimate = np.random.default_rng(0).standard_normal(size), np.inf
    for _ in range(30):
        vector = vector / np.linalg.norm(vector)
        moved = cho_solve(factor, vector, check_finite=False)
        previous, estimate = estimate, 1 / max(float(np.linalg.norm(moved)), 1e-300)
        vector = moved
        if estimate > 0.98 * previous:
            break
    shift = estimate / 2
    # The second half of the bound pays for the rounding of the shifted factorisation.
    if shift < max(floor, 50 * size * ROUNDING * float(np.trace(gram))):
        return None
    shifted = gram.copy()
    shifted[np.diag_indices(size)] -= shift
    try:
        cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return shift
