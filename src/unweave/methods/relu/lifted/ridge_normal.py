"""The normal equations of a sum of units over planes, pair by pair of units.

A unit changes the answers only where it is active, and all its outputs alike: ``J_a' W J_b`` of two units is one
weighted product of the features at the points where both are active. That is a small share of what the whole Jacobian
would cost.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from unweave.methods.relu.lifted.ridge_sum import RidgeSum

CHUNK = 6_000_000
"""Numbers of a Jacobian held at a time."""


def normal_matrix(
    point: RidgeSum, x: np.ndarray, u: np.ndarray, z: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """``J' S^2 J`` in the order of ``point.flat()``, at points (x, 1) with heights u and values z.

    ``scale`` (points, k) are the roots S of the weights.
    """
    size, others = len(point.flat()), len(point.flat()) - point.gamma.size - point.beta.size
    matrix = np.zeros((size, size))
    step = max(64, CHUNK // (others * scale.shape[1]))
    for first in range(0, len(x), step):
        part = slice(first, first + step)
        _add(matrix, point, x[part], u[part], z[part], scale[part])
    return np.triu(matrix) + np.triu(matrix, 1).T


def gradient_of(
    point: RidgeSum, x: np.ndarray, u: np.ndarray, z: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """``J' r`` in the order of ``point.flat()``, ``right`` (points, k) being r."""
    n = len(point.rows)
    back = (right @ point.output.T) * (z > 0)
    bends = np.where(u > 0, 1.0, -1.0) * (back @ point.beta + right @ point.above[:n].T)
    features, linear = np.hstack([x, np.abs(u)]), np.hstack([np.maximum(z, 0.0), np.abs(u), x])
    return np.concatenate([(back.T @ features).ravel(), (bends.T @ x).ravel(), (linear.T @ right).ravel()])


def _add(matrix, point: RidgeSum, x, u, z, scale) -> None:
    """The share of some of the points, in the upper triangle."""
    count, k = scale.shape
    features, active, squares = np.hstack([x, np.abs(u)]), z > 0, scale**2
    width, num_units = features.shape[1], z.shape[1]
    rest = num_units * width
    rows = point.other_columns(x, u, z)
    for a in range(num_units):
        own = np.flatnonzero(active[:, a])
        if not len(own):
            continue
        mine, part = features[own], slice(a * width, (a + 1) * width)
        pull = squares[own] * point.output[a]
        share = pull @ point.output.T
        for b in range(a, num_units):
            both = np.flatnonzero(active[own, b])
            near = mine[both]
            matrix[part, b * width : (b + 1) * width] += near.T @ (near * share[both, b, None])
        matrix[part, rest:] += mine.T @ np.einsum("nk,nkc->nc", pull, rows[own], optimize=True)
    rows = rows.reshape(count * k, -1)
    rows *= scale.reshape(-1, 1)
    matrix[rest:, rest:] += rows.T @ rows


def solve_damped(matrix: np.ndarray, gradient: np.ndarray, damping: float) -> np.ndarray | None:
    """``(matrix + damping)^-1 gradient``; None where that is not positive definite."""
    damped = matrix.copy()
    damped[np.diag_indices(len(damped))] += damping
    try:
        factor = scipy.linalg.cho_factor(damped, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return scipy.linalg.cho_solve(factor, gradient, check_finite=False)
