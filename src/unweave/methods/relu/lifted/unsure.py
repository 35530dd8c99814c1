"""Where a sum's answers are least certain: of many points those whose answers tell most of what the fit leaves open.

The normal equations of the answers that a sum was fitted to give the standard error of its answer anywhere. Of a pool
of points the least certain is taken, what its answer would tell is taken into account, and so on. No question is asked.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from unweave.methods.relu.lifted.ridge_normal import normal_matrix
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

LEAST = 1e-11
"""What counts as nothing of the normal equations, their diagonal being one."""
CHUNK = 4_000_000
"""Numbers of a Jacobian held at a time."""


def least_certain(
    point: RidgeSum,
    seen: np.ndarray,
    bars: np.ndarray,
    pool: np.ndarray,
    pool_bars: np.ndarray,
    most: int,
    *,
    enough: float,
) -> tuple[np.ndarray, float]:
    """Numbers of at most ``most`` points of the pool, and the largest standard error there, in error bars.

    ``seen`` points whose answers, with error bars, the sum was fitted to; an error below ``enough`` is none.
    """
    seen, pool = (np.hstack([x, np.ones((len(x), 1))]) for x in (seen, pool))
    k = point.output.shape[1]
    _, u, z = point.forward(seen)
    matrix = normal_matrix(point, seen, u, z, np.broadcast_to(1 / bars[:, None], (len(seen), k)))
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    known = np.diag(matrix) > 0
    scale = np.where(known, scale, np.median(scale[known]))
    matrix = matrix / scale[:, None] / scale
    matrix[np.diag_indices(len(matrix))] += LEAST
    factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    parts, step = [], max(1, CHUNK // (k * len(scale)))
    for first in range(0, len(pool), step):
        rows = _jacobian(point, pool[first : first + step]) / pool_bars[first : first + step, None, None]
        rows = (rows / scale).reshape(-1, len(scale))
        parts.append(scipy.linalg.solve_triangular(factor, rows.T, lower=True, check_finite=False))
    shown = np.concatenate(parts, axis=1).T.reshape(len(pool), k, -1)
    variances = np.einsum("nkp,nkp->nk", shown, shown)
    first = float(np.sqrt(variances.max(initial=0.0)))
    chosen: list[int] = []
    told = np.zeros((0, shown.shape[2]))
    while len(chosen) < most and variances.size:
        best, output = np.unravel_index(int(np.argmax(variances)), variances.shape)
        if variances[best, output] < enough**2:
            break
        chosen.append(int(best))
        # what the answer leaves: the direction it tells, the ones before taken into account
        direction = shown[best, output] - told.T @ (told @ shown[best, output])
        direction /= np.sqrt(1 + direction @ shown[best, output])
        along = shown @ direction
        variances = np.maximum(variances - along**2, 0.0)
        told = np.vstack([told, direction])
    return np.unique(np.array(chosen, dtype=int)), first


def _jacobian(point: RidgeSum, x: np.ndarray) -> np.ndarray:
    """(points, k, parameters) in the order of ``point.flat()``, at points (x, 1)."""
    _, u, z = point.forward(x)
    features, active = np.hstack([x, np.abs(u)]), z > 0
    slopes = active[:, None, :] * point.output.T
    own = (slopes[:, :, :, None] * features[:, None, None, :]).reshape(len(x), slopes.shape[1], -1)
    return np.concatenate([own, point.other_columns(x, u, z)], axis=2)
