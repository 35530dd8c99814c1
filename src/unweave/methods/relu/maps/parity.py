"""The last hidden layer on a map by linear least squares: on which side of every chain a cell lies is seen.

The answers are ``g . h + sum_C side_C (q_C . h)`` over the features h known below, C the chains of the last layer:
those of a unit are never interrupted, since nothing above can hide them. Sides are counted along ways from cell to
cell, so no row has to be known in advance. ``q_C`` is a multiple of the row of the unit that C is part of.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

from unweave.methods.relu.maps.board import Board, Fit, Last
from unweave.methods.relu.maps.kept import IDLE, keep_sides, signed_values

FITS = 1e-7
"""What the answers may leave, relative to their spread."""
SAME = 1e-5
"""Outputs of one unit differ by no more."""
MISPLACED = 2e-3
"""Share of the places by which more may have the wrong sign where two chains are taken for one unit."""
NEAREST, SWAY = 1000, 2.0
"""Sides that hold another choice of open rows, of the points nearest to zero sets and at random; how far it goes."""


def fit_last(
    board: Board, say: Callable[[str], None] = lambda text: None, old: Last | None = None
) -> Last | None:
    """The units that explain every piece, as few as that, or those with the groups of ``old``; None where none do."""
    if old is None:
        groups, fit = _group(board, say)
    else:
        groups, fit = old.groups, board.turn(old.groups, old.below)
    if fit.left > FITS:
        return None
    last, misplaced = _with_sides(board, groups, fit)
    say(f"  last layer: {len(groups)} units, left {fit.left:.1e}, misplaced {misplaced:.4f}")
    return last


def keep_more_sides(board: Board, last: Last) -> Last:
    """The same fit with the sides kept at more points."""
    return _with_sides(board, last.groups, last.fit)[0]


def sway(board: Board, last: Last, rng: np.random.Generator) -> Last:
    """Another choice of what is open, some way at random as far as the sides of what was asked let it go."""
    held = signed_values(board, last.groups, last.fit, board.low, board.sides, board.held)
    value, turn = held(last.solution), held(last.fit.null)
    size = float(np.median(np.abs(value))) + 1e-300
    scale = np.max(np.abs(turn), axis=0, initial=0.0)
    use = scale > IDLE * np.max(scale, initial=0.0)
    if not use.any():
        return last
    turn = turn[:, use] / scale[use]
    shown = np.flatnonzero(np.linalg.norm(turn, axis=1) > 1e-9)
    near = shown[np.argsort(value[shown])][:NEAREST]
    some = np.union1d(near, rng.permutation(shown)[:NEAREST])
    found = linprog(
        rng.standard_normal(turn.shape[1]),
        A_ub=-turn[some],
        b_ub=np.maximum(value[some], 0.0) / size,
        bounds=(-SWAY, SWAY),
    )
    if found.x is None:
        return last
    step = np.zeros(len(scale))
    step[use] = found.x * size / scale[use]
    return _as_last(board, last.groups, last.fit, last.solution + last.fit.null @ step)


def _with_sides(board: Board, groups: list[list[int]], fit: Fit) -> tuple[Last, float]:
    """The fit with its open directions as the sides have them, and the share of these that are missed."""
    solution, misplaced = keep_sides(board, groups, fit)
    return _as_last(board, groups, fit, solution), misplaced


def _as_last(board: Board, groups: list[list[int]], fit: Fit, solution: np.ndarray) -> Last:
    p, k = board.low.shape[1] + len(board.rows), board.y.shape[1]
    rows = solution[p * k :].reshape(len(groups), p)
    outputs = np.array([board.outputs[group[0]] for group in groups])
    return Last(fit.rows, rows, outputs, solution[: p * k].reshape(p, k).T, groups, fit, solution)


def _group(board: Board, say: Callable[[str], None]) -> tuple[list[list[int]], Fit]:
    """Chains that one unit explains together."""
    groups = [[chain] for chain in range(board.sides.shape[1])]
    if board.fit(groups, board.rows).left > FITS:
        board.trim(groups)
    fit = board.turn(groups, board.rows)
    say(f"  last layer: {len(groups)} chains, left {fit.left:.1e}, open {fit.null.shape[1]}")
    if fit.left > FITS:
        return groups, fit
    misplaced = keep_sides(board, groups, fit)[1]
    place = 0
    while place < len(groups):
        for other in range(place + 1, len(groups)):
            one, two = board.outputs[groups[place][0]], board.outputs[groups[other][0]]
            if np.linalg.norm(one - two) > SAME:
                continue
            merged = [g for i, g in enumerate(groups) if i not in (place, other)]
            merged.insert(place, groups[place] + groups[other])
            new = board.turn(merged, fit.rows)
            if new.left > FITS:
                continue
            there = keep_sides(board, merged, new)[1]
            if there <= misplaced + MISPLACED:
                groups, fit, misplaced = merged, new, min(there, misplaced)
                break
        else:
            place += 1
    return groups, fit
