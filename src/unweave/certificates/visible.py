"""What a bounded domain shows of the parameters of a piecewise-linear network, and how well.

A unit that never changes side in the domain, a weight whose input is off wherever its unit is on, and sums of weights
that are always on together leave whole directions of the parameters without any effect on the function there: every
choice along them is the same function in the domain. So do, for rough answers, directions along which no answer of the
domain changes by its own error even if a unit changes by as much as it must be known to. These are counted and set
aside. All other directions must be known: their standard errors follow from the Jacobian at the points asked.

Directions that the answers leave open are looked for on many fresh points of the domain: what none of these shows is
hidden, what one of them shows could be asked for.

The normal matrix tells directions apart to half the digits; along those that it tells poorly the Jacobian is multiplied
out, which tells the rest. Directions are then turned so that each is the largest error, relative to its units, that the
others leave: a unit that hardly shows at all would else have a part in every direction, and hide all of them. Large
networks are looked at unit by unit, all other units held.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.solve.information import gauge_rows, unit_errors
from unweave.solve.layout import Layout
from unweave.solve.weighted import answer_accuracy

MOST_PARAMETERS = 1600
"""Larger networks are looked at unit by unit: the cost is cubic."""
MOST_DIRECTIONS = 8000
"""Parameters beyond which the domain is not looked through for what the answers do not show at all."""
ROWS = 4.0
"""Residuals a parameter that the Jacobian is made of, at first."""
MOST_ASKED, FEWER_ASKED = 200_000, 30_000
"""Further answers among which those are looked for that show what is not known yet, of each unit or all together."""
LAST = 300
"""Answers, the last ones, that are always among those at first."""
PASSES, BETTER, MIXED, SHOWING = 3, 12, 24, 0.1
"""How often, how many for each direction, how many mixtures of directions that nothing shows yet, and by how many of
their errors answers must move: many that move little tell as much as one that moves far."""
TELLING, MOST_TELLING, HALVED = 12, 48, 0.25
"""Points looked at that would tell a direction which is not known, how many are named at most, and what they may leave
of the variances."""
CHUNK = 4_000_000
"""Numbers of a Jacobian held at a time."""
COARSE, CLEAR = 1e-7, 1e-3
"""Singular values, relative to the largest, that the normal matrix cannot tell from zero, and that it tells so well
that their directions keep out of those of others to the last digits."""
FREE = 1e3
"""By how much of its unit's largest a parameter may be off where nothing is known of it."""
ROUNDED = 1e-12
"""Relative error of a direction that changes nothing as a whole."""


@dataclass(frozen=True)
class Visible:
    """Standard errors of what the domain shows."""

    deviations: np.ndarray
    """Largest of each unit's standard errors, relative to its largest parameter, invisible directions set aside."""
    num_hidden: int
    """Directions of the parameters that change nothing in the domain, beside the scales of units."""
    condition: float
    alone: bool = False
    """Whether each unit was looked at with all others held."""
    telling: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Points of the domain, none of them asked, that would tell directions not known well enough."""


@dataclass(frozen=True)
class _Block:
    """Directions (columns) of some of the parameters, and how much the answers change along each, in their errors."""

    own: np.ndarray
    vectors: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    """How large each vector is for the unit that it changes most, relative to that unit's largest parameter."""


