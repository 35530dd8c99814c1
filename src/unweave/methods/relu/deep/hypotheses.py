"""The sides of all units of a layer at once: the choice that corners of the layers below obey.

A choice of sides says which units are active at every corner, so the derivative there has to be a combination of their
rows, none of them left out. One corner that knows fewer directions than there are units tells no pattern by itself, and
weights that are not known cost an equation each where their unit is active; together corners leave one choice.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.corners import Corner

MOST_UNITS = 12
"""Units all of whose sides are tried."""
MOST_SOLVED = 40_000
"""Combinations that are solved for, all corners together."""
FEWEST = 2
"""Corners by which a choice has to be ahead of every other."""


def choose_sides(
    corners: list[Corner], rows: np.ndarray, seen: np.ndarray, *, most_against: float = 0.0
) -> np.ndarray | None:
    """Signs (units,) that make the rows active where they are positive; None where corners do not tell.

    ``most_against``: share of the corners that may contradict the choice.
    """
    num = len(rows)
    if not 2 <= num <= MOST_UNITS:
        return None
    rows = np.where(seen, rows, 0.0)
    choices = 1.0 - 2.0 * ((np.arange(2**num)[:, None] >> np.arange(num)) & 1)
    told = [corner for corner in corners if _is_told(corner, seen)]
    score, against = np.zeros(len(choices)), np.zeros(len(choices))
    for corner in told[: max(MOST_SOLVED // len(choices), 1)]:
        z = rows[:, :-1] @ corner.features + rows[:, -1]
        verdict = _judge(corner, rows, seen, choices * z > 0)
        score += verdict
        against += verdict < 0
    best = np.argsort(-score, kind="stable")[:2]
    ahead = score[best[0]] - score[best[1]] >= FEWEST
    enough = score[best[0]] >= FEWEST and against[best[0]] <= most_against * (score + 2 * against)[best[0]]
    return choices[best[0]] if ahead and enough else None


def _is_told(corner: Corner, seen: np.ndarray) -> bool:
    """Whether the argument of every unit is known at a corner."""
    return not np.any((np.abs(corner.features) > 1e-12) & ~seen[:, :-1])


def _judge(corner: Corner, rows: np.ndarray, seen: np.ndarray, on: np.ndarray) -> np.ndarray:
    """For patterns (m, units) of active ones: 1 where they explain a corner with an equation to spare, -1 where not.

    0 where nothing is told.
    """
    frame, weight = corner.basis.T, corner.errors.min() / corner.errors
    open_features = np.flatnonzero(corner.moving & ~seen[:, :-1].all(axis=0))
    columns = np.hstack([frame @ rows[:, :-1].T, frame[:, open_features]]) * weight[:, None]
    taken = np.hstack([on, on @ ~seen[:, open_features]])
    moves = np.linalg.norm(columns, axis=0) > 1e-9
    patterns, number = np.unique(taken & moves, axis=0, return_inverse=True)
    target, noise = corner.slopes * weight[:, None], float(corner.errors.min())
    u, s, vt = np.linalg.svd(patterns[:, None, :] * columns[None], full_matrices=False)
    used = s > 1e-5 * np.maximum(s[:, :1], 1e-300)
    shares = np.where(used, 1 / np.where(used, s, 1.0), 0.0)
    solution = vt.transpose(0, 2, 1) @ (shares[:, :, None] * (u.transpose(0, 2, 1) @ target))
    miss = np.max(np.abs(columns @ solution - target), axis=(1, 2))
    rank, size = used.sum(axis=1), patterns.sum(axis=1)
    spare, unique = len(target) - rank, rank == size
    level = np.maximum(100 * noise * np.max(shares, axis=1), 1e-6 * np.max(np.abs(solution), axis=(1, 2)))
    length = np.linalg.norm(solution, axis=2)
    idle = np.any(patterns[:, : len(rows)] & (length[:, : len(rows)] <= level[:, None]), axis=1)
    explains = miss <= 100 * noise
    verdict = np.where(explains, np.where(unique & ~idle, 1, np.where(unique, -1, 0)), -1)
    return np.where(spare > 0, verdict, 0)[number.ravel()]
