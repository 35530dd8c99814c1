"""Points of a box where a unit of a known sum is on its rarer side, however small that part of the box is.

Walks inside the region: from a point on that side a random chord of the box, and on it a random point that is on that
side as well. Of the points so found those are chosen at which the unit's features are most independent: as many
answers there as the unit has weights tell all of them. Nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from unweave.methods.relu.lifted.ridge_sum import RidgeSum

WALKERS, STEPS, TRIES = 48, 24, 6
"""Walks in one region, how long they are, and points looked at on each chord."""
BEYOND = 0.3
"""How far beyond the border of its region a unit is looked at, relative to its largest value there."""


def walk_inside(
    inside: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Points of the box from all over the region ``inside`` that holds ``starts``; the walks' later halves."""
    x = starts[rng.integers(len(starts), size=WALKERS)]
    found = []
    for step in range(STEPS):
        way = (high - low) * rng.standard_normal(x.shape)
        with np.errstate(divide="ignore"):
            ends = np.stack([(low - x) / way, (high - x) / way])
        first, last = ends.min(axis=0).max(axis=1), ends.max(axis=0).min(axis=1)
        # shorter and shorter around where the walk is, which is inside
        shares = rng.uniform(size=(TRIES, len(x))) * 0.35 ** np.arange(TRIES)[:, None]
        ahead = rng.uniform(size=shares.shape) < 0.5
        t = shares * np.where(ahead, last, first)
        trial = np.clip(x + t[:, :, None] * way, low, high)
        good = inside(trial.reshape(-1, x.shape[1])).reshape(TRIES, len(x))
        good[-1] |= ~good.any(axis=0)
        pick = np.argmax(good, axis=0)
        moved = trial[pick, np.arange(len(x))]
        x = np.where(inside(moved)[:, None], moved, x)
        if step >= STEPS // 2:
            found.append(x)
    return rng.permutation(np.unique(np.concatenate(found), axis=0))


def telling_places(
    point: RidgeSum, unit: int, on: bool, starts: np.ndarray, low, high, rng: np.random.Generator
) -> np.ndarray:
    """Points at which a unit that is (not) ``on`` at ``starts`` shows all its weights, and some from beyond its border.

    Two for each weight at most, and as many beyond.
    """
    weights = (1.0 if on else -1.0) * np.append(point.gamma[unit], point.beta[unit])
    border = -BEYOND * np.max(_features(point, starts) @ weights, initial=0.0)

    def near(x: np.ndarray) -> np.ndarray:
        return _features(point, x) @ weights > border

    x = walk_inside(near, starts, low, high, rng)
    features = _features(point, x)
    inside = np.flatnonzero(features @ weights > 0)
    features /= np.sqrt(np.mean(features**2, axis=0)) + 1e-300
    chosen = [np.setdiff1d(np.arange(len(x)), inside)[: 2 * len(weights)]]
    for _ in range(2):
        if not len(inside):
            break
        found = scipy.linalg.qr(features[inside].T, mode="r", pivoting=True)
        sizes, order = np.abs(np.diag(found[0])), found[-1]
        rank = int(np.sum(sizes > 1e-9 * sizes[0]))
        chosen.append(inside[order[:rank]])
        inside = np.delete(inside, order[:rank])
    return x[np.concatenate(chosen)]


def _features(point: RidgeSum, x: np.ndarray) -> np.ndarray:
    x = np.hstack([x, np.ones((len(x), 1))])
    return np.hstack([x, np.abs(x @ point.rows.T)])
