"""What is open of the rows of a last layer, chosen so that units keep one sign on either side of their chains.

Linear programs: a step along the open directions that turns rows as little as it can.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from unweave.core import clock
from unweave.methods.relu.maps.board import Board, Fit

IDLE = 1e-9
"""Open directions that change values by less than this share of what others do change none."""
PROGRAMS, MOST_WRONG = 6, 400
"""Linear programs for the signs of open rows, and points that the next one takes in."""
CLEAR = 1e-3
"""Weight of turning a row, beside that of a sign which it does not keep."""


def keep_sides(board: Board, groups: list[list[int]], fit: Fit) -> tuple[np.ndarray, float]:
    """The solution with its open directions such that every row has one sign on either side of its chains.

    Points at which nothing was asked are taken in where the rows have another sign there than is counted.
    """
    solution, null, held = (
        fit.solution,
        fit.null,
        signed_values(board, groups, fit, board.low, board.sides, board.held),
    )
    value, turn = held(solution), held(null)
    # a unit is positive or negative on its side throughout; its output says which
    size = float(np.median(np.abs(value))) + 1e-300
    if not null.shape[1]:
        return solution, float(np.mean(value < -1e-9 * size))
    others = None if board.unasked is None else signed_values(board, groups, fit, *board.unasked)
    shown = np.linalg.norm(turn, axis=1) > 1e-9 * size
    values, turns = value[shown], turn[shown]
    step = np.zeros(null.shape[1])
    for _ in range(PROGRAMS):
        if np.any(values + turns @ step < -1e-9 * size):
            step = keep(values, turns, size)
        if others is None or clock.now() > board.deadline:
            break
        more, change = others(solution), others(null)
        wrong = np.flatnonzero(
            (more + change @ step < -1e-9 * size) & (np.linalg.norm(change, axis=1) > 1e-9 * size)
        )
        wrong = wrong[:: 1 + len(wrong) // MOST_WRONG]
        if not len(wrong):
            break
        values, turns = np.append(values, more[wrong]), np.vstack([turns, change[wrong]])
    return solution + null @ step, float(np.mean(value + turn @ step < -1e-9 * size))


def signed_values(board: Board, groups: list[list[int]], fit: Fit, low, sides, signs):
    """A function that gives the values of the groups' rows at points, positive on the side that is counted."""
    h = board.lift(low, signs, fit.rows)
    p, k = h.shape[1], board.y.shape[1]

    def values(solution: np.ndarray) -> np.ndarray:
        parts = []
        for place, group in enumerate(groups):
            side = np.prod(sides[:, group], axis=1)
            own = h @ solution[p * k + place * p : p * k + (place + 1) * p]
            parts.append(side * own if own.ndim == 1 else side[:, None] * own)
        return np.concatenate(parts)

    return values


def keep(value: np.ndarray, turn: np.ndarray, size: float) -> np.ndarray:
    """The step ``a`` of least sum of what is negative of ``value + turn a``."""
    scale, step = np.max(np.abs(turn), axis=0, initial=0.0), np.zeros(turn.shape[1])
    use = scale > IDLE * np.max(scale, initial=0.0)
    short = -turn[:, use] / scale[use]
    n, q = short.shape
    found = linprog(
        np.concatenate([np.full(2 * q, CLEAR), np.ones(n)]),
        A_ub=scipy.sparse.hstack([short, -short, -scipy.sparse.identity(n)], format="csr"),
        b_ub=value / size + 1e-9,
    )
    if found.x is not None:
        step[use] = (found.x[:q] - found.x[q : 2 * q]) * size / scale[use]
    return step
