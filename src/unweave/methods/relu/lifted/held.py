"""A few units of a sum fitted while the others are held: rough starts settle without pulling at what is known well.

Weights of the chosen units and all that enters the answers linearly (outputs, what stands above the planes) are fitted
by damped least squares to answers with error bars; far-off answers count less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.lifted.ridge_normal import solve_damped
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

FAR = 6.0
"""Deviations in error bars, or three times the usual ones, from which on an answer counts less."""
ENOUGH = 0.999
"""A step that leaves more than this share of the cost is the last."""


def fit_some(
    point: RidgeSum,
    which: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    *,
    typical: float,
    max_steps: int = 12,
) -> RidgeSum:
    """The sum with the numbered units, and all that is linear, fitted to answers ``y`` (points, k) at ``x``.

    ``typical`` deviation in error bars of all answers before, of which these may be the wrong ones.
    """
    x, k, damping = np.hstack([x, np.ones((len(x), 1))]), y.shape[1], 1e-6
    features = np.hstack([x, np.abs(x @ point.rows.T)])
    values, u, z = point.forward(x)
    residual = (values - y) / bars[:, None]
    for _ in range(max_steps):
        limit = max(FAR, 3 * min(typical, float(np.median(np.abs(residual)))))
        weights = np.minimum(1.0, limit / np.maximum(np.abs(residual), 1e-300))
        design = _design(point, which, x, u, z, features)
        design *= (weights / bars[:, None])[:, :, None]
        design = design.reshape(len(x) * k, -1)
        scale = np.linalg.norm(design, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        design /= scale
        matrix, gradient = design.T @ design, design.T @ (weights * residual).ravel()
        before, accepted = _cost(residual, limit), False
        for _ in range(6):
            change = solve_damped(matrix, gradient, damping)
            if change is None:
                damping = max(10 * damping, 1e-9)
                continue
            trial = _moved(point, which, change / scale)
            values, *bends = trial.forward(x)
            fresh = (values - y) / bars[:, None]
            after = _cost(fresh, limit)
            if after < before:
                accepted = True
                break
            damping = max(10 * damping, 1e-9)
        if not accepted:
            break
        point, residual, (u, z), damping = trial, fresh, bends, max(damping / 6, 1e-12)
        if after > ENOUGH * before:
            break
    return point


def _design(point: RidgeSum, which: np.ndarray, x, u, z, features: np.ndarray) -> np.ndarray:
    """(points, k, parameters): derivatives by the weights of the numbered units, by outputs and what stands above."""
    count, k = len(x), point.output.shape[1]
    own = (
        (z[:, which] > 0)[:, None, :, None]
        * point.output[which].T[None, :, :, None]
        * features[:, None, None]
    )
    linear = np.hstack([np.maximum(z, 0.0), np.abs(u), x])
    spread = linear[:, None, :, None] * np.eye(k)[:, None, :]
    return np.concatenate([own.reshape(count, k, -1), spread.reshape(count, k, -1)], axis=2)


def _moved(point: RidgeSum, which: np.ndarray, change: np.ndarray) -> RidgeSum:
    (m, n), k, width = point.beta.shape, point.output.shape[1], point.gamma.shape[1]
    own = change[: len(which) * (width + n)].reshape(len(which), width + n)
    rest = change[len(which) * (width + n) :].reshape(-1, k)
    gamma, beta = point.gamma.copy(), point.beta.copy()
    gamma[which] -= own[:, :width]
    beta[which] -= own[:, width:]
    return replace(
        point, gamma=gamma, beta=beta, output=point.output - rest[:m], above=point.above - rest[m:]
    )


def _cost(residual: np.ndarray, limit: float) -> float:
    squares = residual**2 / limit**2
    return limit**2 * float(np.sum(np.where(squares > 1, 1 + np.log(np.maximum(squares, 1.0)), squares)))
