"""What a bounded domain shows of the parameters of a piecewise-linear network, and how well.

A unit that never changes side in the domain, a weight whose input is off wherever its unit is on, and sums of weights
that are always on together leave whole directions of the parameters without any effect on the function there: every
choice along them is the same function in the domain. So do, for rough answers, directions along which no answer of the
domain changes by its own error even if a unit changes by as much as it must be known to. These are counted and set
aside. All other directions must be known: their standard errors follow from the Jacobian at the points asked.

The normal matrix tells directions apart to half the digits; along those that it cannot tell from zero the Jacobian is
multiplied out, which tells the rest. Large networks are looked at unit by unit, all other units held.
"""

from __future__ import annotations

from collections.abc import Callable
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
"""Parameters beyond which not even the directions of all units are held at once."""
ROWS = 4.0
"""Residuals a parameter that the Jacobian is made of, at first."""
MOST_ASKED, PASSES = 20_000, 2
"""Further answers among which those are looked for that show what is not known yet, and how often."""
TELLING = 6
"""Points that would tell a direction which is not known."""
CHUNK = 4_000_000
"""Numbers of a Jacobian held at a time."""
HALF = 1e-7
"""Singular values, relative to the largest, that the normal matrix cannot tell from zero."""
INVISIBLE = 1e-12
"""Relative size of the singular values of directions that change nothing but by rounding."""

Rows = Callable[[np.ndarray], np.ndarray]


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
class _Directions:
    """Directions of the parameters (columns), and how much the answers change along each, in their errors."""

    vectors: np.ndarray
    values: np.ndarray

    @property
    def dead(self) -> np.ndarray:
        return self.values <= INVISIBLE * self.values.max()

    def deviations(self) -> np.ndarray:
        """One standard error along each; what changes nothing at all is held."""
        return np.where(self.dead, 0.0, self.vectors / np.where(self.dead, 1.0, self.values))


