"""Refinement of one direction as Goel and Panigrahy state it (Algorithms 1 and 2), for comparison.

For monotone P and z close to ``w_1``: let ``p(s) = Pr[f(x) != c_0 | s - e <= z.x <= s]``. With ``p(t1) = 0.4`` and
``p(t2) = 0.6``, ``tan(angle(z, w_1)) ~ (t2 - t1) / (Phi^{-1}(0.6) - Phi^{-1}(0.4))``. A random perturbation of z of
size ``0.1 sin(alpha)/d`` in the tangent space is kept when the estimated angle falls; ``O(d log 1/eps)`` rounds.

The probabilities are estimated from the same rows every round; the search ends where their noise hides the angle.
The test of the paper, ``alpha' <= 0.01 alpha / d``, would hardly ever pass; what its proof uses (the angle falls by a
share of ``alpha / d``) is what is tested here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

LEVELS = (0.4, 0.6)


@dataclass(frozen=True)
class StatedRefinement:
    """The refined direction, the estimated angle after each kept step, and the number of rounds."""

    direction: np.ndarray
    angles: tuple[float, ...]
    num_rounds: int


def estimate_tan_alpha(x: np.ndarray, active: np.ndarray, z: np.ndarray, epsilon: float) -> float:
    """Algorithm 2: tan of the angle between unit z and the nearest unit's direction; infinite if p never reaches 0.6.

    ``t1`` and ``t2`` are read off the fraction of active rows in bands of width ``epsilon``.
    """
    order = np.argsort(x @ z)
    s, hits = (x @ z)[order], np.concatenate([[0], np.cumsum(active[order])])
    t1, t2 = _band_levels(s, hits, epsilon)
    if not np.isfinite(t1 + t2):
        return float("inf")
    return abs(t2 - t1) / float(ndtri(LEVELS[1]) - ndtri(LEVELS[0]))


def refine_estimate(
    x: np.ndarray,
    active: np.ndarray,
    z: np.ndarray,
    rng: np.random.Generator,
    *,
    epsilon: float = 0.02,
    target: float = 1e-4,
    max_rounds: int | None = None,
) -> StatedRefinement:
    """Algorithm 1 from unit z: random steps kept when the estimated angle falls; at most ``300 d`` rounds."""
    d = x.shape[1]
    z = z / np.linalg.norm(z)
    tangent = estimate_tan_alpha(x, active, z, epsilon)
    if not np.isfinite(tangent):
        return StatedRefinement(z, (float("inf"),), 0)
    # Rows far from the crossing enter no band between the two levels, however z is turned by these steps.
    scores = x @ z
    near = np.abs(scores - np.median(scores[active & (scores > 0)])) < 1.0
    x, active = x[near], active[near]
    alpha = float(np.arctan(tangent))
    angles, rounds = [alpha], 0
    for _ in range(300 * d if max_rounds is None else max_rounds):
        if alpha <= target:
            break
        rounds += 1
        step = rng.standard_normal(d)
        step -= (step @ z) * z
        trial = z + 0.1 * np.sin(alpha) / d * step
        trial /= np.linalg.norm(trial)
        angle = float(np.arctan(estimate_tan_alpha(x, active, trial, epsilon)))
        if angle <= alpha * (1 - 0.01 / d):
            z, alpha = trial, angle
            angles.append(alpha)
    return StatedRefinement(z, tuple(angles), rounds)


def _band_levels(s: np.ndarray, hits: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Where the share of active rows in the band (t - epsilon, t] first passes 0.4 and last passes 0.6."""
    grid = np.arange(max(float(s[0]), 0.0) + epsilon, float(s[-1]), epsilon / 4)
    high, low = np.searchsorted(s, grid), np.searchsorted(s, grid - epsilon)
    enough = high - low > 3
    if not enough.any():
        return float("inf"), float("inf")
    grid = grid[enough]
    shares = (hits[high] - hits[low])[enough] / (high - low)[enough]
    above, below = np.flatnonzero(shares > LEVELS[0]), np.flatnonzero(shares < LEVELS[1])
    if not len(above) or not len(below) or below[-1] + 1 == len(grid):
        return float("inf"), float("inf")
    return _between(grid, shares, above[0], LEVELS[0]), _between(grid, shares, below[-1] + 1, LEVELS[1])


def _between(grid: np.ndarray, shares: np.ndarray, place: int, level: float) -> float:
    """Where the line through a grid point and the one before it passes ``level``."""
    if place == 0 or shares[place] == shares[place - 1]:
        return float(grid[place])
    part = (level - shares[place - 1]) / (shares[place] - shares[place - 1])
    return float(grid[place - 1] + np.clip(part, 0.0, 1.0) * (grid[place] - grid[place - 1]))
