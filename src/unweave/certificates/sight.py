"""What answers at some points show of a network's parameters: directions, and how much the answers change along each.

The normal matrix tells directions apart to half the digits; along those that it tells poorly the Jacobian is multiplied
out, which tells the rest. Directions are then turned so that each is the largest error, relative to its units, that the
others leave: a unit that hardly shows at all would else have a part in every direction, and hide all of them. Those of
which nothing is known are turned once more, so that as few of them as can be show at the points looked through: the one
that shows would else have a part in all. Large networks are looked at unit by unit, all other units held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg

from unweave.core.network import Network
from unweave.solve.information import gauge_rows
from unweave.solve.layout import Layout
from unweave.solve.weighted import answer_accuracy

MOST_TELLING, HALVED = 160, 0.25
"""How many points that would tell what is not known are named at most, and what they may leave of the variances."""
SHOWING = 0.1
"""By how many of their errors answers must move: many that move little tell as much as one that moves far."""
CHUNK = 4_000_000
"""Numbers of a Jacobian held at a time."""
COARSE, CLEAR = 1e-7, 1e-3
"""Singular values, relative to the largest, that the normal matrix cannot tell from zero, and that it tells so well
that their directions keep out of those of others to the last digits."""
INVISIBLE = 1e-13
"""Relative size of the singular values of directions that change nothing but by rounding."""
KNOWN = 1e-5
"""Relative error of a direction that is a part of no larger one."""
FREE = 1e3
"""By how much of its unit's largest a parameter may be off where nothing is known of it."""
ROUNDED = 1e-12
"""Relative error of a direction that changes nothing as a whole."""


@dataclass(frozen=True)
class Block:
    """Directions (columns) of some of the parameters, and how much the answers change along each, in their errors."""

    own: np.ndarray
    vectors: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    """How large each vector is for the unit that it changes most, relative to that unit's largest parameter."""


