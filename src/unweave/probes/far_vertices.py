"""Far vertices: points where every first-layer unit is saturated, so its hidden vector is known exactly.

Along a far direction x the hidden vector is ``sign(a_i . x)`` times the limits; only the signs of the rows matter.
``choose_vertices`` draws directions far from every hyperplane, with sign patterns not seen before.
"""

from __future__ import annotations

import numpy as np


def choose_vertices(
    rows: np.ndarray, num_vertices: int, rng: np.random.Generator, known: set[bytes], *, margin: float = 0.02
) -> tuple[np.ndarray, np.ndarray]:
    """Unit directions (n, d) and their sign patterns (n, m) in {-1, +1}; fewer when the arrangement has no more.

    Half the candidates are drawn in coordinates whitened by the rows, which shows more patterns when rows are
    nearly parallel. ``known`` holds the patterns already used and is extended.
    """
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    _, values, vectors = np.linalg.svd(units, full_matrices=False)
    whitening = vectors.T / np.maximum(values, 1e-3 * values[0])
    directions, patterns = [], []
    for _ in range(40):
        plain = rng.standard_normal((2 * num_vertices + 64, rows.shape[1]))
        white = rng.standard_normal((2 * num_vertices + 64, whitening.shape[1])) @ whitening.T
        candidates = np.concatenate([plain, white])
        candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
        scores = candidates @ units.T
        margins = np.min(np.abs(scores), axis=1)
        # the wider the margin the safer; accept the best quarter, and nothing below a tenth of the wanted one
        order = np.argsort(-margins)[: max(len(candidates) // 4, 1)]
        for i in order[margins[order] > min(margin, 0.1)]:
            _add(scores[i], candidates[i], known, directions, patterns)
            if len(directions) == num_vertices:
                return np.array(directions), np.array(patterns)
        margin *= 0.8
    return np.array(directions).reshape(-1, rows.shape[1]), np.array(patterns).reshape(-1, len(rows))


def wander(
    rows: np.ndarray, directions: np.ndarray, rng: np.random.Generator, num_steps: int = 40
) -> np.ndarray:
    """Other directions with the same signs, by hit and run inside each cone of the arrangement."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    x = np.array(directions)
    signs = np.sign(x @ units.T)
    margins = 0.5 * np.min(np.abs(x @ units.T), axis=1, keepdims=True)
    for _ in range(num_steps):
        step = rng.standard_normal(x.shape)
        step /= np.linalg.norm(step, axis=1, keepdims=True)
        here, along = signs * (x @ units.T), signs * (step @ units.T)
        # x + t step keeps half the margin it began with, for t between low and high
        limits = -np.maximum(here - margins, 0.0) / np.where(along == 0, np.inf, along)
        high = np.min(np.where(along < 0, limits, 3.0), axis=1)
        low = np.max(np.where(along > 0, limits, -3.0), axis=1)
        moved = x + (low + rng.uniform(size=len(x)) * (high - low))[:, None] * step
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        stays = np.min(signs * (moved @ units.T) - margins, axis=1) >= 0
        x = np.where(stays[:, None], moved, x)
    return x


def leap(rows: np.ndarray, directions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same for independent rows, as far away as can be: other sizes of the same signs, and anything beside them."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    inverse = np.linalg.pinv(units)
    sizes = np.exp(rng.standard_normal((len(directions), len(units))))
    beside = rng.standard_normal(directions.shape)
    x = (np.sign(directions @ units.T) * sizes) @ inverse.T + beside - (beside @ units.T) @ inverse.T
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def staircase_patterns(num_units: int) -> np.ndarray:
    """The patterns of the plateaus of a half circle: after k crossings the first k units are up, (m + 1, m)."""
    return np.where(np.arange(num_units)[None, :] < np.arange(num_units + 1)[:, None], 1.0, -1.0)


def _add(scores, direction, known, directions, patterns) -> None:
    pattern = np.where(scores > 0, 1.0, -1.0)
    key = (pattern > 0).tobytes()
    if key not in known:
        known.add(key)
        directions.append(direction)
        patterns.append(pattern)
