"""The last hidden layer on a map by linear least squares: on which side of every chain a cell lies is seen.

The answers are ``g . h + sum_C side_C (q_C . h)`` over the features h known below, C the chains of the last layer:
those of a unit are never interrupted, since nothing above can hide them. Sides are counted along ways from cell to
cell, so no row has to be known in advance. ``q_C`` is a multiple of the row of the unit that C is part of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from unweave.core import clock
from unweave.core.errors import TimeSpent
from unweave.methods.relu.maps.chains import Chains
from unweave.methods.relu.maps.planar import Map

FITS = 1e-7
"""What the answers may leave, relative to their spread."""
RANK = 1e-11
"""Singular values below this share of the largest are zero."""
SAME = 1e-5
"""Outputs of one unit differ by no more."""
TRIMS, FEW = 12, 0.1
"""Rounds of least squares in which points that contradict lose their weight, and the share of them that may."""
TURNS = 8
"""Gauss-Newton steps for what no crossing has told of units below."""
MISPLACED = 2e-3
"""Share of the places by which more may have the wrong sign where two chains are taken for one unit."""
PROGRAMS, MOST_WRONG = 6, 400
"""Linear programs for the signs of open rows, and points that the next one takes in."""
NEAREST, SWAY = 1000, 2.0
"""Sides that hold another choice of open rows, of the points nearest to zero sets and at random; how far it goes."""
IDLE = 1e-9
"""Open directions that change values by less than this share of what others do change none."""
CLEAR = 1e-3
"""Weight of turning a row, beside that of a sign which it does not keep."""


def count_sides(chains: Chains, cells: int, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sides (cells, chains) of the chains with these roots, and which cells are reached without contradiction."""
    roots = chains.roots
    place = {int(root): i for i, root in enumerate(wanted)}
    beside: list[list[tuple[int, int]]] = [[] for _ in range(cells)]
    for one, two, edge in chains.edges.steps:
        crossed = -1 if edge < 0 else place.get(int(roots[edge]), -1)
        beside[one].append((two, crossed))
        beside[two].append((one, crossed))
    sides, seen = np.ones((cells, len(wanted))), np.zeros(cells, dtype=bool)
    clash = np.zeros(cells, dtype=bool)
    start = max(range(cells), key=lambda c: len(beside[c]))
    queue, seen[start] = [start], True
    while queue:
        one = queue.pop(0)
        for two, crossed in beside[one]:
            expected = sides[one].copy()
            if crossed >= 0:
                expected[crossed] *= -1
            if not seen[two]:
                sides[two], seen[two] = expected, True
                queue.append(two)
            elif np.any(sides[two] != expected):
                clash[[one, two]] = True
    return sides, seen & ~clash