class Sight:
    """What answers at some points show of a network's parameters."""

    def __init__(self, network: Network, noise: float, unit: float, alone: bool):
        self.network, self.noise, self.unit, self.alone = network, noise, unit, alone
        self.layout, self.theta = Layout.of(network), network.flat()
        blocks = [self.layout.block(self.theta, layer) for layer in range(self.layout.num_layers)]
        self.largest = np.concatenate([np.repeat(np.max(np.abs(b), axis=1), b.shape[1]) for b in blocks])
        """Of each parameter's unit."""
        self.largest = np.maximum(self.largest, 1e-300)
        self.blocks: list[Block] = []

    def look(self, points: np.ndarray, *, finely: bool = True) -> None:
        """Take the directions from these points alone."""
        look = self._unit_by_unit(points, finely) if self.alone else [self._together(points)]
        self.blocks, self.scales = [], np.ones(self.layout.num_parameters)
        for own, vectors, values, scales in look:
            if finely:
                vectors, values = _largest_errors(vectors, values, scales, self.largest[own])
            self.blocks.append(Block(own, vectors, values, self._sizes(own, vectors)))
            self.scales[own] = scales
        self._gather()
        self.dead = self.errors > 1

    def _gather(self) -> None:
        self.values = np.concatenate([b.values for b in self.blocks])
        self.sizes = np.concatenate([b.sizes for b in self.blocks])
        with np.errstate(divide="ignore"):
            self.errors = self.sizes / self.values

    def part(self, points: np.ndarray, step: float) -> np.ndarray:
        """Turn the directions of which nothing is known so that as few as can be show at these points.

        Which of all directions are of that kind, and show when one of their units changes by ``step``.
        """
        starts = np.cumsum([0, *(len(b.values) for b in self.blocks)])
        dead = [self.dead[a:b] for a, b in pairwise(starts)]
        bases = [block.vectors[:, which] for block, which in zip(self.blocks, dead, strict=True)]
        factors = [np.zeros((0, base.shape[1])) for base in bases]
        for part in self._split(points, self.layout.num_parameters):
            for number, rows in self._by_block(part):
                if bases[number].shape[1] and len(rows):
                    scales = self.scales[self.blocks[number].own]
                    moves = step * _beyond_rounding(rows, bases[number], scales)
                    factors[number] = _triangle([factors[number], moves])
        shown = np.zeros(len(self.values), dtype=bool)
        for number, (block, which) in enumerate(zip(self.blocks, dead, strict=True)):
            if which.any():
                found, turn = _singular(factors[number])
                vectors, values = block.vectors.copy(), block.values.copy()
                vectors[:, which], values[which] = bases[number] @ turn, 1 / FREE
                self.blocks[number] = Block(block.own, vectors, values, self._sizes(block.own, vectors))
                shown[starts[number] + np.flatnonzero(which)] = found > SHOWING
        self._gather()
        return shown

    def _by_block(self, points: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Of each block by how many of their errors answers move with its parameters."""
        if not self.alone:
            yield 0, self._rows(points)
            return
        accuracy = answer_accuracy(self.network, points, self.noise, self.unit).reshape(len(points), -1)
        for number, (_, features, delta) in enumerate(self.layout.units(self.theta, points)):
            weights = np.max(np.abs(delta) / accuracy, axis=1)
            rows = weights > 0
            yield number, features[rows] * weights[rows, None]

    def steps(self, which: np.ndarray, limit: float) -> np.ndarray:
        """One standard error along the numbered directions, at most ``limit`` of a unit."""
        found, first = np.zeros((self.layout.num_parameters, len(which))), 0
        for block in self.blocks:
            columns = np.flatnonzero((which >= first) & (which < first + len(block.values)))
            found[np.ix_(block.own, columns)] = block.vectors[:, which[columns] - first]
            first += len(block.values)
        return found * np.minimum(self.errors[which], limit) / np.maximum(self.sizes[which], 1e-300)

    def best(self, points: np.ndarray, steps: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """For each of the steps (columns) the ``count`` points whose answers move most by it.

        (rows, by how many of their errors they move), each (steps, count).
        """
        rows, moved = np.zeros((steps.shape[1], 0), dtype=int), np.zeros((steps.shape[1], 0))
        width = self.network.output_size * steps.shape[1]
        for part in np.array_split(np.arange(len(points)), len(points) * width // CHUNK + 1):
            shown = self._shown(points[part], steps).T
            own = np.argpartition(-shown, min(count, len(part) - 1), axis=1)[:, :count]
            rows = np.hstack([rows, part[own]])
            moved = np.hstack([moved, np.take_along_axis(shown, own, axis=1)])
            own = np.argsort(-moved, axis=1)[:, :count]
            rows, moved = (np.take_along_axis(a, own, axis=1) for a in (rows, moved))
        return rows, moved

    def choose(self, points: np.ndarray, steps: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Those of the points, in order, that leave least of the squares of ``errors``, along ``steps`` each."""
        if not steps.shape[1]:
            return points[:0]
        shown = self._shown(points, steps) if self.alone else self._moves(points, steps)
        shown = shown.reshape(len(points), -1, steps.shape[1])
        spread, counts, chosen = np.eye(steps.shape[1]), errors**2 / np.sum(errors**2), list[int]()
        while len(chosen) < MOST_TELLING and np.diag(spread) @ counts > HALVED:
            turned = shown @ spread
            gains = np.sum(turned**2 @ counts / (1 + np.sum(turned * shown, axis=2)), axis=1)
            gains[chosen] = 0.0
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            chosen.append(best)
            for row in shown[best]:
                along = spread @ row
                spread = spread - np.outer(along, along) / (1 + row @ along)
        return points[chosen]

    def _moves(self, points: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """(answers, steps): by how many of its errors each answer moves."""
        return np.concatenate([self._rows(part) @ steps for part in self._split(points, len(steps))])

    def _shown(self, points: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """(points, steps): how far answers move by each step, in their errors, beyond the rounding of the step."""
        if not self.alone:
            parts = [
                np.abs(_beyond_rounding(self._rows(part), steps, self.scales))
                for part in self._split(points, self.layout.num_parameters)
            ]
            return np.max(np.concatenate(parts).reshape(len(points), -1, steps.shape[1]), axis=1)
        accuracy = answer_accuracy(self.network, points, self.noise, self.unit).reshape(len(points), -1)
        found = np.zeros((len(points), steps.shape[1]))
        for own, features, delta in self.layout.units(self.theta, points):
            used = np.flatnonzero(steps[own].any(axis=0))
            weights = np.max(np.abs(delta) / accuracy, axis=1) if len(used) else np.zeros(0)
            rows = np.flatnonzero(weights)
            found[np.ix_(rows, used)] = weights[rows, None] * np.abs(
                _beyond_rounding(features[rows], steps[np.ix_(own, used)], self.scales[own])
            )
        return found

    def spread(self, hidden: np.ndarray) -> np.ndarray:
        """Standard error of each parameter; a direction that shows in no answer but is not hidden is all open."""
        found, first = np.zeros(self.layout.num_parameters), 0
        for block in self.blocks:
            part = slice(first, first + len(block.values))
            first = part.stop
            lengths = np.minimum(self.errors[part], 1.0) / np.maximum(block.sizes, 1e-300)
            lengths = np.where(hidden[part], 0.0, lengths)
            found[block.own] += np.sum((block.vectors * lengths) ** 2, axis=1)
        return np.sqrt(found)

    def _sizes(self, own: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return np.max(np.abs(vectors) / self.largest[own, None], axis=0)

    def _split(self, points: np.ndarray, width: int) -> list[np.ndarray]:
        return np.array_split(points, len(points) * self.network.output_size * width // CHUNK + 1)

    def _rows(self, points: np.ndarray) -> np.ndarray:
        accuracy = answer_accuracy(self.network, points, self.noise, self.unit)
        return self.layout.linearise(self.theta, points)[1] / accuracy.reshape(-1, 1)

    def _together(self, points: np.ndarray):
        """All parameters at once, the scales of units held."""
        size = self.layout.num_parameters
        parts, matrix = self._split(points, size), np.zeros((size, size))
        for part in parts:
            jacobian = self._rows(part)
            matrix += jacobian.T @ jacobian
        seen, scales = self._seen(np.sqrt(np.diag(matrix)), np.arange(size))
        gauge = gauge_rows(self.layout, self.theta).toarray()[:, seen] * scales[seen]
        gauge /= np.maximum(np.linalg.norm(gauge, axis=1, keepdims=True), 1e-300)
        matrix = matrix[np.ix_(seen, seen)] / np.outer(scales[seen], scales[seen]) + gauge.T @ gauge
        squares, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        weak = squares <= CLEAR**2 * squares[-1]
        values = np.sqrt(np.maximum(squares, 0.0))
        if weak.any():
            basis, clear = vectors[:, weak], vectors[:, ~weak]
            # the normal matrix mixes a little of those it tells into the others: more than these show themselves
            mixed = gauge.T @ (gauge @ basis)
            for rows in self._scaled(parts, seen, scales):
                mixed += rows.T @ (rows @ basis)
            basis = np.linalg.qr(basis - clear @ ((clear.T @ mixed) / squares[~weak, None]))[0]
            shown = [rows @ basis for rows in self._scaled(parts, seen, scales)]
            values[weak], turn = _singular(_triangle([*shown, gauge @ basis]))
            vectors[:, weak] = basis @ turn
        return np.arange(size), vectors, values, scales

    def _scaled(self, parts: list[np.ndarray], seen: np.ndarray, scales: np.ndarray) -> Iterator[np.ndarray]:
        """Rows of the Jacobian by the parameters that are seen, in their scales."""
        for part in parts:
            yield self._rows(part)[:, seen] / scales[seen]

    def _seen(self, shown: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the parameters ``own`` move the answers at all, and by how much in all; 0 for the others."""
        seen = shown * self.largest[own] > 1 / FREE
        return np.flatnonzero(seen), np.where(seen, shown, 0.0)

    def _unit_by_unit(self, points: np.ndarray, finely: bool):
        """Each unit's own parameters, its scale among them, all others held: what couples units is left out.

        ``finely``: from triangular factors, to the last digits, instead of normal matrices.
        """
        parts = self._split(points, sum(self.layout.sizes))
        for several in zip(*(self._roots(part) for part in parts), strict=True):
            own, width = several[0][0], len(several[0][0])
            if finely:
                factor = _triangle([root for _, root in several])
                seen, scales = self._seen(np.linalg.norm(factor, axis=0), own)
                values, vectors = _singular(factor[:, seen] / scales[seen])
            else:
                matrix = sum((root.T @ root for _, root in several), np.zeros((width, width)))
                scales = np.sqrt(np.maximum(np.diag(matrix), 0.0))
                sizes = np.where(scales > 0, scales, 1.0)
                squares, vectors = scipy.linalg.eigh(matrix / np.outer(sizes, sizes), check_finite=False)
                values = np.sqrt(np.where(squares > COARSE**2 * squares[-1], squares, 0.0))
                vectors = vectors / sizes[:, None]
            yield own, vectors, values, scales

    def _roots(self, points: np.ndarray):
        """Every unit's parameters and rows with the squares of its columns of the weighted Jacobian."""
        accuracy = answer_accuracy(self.network, points, self.noise, self.unit)
        accuracy = accuracy.reshape(len(points), -1)
        for own, features, delta in self.layout.units(self.theta, points):
            weights = np.linalg.norm(delta / accuracy, axis=1)
            rows = weights > 0
            yield own, features[rows] * weights[rows, None]


def _largest_errors(
    vectors: np.ndarray, values: np.ndarray, scales: np.ndarray, largest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same directions, turned within what the answers tell alike, so that each is the largest error left.

    ``vectors`` of the parameters that are seen, in their ``scales``, and how much the answers change along each. Errors
    are relative to the ``largest`` parameter of their unit.
    """
    seen = scales > 0
    relative = vectors / (scales * largest)[seen][:, None]
    dead = values <= INVISIBLE * values.max(initial=0.0)
    relative[:, dead] = FREE * _orthonormal(relative[:, dead])
    relative[:, ~dead] /= values[~dead]
    unsure = np.linalg.norm(relative, axis=0) > KNOWN
    turn = scipy.linalg.eigh(relative[:, unsure].T @ relative[:, unsure], check_finite=False)[1]
    relative[:, unsure] = relative[:, unsure] @ turn
    lengths = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)
    found = np.zeros((len(scales), len(scales)))
    found[np.ix_(seen, np.arange(len(values)))] = relative / lengths
    found[~seen, len(values) :] = np.eye(int(np.sum(~seen)))  # of these nothing is known
    return found * largest[:, None], np.append(1 / lengths, np.full(int(np.sum(~seen)), 1 / FREE))


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the columns span, whose rows may differ in size by many powers of ten.

    Each row to its own last digits: with the largest rows first and pivoting, the triangular factor is exact for
    columns that differ in the last digit of each row, and the basis is made of the columns themselves.
    """
    if not columns.shape[1]:
        return columns
    order = np.argsort(-np.max(np.abs(columns), axis=1), kind="stable")
    found = scipy.linalg.qr(columns[order], mode="r", pivoting=True)
    square = found[0][: columns.shape[1]]
    return scipy.linalg.solve_triangular(square, columns[:, found[-1]].T, trans=1).T


def _beyond_rounding(rows: np.ndarray, steps: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """``rows @ steps``, less in size by what is rounding: directions were taken with parameters in these scales.

    Parameters of scale 0 no answer showed that they were taken from: they are in no other direction by rounding.
    """
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    lengths = np.linalg.norm(rows * inverse, axis=1)[:, None]
    rounding = ROUNDED * lengths * np.linalg.norm(scales[:, None] * steps, axis=0)
    moves = rows @ steps
    return moves - np.clip(moves, -rounding, rounding)


def _triangle(rows: list[np.ndarray]) -> np.ndarray:
    """The triangular factor of rows put together."""
    return np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))


def _singular(factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values, and the directions they belong to as columns, as many as there are columns."""
    _, values, turn = scipy.linalg.svd(factor)
    return np.append(values, np.zeros(factor.shape[1] - len(values))), turn.T