def measure_visible(
    network: Network,
    x: np.ndarray,
    domain: Domain,
    noise: float,
    unit: float,
    rng: np.random.Generator,
    limit: float = 1e-2,
) -> Visible:
    """From points ``x`` that were asked; what these do not tell is looked for on fresh points of the domain.

    ``limit``: the relative error to which a unit must be known.
    """
    layout, theta = Layout.of(network), network.flat()
    size, k = layout.num_parameters, network.output_size

    def rows(points: np.ndarray) -> np.ndarray:
        accuracy = answer_accuracy(network, points, noise, unit)
        return layout.linearise(theta, points)[1] / accuracy.reshape(-1, 1)

    def split(points: np.ndarray) -> list[np.ndarray]:
        return np.array_split(points, len(points) * k * size // CHUNK + 1)

    def largest(points: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """How far each point's answers move at most, in their errors, by one of the steps."""
        moved = [np.abs(rows(part) @ steps).reshape(len(part), -1) for part in split(points) if len(part)]
        return np.concatenate([np.max(part, axis=1) for part in moved]) if moved else np.zeros(0)

    count = int(ROWS * size / k) + 1
    x = x[rng.permutation(len(x))]
    pool = np.concatenate([domain.sample(count, x.shape[1], rng), domain.edge(count, x.shape[1], rng)])
    alone = size > MOST_PARAMETERS
    decompose = _unit_by_unit if alone else _together
    taken, left = x[:count], x[count : count + MOST_ASKED]
    if size > MOST_DIRECTIONS:
        return _plainly(network, layout, rows, split(taken))
    directions = decompose(layout, theta, rows, split(taken))
    for _ in range(PASSES):
        weak = _sizes(network, directions.deviations()) > limit / 4
        if not weak.any():
            break
        # answers that tell more may be among those not taken yet
        shown = largest(left, directions.deviations()[:, weak])
        best = np.argsort(-shown)[: 3 * int(weak.sum())]
        best = best[shown[best] > 1]
        if not len(best):
            break
        taken, left = np.concatenate([taken, left[best]]), np.delete(left, best, axis=0)
        directions = decompose(layout, theta, rows, split(taken))
    deviations = directions.deviations()
    hidden, sizes = directions.dead, _sizes(network, deviations)
    weak, telling = np.flatnonzero(sizes > limit), pool[:0]
    if len(weak):
        steps = limit * deviations[:, weak] / sizes[weak]
        moved = [np.max(np.abs(rows(part) @ steps), axis=0) for part in split(pool)]
        open_ = np.max(moved, axis=0) >= 1
        hidden[weak[~open_]] = True
        if open_.any():
            shown = largest(pool, steps[:, open_])
            best = np.argsort(-shown)[: TELLING * int(open_.sum())]
            telling = pool[best[shown[best] > 1]]
    spread = np.sqrt(np.sum(deviations[:, ~hidden] ** 2, axis=1))
    values = directions.values
    condition = float(values.max() / values[~hidden].min()) if not hidden.all() else np.inf
    return Visible(unit_errors(network, spread), int(np.sum(hidden)), condition, alone, telling)


def _sizes(network: Network, directions: np.ndarray) -> np.ndarray:
    """How large each direction (a column) is for the unit that it changes most, relative to its largest parameter."""
    return np.array([float(np.max(unit_errors(network, np.abs(column)))) for column in directions.T])


def _together(layout: Layout, theta: np.ndarray, rows: Rows, parts: list[np.ndarray]) -> _Directions:
    """All parameters at once, the scales of units held."""
    size = layout.num_parameters
    matrix = np.zeros((size, size))
    for part in parts:
        jacobian = rows(part)
        matrix += jacobian.T @ jacobian
    scales = np.sqrt(np.diag(matrix))
    seen = scales > 0
    scales = np.where(seen, scales, 1.0)
    gauge = gauge_rows(layout, theta).toarray() * (scales * seen)
    gauge /= np.maximum(np.linalg.norm(gauge, axis=1, keepdims=True), 1e-300)
    matrix = matrix / np.outer(scales, scales) + gauge.T @ gauge
    squares, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    weak = squares <= HALF**2 * squares[-1]
    values = np.sqrt(np.maximum(squares, 0.0))
    if weak.any():
        basis = vectors[:, weak]
        product = [rows(part) @ (basis / scales[:, None]) for part in parts]
        factor = np.linalg.qr(np.concatenate([*product, gauge @ basis]), mode="r")
        _, values[weak], turn = scipy.linalg.svd(factor)
        vectors[:, weak] = basis @ turn.T
    return _Directions(np.where(seen[:, None], vectors, 0.0) / scales[:, None], values)


def _unit_by_unit(layout: Layout, theta: np.ndarray, rows: Rows, parts: list[np.ndarray]) -> _Directions:
    """Each unit's own parameters, its scale among them, all others held: what couples units is left out."""
    size = layout.num_parameters
    vectors, values = np.zeros((size, size)), np.zeros(size)
    for own, block, strengths in _blocks(layout, rows, parts):
        vectors[np.ix_(own, own)], values[own] = block, strengths
    return _Directions(vectors, values)


def _plainly(network: Network, layout: Layout, rows: Rows, parts: list[np.ndarray]) -> Visible:
    """The same where all directions are too many to be held: those that change nothing are set aside."""
    spread, num_hidden, condition = np.zeros(layout.num_parameters), 0, 1.0
    for own, block, strengths in _blocks(layout, rows, parts):
        alive = strengths > 0
        spread[own] = np.sqrt(np.sum((block[:, alive] / strengths[alive]) ** 2, axis=1))
        num_hidden += int(np.sum(~alive))
        condition = max(condition, float(strengths.max() / strengths[alive].min()) if alive.any() else 1.0)
    return Visible(unit_errors(network, spread), num_hidden, condition, True)


def _blocks(layout: Layout, rows: Rows, parts: list[np.ndarray]):
    """(parameters, directions, how much answers change along each) of every unit."""
    blocks = [
        layout.incoming(layer, unit)
        for layer in range(layout.num_layers)
        for unit in range(layout.sizes[layer + 1])
    ]
    matrices = [np.zeros((len(own), len(own))) for own in blocks]
    for part in parts:
        jacobian = rows(part)
        for matrix, own in zip(matrices, blocks, strict=True):
            matrix += jacobian[:, own].T @ jacobian[:, own]
    for matrix, own in zip(matrices, blocks, strict=True):
        scales = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        scales = np.where(scales > 0, scales, 1.0)
        squares, turn = scipy.linalg.eigh(matrix / np.outer(scales, scales), check_finite=False)
        told = squares > HALF**2 * squares[-1]
        yield own, turn / scales[:, None], np.sqrt(np.where(told, squares, 0.0))
