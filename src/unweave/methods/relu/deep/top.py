"""The output layer by least squares on every answer, and the sides of the last hidden layer where it is the last.

Answers that an unfound unit spoils are voted down: most rows obey a right layer to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool

MAX_ROWS = 6000
DEBUG = False


@dataclass(frozen=True)
class Top:
    """Output weights and bias (features + 1, outputs), and how the answers agree."""

    coefficients: np.ndarray
    median_miss: float
    """Relative to the answers' spread."""
    wrong: np.ndarray
    x: np.ndarray

    @property
    def share_wrong(self) -> float:
        return float(np.mean(self.wrong))


def transcript(pool: Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """All answers, their weights by distance and the typical size of a weighted answer."""
    x, y = pool.inquiry.meter.transcript()
    weight = 1 / (1e-3 + np.linalg.norm(x, axis=1))
    spread = np.abs(y - np.median(y, axis=0)) * weight[:, None]
    return x, y, weight, float(np.median(spread)) + 1e-300


def fit_top(pool: Pool, known: Known, num_steps: int = 12) -> Top:
    """Output weights on the last known features."""
    x, y, weight, size = transcript(pool)
    features = np.hstack([known.features(x), np.ones((len(x), 1))])
    rows = _some(len(x))
    solution = robust_fit(features[rows] * weight[rows, None], y[rows] * weight[rows, None], size, num_steps)
    miss = np.max(np.abs((features @ solution - y) * weight[:, None]), axis=1)
    return Top(solution, float(np.median(miss)) / size, miss > 1e-7 * size, x)


def robust_fit(a: np.ndarray, y: np.ndarray, size: float, num_steps: int = 12) -> np.ndarray:
    """Least squares that most rows obey exactly."""
    scale = np.maximum(np.linalg.norm(a, axis=0), 1e-300)
    a = a / scale
    solution = np.linalg.lstsq(a, y, rcond=1e-13)[0]
    last = np.inf
    for _ in range(num_steps):
        miss = np.max(np.abs(a @ solution - y), axis=1)
        middle = np.median(miss)
        if middle < 1e-11 * size or middle > 0.95 * last:
            break
        last = middle
        weight = 1 / np.sqrt(np.maximum(miss, 0.3 * middle + 1e-14 * size))
        weight[miss > 20 * middle] = 0.0
        solution = np.linalg.lstsq(a * weight[:, None], y * weight[:, None], rcond=1e-13)[0]
    return solution / scale[:, None]


def sides_if_last(pool: Pool, known: Known, rows: np.ndarray, seen: np.ndarray):
    """Sides (+1, -1) of ``rows`` if the outputs are affine in their relus; None if they are not, or it is not settled.

    The outputs are fitted on relu(z), relu(-z) and 1; one of each pair must be absent.
    """
    x, y, weight, size = transcript(pool)
    n = len(rows)
    h = known.features(x)
    clean = ~np.any((known.active(h) @ (~seen[:, :-1]).T.astype(int)) > 0, axis=1) if known.depth else np.ones(len(x), bool)
    take = np.flatnonzero(clean)
    if DEBUG: print('   SIL clean', len(take), 'of', len(x), 'units', n)
    if len(take) < 4 * n + 20:
        return None
    take = take[_some(len(take))]
    z = h[take] @ np.where(seen, rows, 0.0)[:, :-1].T + rows[:, -1]
    features = np.hstack([np.maximum(z, 0), np.maximum(-z, 0), np.ones((len(take), 1))]) * weight[take, None]
    scale = np.linalg.norm(features, axis=0)
    if np.any(scale == 0):
        return None
    answers = y[take] * weight[take, None]
    solution = robust_fit(features, answers, size)
    miss = np.max(np.abs(features @ solution - answers), axis=1)
    if DEBUG: print('   SIL median', np.median(miss)/size)
    if np.median(miss) > 1e-7 * size:
        return None
    _, s, vt = np.linalg.svd(features / scale, full_matrices=False)
    missing = int(np.sum(s < 1e-10 * s[0]))
    if missing:
        solution = _one_of_each(solution * scale[:, None], vt[len(s) - missing :].T, scale, n)
        if solution is None:
            return None
    one, two = np.linalg.norm(solution[:n], axis=1), np.linalg.norm(solution[n : 2 * n], axis=1)
    if DEBUG: print('   SIL ratios', np.minimum(one, two) / np.maximum(np.maximum(one, two), 1e-300), 'missing', missing)
    if np.max(np.minimum(one, two) / np.maximum(np.maximum(one, two), 1e-300)) > 1e-3:
        return None
    return np.where(one > two, 1.0, -1.0)


def _one_of_each(solution: np.ndarray, null: np.ndarray, scale: np.ndarray, n: int, most: int = 2):
    """Where the features are dependent: move along the null space until one of each pair vanishes."""
    from itertools import combinations, product

    m = null.shape[1]
    if m > most:
        return None
    best = None
    for units in combinations(range(n), m):
        for option in product((0, n), repeat=m):
            pick = [u + o for u, o in zip(units, option, strict=True)]
            if np.linalg.cond(null[pick]) > 1e8:
                continue
            moved = (solution - null @ np.linalg.solve(null[pick], solution[pick])) / scale[:, None]
            one, two = np.linalg.norm(moved[:n], axis=1), np.linalg.norm(moved[n : 2 * n], axis=1)
            bad = np.max(np.minimum(one, two) / np.maximum(np.maximum(one, two), 1e-300))
            if best is None or bad < best[0]:
                best = (bad, moved)
    return best[1] if best is not None and best[0] < 1e-3 else None


def _some(count: int) -> np.ndarray:
    if count <= MAX_ROWS:
        return np.arange(count)
    return np.linspace(0, count - 1, MAX_ROWS).astype(int)