def sample_cells(chart: Map, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, 2) inside usable cells with the values of their pieces, and the cell of each."""
    points, values, owner = [], [], []
    for number in np.flatnonzero(usable):
        cell = chart.cells[number]
        if not cell.whole:
            continue
        middle = cell.corners.mean(axis=0)
        halfway = (cell.corners + np.roll(cell.corners, -1, axis=0)) / 2
        inside = np.vstack([cell.corners, middle + 0.8 * (halfway - middle), middle])
        points.append(inside)
        values.append(cell.at(inside))
        owner.append(np.full(len(inside), number))
    return np.concatenate(points), np.concatenate(values), np.concatenate(owner)


@dataclass
class Last:
    """Units of the last layer over known features."""

    below: np.ndarray
    """Rows of the units below."""
    rows: np.ndarray
    """(units, features + 1)"""
    outputs: np.ndarray
    """(units, k), of ``|row . h|``."""
    affine: np.ndarray
    """(k, features + 1)"""
    groups: list[list[int]]
    """The chains of every unit."""
    fit: Fit
    """Of which it is the one that keeps the sides."""
    solution: np.ndarray

    def __call__(self, h: np.ndarray) -> np.ndarray:
        """The function of features with a one."""
        return h @ self.affine.T + np.abs(h @ self.rows.T) @ self.outputs


@dataclass
class Board:
    """Points of cells with their values, what is known below with a one, and sides of chains.

    The features are those ``low`` and the sizes of the units ``rows`` above them, whose open directions the answers may
    turn: their sides at the points are held.
    """

    low: np.ndarray
    y: np.ndarray
    sides: np.ndarray
    outputs: np.ndarray
    """(chains, k) of length one: how the answers turn across each chain, towards either side."""
    on: list[np.ndarray]
    """What is known below with a one at corners of each chain."""
    rows: np.ndarray
    nulls: list[np.ndarray]
    deadline: float = np.inf
    signs: np.ndarray | None = None
    """(n, rows) of the units below at the points, and at those of the chains, where they are counted, too; else as the
    rows have them."""
    on_signs: list[np.ndarray] | None = None
    unasked: tuple[np.ndarray, ...] | None = None
    """More points: what is known below, sides of chains, and signs of the units below; only sides count there."""

    def __post_init__(self) -> None:
        if self.signs is None or self.on_signs is None:
            self.signs = np.sign(self.low @ self.rows.T)
            self.on_signs = [np.sign(one @ self.rows.T) for one in self.on]

    def add(self, low: np.ndarray, y: np.ndarray, sides: np.ndarray, signs: np.ndarray | None = None) -> None:
        """More points, with the signs of the units below where they are counted."""
        self.signs = np.vstack([self.held, np.sign(low @ self.rows.T) if signs is None else signs])
        self.low, self.y = np.vstack([self.low, low]), np.vstack([self.y, y])
        self.sides = np.vstack([self.sides, sides])

    def keep_at(self, low: np.ndarray, sides: np.ndarray, signs: np.ndarray) -> None:
        """More points at which sides are kept, whatever the answers."""
        more = (low, sides, signs)
        old = self.unasked
        self.unasked = more if old is None else tuple(np.vstack(pair) for pair in zip(old, more, strict=True))

    def forget(self, low: np.ndarray) -> None:
        """Sides are not kept at these points any more."""
        if self.unasked is not None and len(low):
            names = {row.tobytes() for row in np.ascontiguousarray(low)}
            kept = np.array([row.tobytes() not in names for row in np.ascontiguousarray(self.unasked[0])])
            self.unasked = tuple(part[kept] for part in self.unasked)

    @property
    def held(self) -> np.ndarray:
        assert self.signs is not None
        return self.signs

    @property
    def chains(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What is known below on every chain, and the signs of the units there."""
        assert self.on_signs is not None
        return list(zip(self.on, self.on_signs, strict=True))

    def lift(self, low: np.ndarray, signs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The features with a one."""
        return np.hstack([low[:, :-1], signs * (low @ rows.T), low[:, -1:]])

    def design(self, groups: list[list[int]], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least squares for the affine part and one row for every group, which vanishes on its chains."""
        if clock.now() > self.deadline:
            raise TimeSpent("the time for fitting its last layer is over")
        h, on = self.lift(self.low, self.held, rows), [self.lift(*one, rows) for one in self.chains]
        (n, p), k = h.shape, self.y.shape[1]
        blocks = [np.einsum("np,ij->nipj", h, np.eye(k)).reshape(n * k, p * k)]
        for group in groups:
            signed = np.prod(self.sides[:, group], axis=1)[:, None] * h
            blocks.append((signed[:, None, :] * self.outputs[group[0]][:, None]).reshape(n * k, p))
        a, zeros = np.hstack(blocks), []
        for place, group in enumerate(groups):
            there = np.concatenate([on[chain] for chain in group])
            row = np.zeros((len(there), a.shape[1]))
            row[:, p * k + place * p : p * k + (place + 1) * p] = there
            zeros.append(row)
        return np.vstack([a, *zeros]), np.append(self.y.ravel(), np.zeros(sum(len(z) for z in zeros)))

    def fit(self, groups: list[list[int]], rows: np.ndarray) -> Fit:
        """The solution for these rows below, the directions it leaves open, and what is left of the answers."""
        a, y = self.design(groups, rows)
        scale = np.linalg.norm(a, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        u, s, vt = np.linalg.svd(a / scale, full_matrices=False)
        kept = s > RANK * s[0]
        solution = vt[kept].T @ ((u[:, kept].T @ y) / s[kept]) / scale
        rest = y - a @ solution
        left = float(np.max(np.abs(rest)) / (np.std(self.y) + 1e-300))
        return Fit(rows, solution, vt[~kept].T / scale[:, None], left, rest, u[:, kept])

    def trim(self, groups: list[list[int]], few: float = FEW) -> np.ndarray:
        """Leave out points, if they are few, that all others contradict: of cells whose sides are miscounted.

        Which are kept.
        """
        a, y = self.design(groups, self.rows)
        n, k = self.y.shape
        scale, size = np.linalg.norm(a, axis=0), float(np.std(self.y)) + 1e-300
        a = a / np.where(scale > 0, scale, 1.0)
        weight = np.ones(len(a))
        for _ in range(TRIMS):
            if clock.now() > self.deadline:
                return np.ones(n, dtype=bool)
            solution = np.linalg.lstsq(a * weight[:, None], y * weight, rcond=RANK)[0]
            miss = np.abs(a @ solution - y)
            weight = 1 / np.sqrt(np.maximum(miss, 1e-3 * FITS * size))
        good = np.all(miss[: n * k].reshape(n, k) <= FITS * size, axis=1)
        if not 1 - few <= np.mean(good) < 1:
            return np.ones(n, dtype=bool)
        self.low, self.y, self.sides = self.low[good], self.y[good], self.sides[good]
        self.signs = self.held[good]
        return good

    def _rates(self, groups: list[list[int]], fit: Fit) -> tuple[np.ndarray, np.ndarray]:
        """By how much the features of the units below count: in the answers (n, k, units), in the groups' rows."""
        m, first = len(self.rows), self.low.shape[1] - 1
        p, k = self.low.shape[1] + m, self.y.shape[1]
        affine = fit.solution[: p * k].reshape(p, k)[first : first + m]
        rows = fit.solution[p * k :].reshape(len(groups), p)[:, first : first + m]
        slopes = np.broadcast_to(affine.T, (len(self.y), k, m)).copy()
        for row, group in zip(rows, groups, strict=True):
            side = np.prod(self.sides[:, group], axis=1)
            slopes += side[:, None, None] * self.outputs[group[0]][:, None] * row
        return slopes, rows

    def _change(self, groups: list[list[int]], unit: int, way: np.ndarray, slopes, rows) -> np.ndarray:
        """What changes of everything fitted when the row of a unit below moves along ``way``."""
        moved = self.held[:, unit] * (self.low @ way)
        parts = [(moved[:, None] * slopes[:, :, unit]).ravel()]
        for row, group in zip(rows, groups, strict=True):
            for there, signs in (self.chains[chain] for chain in group):
                parts.append(signs[:, unit] * (there @ way) * row[unit])
        return np.concatenate(parts)

    def turn(self, groups: list[list[int]], start: np.ndarray) -> Fit:
        """The same with the open directions of the rows below as the answers have them, by Gauss-Newton."""
        best = self.fit(groups, start)
        if not sum(null.shape[1] for null in self.nulls):
            return best
        for _ in range(TURNS):
            if best.left <= FITS:
                break
            keys, ways = [], []
            slopes, shares = self._rates(groups, best)
            for unit, null in enumerate(self.nulls):
                for way in null.T:
                    column = self._change(groups, unit, way, slopes, shares)
                    ways.append(column - best.basis @ (best.basis.T @ column))
                    keys.append((unit, way))
            step = np.linalg.lstsq(np.array(ways).T, best.rest, rcond=1e-8)[0]
            size = np.linalg.norm(best.rest)
            for share in (1.0, 0.3, 0.1):
                trial = best.rows.copy()
                for (unit, way), change in zip(keys, step, strict=True):
                    trial[unit] += share * change * way
                new = self.fit(groups, trial)
                if np.linalg.norm(new.rest) < 0.9 * size:
                    best = new
                    break
            else:
                break
        return best


@dataclass
class Fit:
    """A solution of least squares."""

    rows: np.ndarray
    """Of the units below."""
    solution: np.ndarray
    null: np.ndarray
    left: float
    """Largest rest, relative to the spread of the answers."""
    rest: np.ndarray
    basis: np.ndarray


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
    held = _signed(board, last.groups, last.fit, board.low, board.sides, board.held)
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
    solution, misplaced = _keep_sides(board, groups, fit)
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
    misplaced = _keep_sides(board, groups, fit)[1]
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
            there = _keep_sides(board, merged, new)[1]
            if there <= misplaced + MISPLACED:
                groups, fit, misplaced = merged, new, min(there, misplaced)
                break
        else:
            place += 1
    return groups, fit


def _keep_sides(board: Board, groups: list[list[int]], fit: Fit) -> tuple[np.ndarray, float]:
    """The solution with its open directions such that every row has one sign on either side of its chains.

    Points at which nothing was asked are taken in where the rows have another sign there than is counted.
    """
    solution, null, held = (
        fit.solution,
        fit.null,
        _signed(board, groups, fit, board.low, board.sides, board.held),
    )
    value, turn = held(solution), held(null)
    # a unit is positive or negative on its side throughout; its output says which
    size = float(np.median(np.abs(value))) + 1e-300
    if not null.shape[1]:
        return solution, float(np.mean(value < -1e-9 * size))
    others = None if board.unasked is None else _signed(board, groups, fit, *board.unasked)
    shown = np.linalg.norm(turn, axis=1) > 1e-9 * size
    values, turns = value[shown], turn[shown]
    step = np.zeros(null.shape[1])
    for _ in range(PROGRAMS):
        if np.any(values + turns @ step < -1e-9 * size):
            step = _keep(values, turns, size)
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


def _signed(board: Board, groups: list[list[int]], fit: Fit, low, sides, signs):
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


def _keep(value: np.ndarray, turn: np.ndarray, size: float) -> np.ndarray:
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
