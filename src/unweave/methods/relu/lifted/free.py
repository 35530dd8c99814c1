"""A whole sum of units over planes by damped least squares on answers, without regard to how it was found.

Where all units are there and nearly right, every answer counts fully: those beyond their error bars show which
boundary is off. Levenberg-Marquardt on columns of length one; no step is kept that fits worse.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.ridge_normal import gradient_of, normal_matrix, solve_damped
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

ENOUGH = 0.995
"""A step that leaves more than this share of the squares is the last."""


def fit_freely(
    point: RidgeSum,
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    *,
    max_steps: int = 15,
    damping: float = 1e-4,
) -> RidgeSum:
    """The sum with all its parameters, planes included, fitted to answers ``y`` (points, k) at ``x``."""
    x, bars = np.hstack([x, np.ones((len(x), 1))]), bars[:, None]
    values, u, z = point.forward(x)
    residual = (values - y) / bars
    for _ in range(max_steps):
        matrix = normal_matrix(point, x, u, z, np.broadcast_to(1 / bars, residual.shape))
        gradient = gradient_of(point, x, u, z, residual / bars)
        scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        matrix = matrix / scale[:, None] / scale
        before, after = float(np.sum(residual**2)), np.inf
        for _ in range(8):
            change = solve_damped(matrix, gradient / scale, damping)
            if change is None:
                damping *= 10
                continue
            trial = point.at(point.flat() - change / scale)
            values, *bends = trial.forward(x)
            fresh = (values - y) / bars
            after = float(np.sum(fresh**2))
            if after < before:
                point, residual, (u, z) = trial, fresh, bends
                break
            damping = max(8 * damping, 1e-10)
        damping = max(damping / 6, 1e-13)
        if not after < ENOUGH * before:
            break
    return point