class _Sight:
    """What answers at some points show of a network's parameters."""

    def __init__(self, network: Network, noise: float, unit: float, alone: bool):
        self.network, self.noise, self.unit, self.alone = network, noise, unit, alone
        self.layout, self.theta = Layout.of(network), network.flat()
        blocks = [self.layout.block(self.theta, layer) for layer in range(self.layout.num_layers)]
        self.largest = np.concatenate([np.repeat(np.max(np.abs(b), axis=1), b.shape[1]) for b in blocks])
        """Of each parameter's unit."""
        self.largest = np.maximum(self.largest, 1e-300)
        self.blocks: list[_Block] = []

    def look(self, points: np.ndarray, *, finely: bool = True) -> None:
        """Take the directions from these points alone."""
        look = self._unit_by_unit(points, finely) if self.alone else [self._together(points)]
        self.blocks, self.scales = [], np.ones(self.layout.num_parameters)
        for own, vectors, values, scales in look:
            if finely:
                vectors, values = _largest_errors(vectors, values, self.largest[own])
            self.blocks.append(_Block(own, vectors, values, self._sizes(own, vectors)))
            self.scales[own] = scales
        self.values = np.concatenate([b.values for b in self.blocks])
        self.sizes = np.concatenate([b.sizes for b in self.blocks])
        with np.errstate(divide="ignore"):
            self.errors = self.sizes / self.values
        self.dead = self.errors > 1

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
                _beyond_rounding(self._rows(part), steps, self.scales)
                for part in self._split(points, self.layout.num_parameters)
            ]
            return np.max(np.concatenate(parts).reshape(len(points), -1, steps.shape[1]), axis=1)
        accuracy = answer_accuracy(self.network, points, self.noise, self.unit).reshape(len(points), -1)
        found = np.zeros((len(points), steps.shape[1]))
        for own, features, delta in self.layout.units(self.theta, points):
            used = np.flatnonzero(steps[own].any(axis=0))
            weights = np.max(np.abs(delta) / accuracy, axis=1) if len(used) else np.zeros(0)
            rows = np.flatnonzero(weights)
            found[np.ix_(rows, used)] = weights[rows, None] * _beyond_rounding(
                features[rows], steps[np.ix_(own, used)], self.scales[own]
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
        free = 1 / (FREE * self.largest)
        scales = np.hypot(np.sqrt(np.diag(matrix)), free)
        gauge = gauge_rows(self.layout, self.theta).toarray() * scales
        gauge /= np.maximum(np.linalg.norm(gauge, axis=1, keepdims=True), 1e-300)
        matrix = matrix / np.outer(scales, scales) + gauge.T @ gauge + np.diag((free / scales) ** 2)
        squares, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        weak = squares <= CLEAR**2 * squares[-1]
        values = np.sqrt(np.maximum(squares, 0.0))
        if weak.any():
            basis = vectors[:, weak]
            product = [self._rows(part) @ (basis / scales[:, None]) for part in parts]
            values[weak], turn = _singular(
                np.linalg.qr(
                    np.concatenate([*product, gauge @ basis, (free / scales)[:, None] * basis]), mode="r"
                )
            )
            vectors[:, weak] = basis @ turn
        return np.arange(size), vectors / scales[:, None], values, scales

    def _unit_by_unit(self, points: np.ndarray, finely: bool):
        """Each unit's own parameters, its scale among them, all others held: what couples units is left out.

        ``finely``: from triangular factors, to the last digits, instead of normal matrices.
        """
        parts = self._split(points, sum(self.layout.sizes))
        for several in zip(*(self._roots(part) for part in parts), strict=True):
            own, width = several[0][0], len(several[0][0])
            if finely:
                free = np.diag(1 / (FREE * self.largest[own]))
                factor = np.linalg.qr(np.concatenate([*(root for _, root in several), free]), mode="r")
                scales = np.linalg.norm(factor, axis=0)
                values, vectors = _singular(factor / scales)
            else:
                matrix = sum((root.T @ root for _, root in several), np.zeros((width, width)))
                scales = np.sqrt(np.maximum(np.diag(matrix), 0.0))
                scales = np.where(scales > 0, scales, 1.0)
                squares, vectors = scipy.linalg.eigh(matrix / np.outer(scales, scales), check_finite=False)
                values = np.sqrt(np.where(squares > COARSE**2 * squares[-1], squares, 0.0))
            yield own, vectors / scales[:, None], values, scales

    def _roots(self, points: np.ndarray):
        """Every unit's parameters and rows with the squares of its columns of the weighted Jacobian."""
        accuracy = answer_accuracy(self.network, points, self.noise, self.unit)
        accuracy = accuracy.reshape(len(points), -1)
        for own, features, delta in self.layout.units(self.theta, points):
            weights = np.linalg.norm(delta / accuracy, axis=1)
            rows = weights > 0
            yield own, features[rows] * weights[rows, None]


def measure_visible(
    network: Network,
    x: np.ndarray,
    domain: Domain,
    noise: float,
    unit: float,
    rng: np.random.Generator,
    limit: float = 1e-2,
    thorough: int = 1,
    strict: float = 1.0,
    others: np.ndarray | None = None,
) -> Visible:
    """From points ``x`` that were asked; what these do not tell is looked for on fresh points of the domain.

    ``limit``: the relative error to which a unit must be known; ``thorough``: how many times as many points of the
    domain are looked at; ``strict``: how many times better than ``limit`` a unit is to be known for none to tell more;
    ``others``: points of the domain that are looked at as well.
    """
    size, k = network.num_parameters, network.output_size
    count = int(ROWS * size / k) + 1
    # the last answers may have been asked for what they tell
    x = np.concatenate([x[-LAST:], x[rng.permutation(max(len(x) - LAST, 0))]])
    alone = size > MOST_PARAMETERS
    count += LAST
    taken, left = x[:count], x[count : count + (MOST_ASKED if alone else FEWER_ASKED)]
    sight = _Sight(network, noise, unit, alone)
    if size > MOST_DIRECTIONS:
        sight.look(taken, finely=False)
        return _verdict(network, sight, sight.values == 0, x[:0])
    sight.look(taken)
    for _ in range(PASSES):
        weak = np.flatnonzero(sight.errors > limit / strict / 4)
        if not len(weak) or not len(left):
            break
        # answers that tell more may be among those not taken yet
        steps, dead = sight.steps(weak, limit), sight.dead[weak]
        if not alone and np.sum(dead) > MIXED:  # a point that shows one shows most mixtures
            mixed = steps[:, dead] @ rng.standard_normal((int(np.sum(dead)), MIXED))
            steps = np.hstack([steps[:, ~dead], mixed])
        rows, moved = sight.best(left, steps, BETTER * len(weak) // steps.shape[1])
        best = np.unique(rows[moved > SHOWING])
        if not len(best):
            break
        taken, left = np.concatenate([taken, left[best]]), np.delete(left, best, axis=0)
        sight.look(taken)
    hidden, telling, count = np.zeros(len(sight.values), bool), x[:0], count * thorough
    pool = np.concatenate([domain.sample(count, x.shape[1], rng), domain.edge(count, x.shape[1], rng)])
    pool = pool if others is None else np.concatenate([pool, others])
    # several directions that are known well enough may not be so together
    known = limit / strict
    for least in (known, known / 4):
        weak = np.flatnonzero((sight.errors > least) & ~hidden)
        if len(weak) and not len(telling) and np.max(unit_errors(network, sight.spread(hidden))) > known:
            steps = sight.steps(weak, limit)
            rows, moved = sight.best(pool, steps, TELLING)
            hidden[weak] = (np.max(moved, axis=1) < 1) & (sight.errors[weak] > limit)
            seen = ~hidden[weak]
            telling = sight.choose(
                pool[np.unique(rows)], steps[:, seen], np.minimum(sight.errors[weak][seen], 1)
            )
    return _verdict(network, sight, hidden, telling)


def _verdict(network: Network, sight: _Sight, hidden: np.ndarray, telling: np.ndarray) -> Visible:
    values = sight.values
    shown = values[~hidden & ~sight.dead]
    condition = float(values.max() / shown.min()) if len(shown) else np.inf
    deviations = unit_errors(network, sight.spread(hidden))
    return Visible(deviations, int(np.sum(hidden)), condition, sight.alone, telling)


def _largest_errors(
    vectors: np.ndarray, values: np.ndarray, largest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same directions, turned within what the answers tell alike, so that each is the largest error left.

    Errors are relative to the ``largest`` parameter of their unit.
    """
    errors = vectors / np.maximum(values, 1e-300)
    relative = errors / largest[:, None]
    turn = scipy.linalg.eigh(relative.T @ relative, check_finite=False)[1]
    values = 1 / np.maximum(np.linalg.norm(relative @ turn, axis=0), 1e-300)
    return errors @ turn * values, values


def _beyond_rounding(rows: np.ndarray, steps: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Sizes of ``rows @ steps`` less what is rounding: directions were taken with parameters in these scales."""
    lengths = np.linalg.norm(rows / scales, axis=1)[:, None] * np.linalg.norm(scales[:, None] * steps, axis=0)
    return np.maximum(np.abs(rows @ steps) - ROUNDED * lengths, 0.0)


def _singular(factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values, and the directions they belong to as columns, as many as there are columns."""
    _, values, turn = scipy.linalg.svd(factor)
    return np.append(values, np.zeros(factor.shape[1] - len(values))), turn.T
