"""What the last layer on a map is fitted to: the answers with the sides of their points; and such a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import clock
from unweave.core.errors import TimeSpent

FITS = 1e-7
"""What the answers may leave, relative to their spread."""
RANK = 1e-11
"""Singular values below this share of the largest are zero."""
TRIMS, FEW = 12, 0.1
"""Rounds of least squares in which points that contradict lose their weight, and the share of them that may."""
TURNS = 8
"""Gauss-Newton steps for what no crossing has told of units below."""


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
