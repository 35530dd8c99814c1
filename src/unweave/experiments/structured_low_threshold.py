"""Low thresholds and no linear terms: directions where ``E[f delta'(z.x - t)]`` is large (Goel and Panigrahy, sec. 3).

For step units f jumps across ``w_i.x = t``: the difference of its means in thin slabs beside ``z.x = t`` is of
order one for ``z = w_i`` and of order ``slab / angle`` elsewhere. For relu units the second difference plays that part.
Nothing guides the search from far away, so it takes a number of directions exponential in d: it is bounded, and refuses
more than ``MOST_INPUTS`` inputs.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import InputError

MOST_INPUTS = 6
MOST_DIRECTIONS = 20_000
NUM_ROWS = 20_000
"""Rows that rank the directions; twice as many improve the best of them."""


def jump_across(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, threshold: float, width: float, order: int = 1
) -> np.ndarray:
    """For each row of z: the difference (order 1) or second difference (order 2) of mean y across ``z.x = t``."""
    scores = x @ z.T - threshold
    means = []
    for low in (0, -1) if order == 1 else (1, 0, -1, -2):
        inside = (scores >= low * width) & (scores < (low + 1) * width)
        means.append((y @ inside) / np.maximum(inside.sum(axis=0), 1))
    return means[0] - means[1] if order == 1 else (means[0] - means[1] - means[2] + means[3]) / width


def search_directions(
    x: np.ndarray,
    y: np.ndarray,
    threshold: float,
    num_units: int,
    rng: np.random.Generator,
    *,
    order: int = 1,
    num_directions: int | None = None,
    widths: tuple[float, ...] = (0.3, 0.15, 0.08),
) -> np.ndarray:
    """Directions (num_units, d) across whose threshold f jumps most (order 1: steps, 2: relus), by random search.

    ``200 * 3^(d-2)`` directions by default, at most 20 000; the best are improved by random steps with thinner slabs.
    """
    d = x.shape[1]
    if d > MOST_INPUTS:
        raise InputError(f"{d} inputs: the search is exponential in them and ends at {MOST_INPUTS}")
    count = min(200 * 3 ** max(d - 2, 0), MOST_DIRECTIONS) if num_directions is None else num_directions
    candidates = _unit(rng.standard_normal((min(count, MOST_DIRECTIONS), d)))
    some = slice(0, NUM_ROWS)
    values = np.concatenate(
        [
            np.abs(jump_across(x[some], y[some], candidates[i : i + 100], threshold, widths[0], order))
            for i in range(0, len(candidates), 100)
        ]
    )
    found: list[np.ndarray] = []
    for best in np.argsort(-values):
        z = candidates[best]
        if any(z @ known > 0.7 for known in found):
            continue
        z = _improve(x[: 2 * NUM_ROWS], y[: 2 * NUM_ROWS], z, threshold, order, widths, rng)
        if all(z @ known < 0.9 for known in found):
            found.append(z)
        if len(found) == num_units:
            break
    return np.array(found)


def _improve(x, y, z, threshold, order, widths, rng, num_rounds: int = 8, num_trials: int = 24) -> np.ndarray:
    for width in widths:
        radius = 2 * width
        for _ in range(num_rounds):
            trials = _unit(
                np.vstack([z, z + radius * rng.standard_normal((num_trials, len(z))) / np.sqrt(len(z))])
            )
            z = trials[int(np.argmax(np.abs(jump_across(x, y, trials, threshold, width, order))))]
            radius *= 0.8
    return z


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
