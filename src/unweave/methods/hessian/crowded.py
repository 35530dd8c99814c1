"""The rows of one hidden layer of more units than inputs, from Hessians in a few directions.

In s directions, the columns of U, ``U' Hess f(x) U = sum_k c_k(x) p_k p_k'`` with ``p_k = U' a_k`` for the row a_k of
unit k. Where there are more pairs of directions than units, Hessians at a few more points than there are
units span the squares ``p_k p_k'``, and these are the only elements of rank one in the span: the subspace power method
finds them one by one (``algebra.rank_one``), however many units there are for an input. What a Hessian holds of a
square is c_k(x), so that mixed differences of U with the other directions are linear in what is left of the rows.

Directions are added while the span fills their squares, and points while it grows; differences asked for before serve
again. It takes about twice the square of the number of units, whatever the number of inputs. More hidden layers fill
every span: then it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.matrix_span import MatrixSpan, estimate_span
from unweave.algebra.rank_one import find_components, polish_components
from unweave.methods.hessian.probe import HessianProbe
from unweave.methods.hessian.span_shallow import curvature_coefficients

FIRST, WIDEST, GROWTH = 1.2, 2.1, 1.15
"""Units that the first directions can show, relative to inputs, and the last; and the next relative to those before."""
SLACK = 1.35
"""Pairs of directions for each unit: with as many units as pairs, elements of rank one need not be squares of rows."""
SURPLUS, SHARE = 4, 0.05
"""Hessians beyond the number of units, at least, and so many at a time relative to the units that may show."""
GAP = 3.5
"""Least fall of the singular values behind the last unit, which further Hessians have to show again."""
LOOKS, HALVINGS = 8, 20
"""Places and directions at which third derivatives say how long a step may be, over a length halved until it fits."""
RANK_ONE, WEAK = 1e-3, 4e-3
"""By how much the part of a unit's square in the span may be shorter than it, at most; that of weak units, ..."""
CLEAR = 0.97
"""... which are no more than the rest of this share."""
TRIES, MORE = 4, 0.08
"""How often units are looked for, and the share of Hessians added where not all show."""
CERTAIN = 1.3
"""Equations for each unknown of the rest of a row."""


@dataclass(frozen=True)
class CrowdedRows:
    """Unit ``rows`` (units, inputs), and at ``points`` their arguments' second derivatives (points, outputs, units)."""

    rows: np.ndarray
    points: np.ndarray
    curvatures: np.ndarray


def read_crowded_rows(probe: HessianProbe) -> CrowdedRows | None:
    """The rows, or None where Hessians have no such form or the budget ends."""
    views = _Views(probe)
    most = int(WIDEST * probe.size)
    capacity = int(FIRST * probe.size)
    while True:
        views.add_directions(_num_directions(capacity))
        span = _grow_span(views, capacity)
        if span is not None or capacity >= most:
            break
        capacity = min(int(GROWTH * capacity) + 1, most)
    if span is None:
        return None
    probe.keep("hessian_spectrum", span.spectrum, span.dimension)
    vectors = _find_squares(views, span)
    if vectors is None:
        return None
    curvatures = curvature_coefficients(views.hessians, vectors)
    rows = views.complete(vectors, curvatures)
    if rows is None:
        return None
    sizes = np.linalg.norm(rows, axis=1)
    return CrowdedRows(rows / sizes[:, None], views.points, curvatures * sizes**2)


def _find_squares(views: _Views, span: MatrixSpan) -> np.ndarray | None:
    """Unit vectors (units, directions) whose squares span the Hessians; more of these where some square does not show:
    weak units are the least exact part of the span.
    """
    for _ in range(TRIES):
        found = find_components(span, views.probe.rng, accept=1 - WEAK, exact=False)
        strong, seen = (np.sum(found.values >= 1 - lost) / span.dimension for lost in (RANK_ONE, WEAK))
        if seen >= 1 and strong >= CLEAR:
            return polish_components(span, found.vectors[: span.dimension])
        if not views.add_points(int(MORE * len(views.points)) + 1):
            return None
        span = views.span(span.dimension)
    return None


def _num_directions(num_units: int) -> int:
    """The fewest of which there are ``SLACK`` times as many pairs."""
    return int(np.ceil((np.sqrt(8 * SLACK * num_units + 1) + 1) / 2))


def _grow_span(views: _Views, capacity: int) -> MatrixSpan | None:
    """The span of the Hessians once further ones add nothing; None where ``capacity`` units do not explain them."""
    step, before = max(int(SHARE * capacity), 1), 0
    while True:
        num_rows = len(views.points) * views.num_outputs
        if num_rows >= views.probe.size:
            spectrum = views.span().spectrum
            falls = spectrum[:-1] / np.maximum(spectrum[1:], 1e-300)
            falls = spectrum[:-1] / np.maximum(spectrum[1:], 1e-300)
            (last,) = np.nonzero(falls[: num_rows - SURPLUS] > GAP)
            rank = int(last[-1]) + 1 if len(last) else 0
            if rank == before and rank > views.probe.size // 2:
                return views.span(rank) if rank <= capacity else None
            before = rank
        if num_rows >= (1 + 2 * SHARE) * capacity + SURPLUS:
            return None
        missing = max(views.probe.size - num_rows, step)  # fewer units would have shown in two Hessians
        if not views.add_points(-(-missing // views.num_outputs)):
            return None


class _Views:
    """Answers around growing points along growing directions, and the forward differences that they make."""

    def __init__(self, probe: HessianProbe):
        self.probe = probe
        self.num_outputs = probe.meter.output_size
        self._basis = np.linalg.qr(probe.rng.standard_normal((probe.size, probe.size)))[0].T
        self._step = self._choose_step()
        self.points: np.ndarray = np.zeros((0, probe.size))
        self._centre = np.zeros((0, 1, self.num_outputs))
        self._ones = np.zeros((0, 0, self.num_outputs))
        self.hessians: np.ndarray = np.zeros((0, self.num_outputs, 0, 0))

    def _choose_step(self) -> float:
        """Where what a forward difference leaves out, step times third derivative, is as large as rounding."""
        probe, wide, domain = self.probe, self.probe.unit, self.probe.meter.domain
        points = probe.inner_points(LOOKS)
        steps = np.concatenate([k * self._basis[:LOOKS] for k in (-2, -1, 1, 2)])
        for _ in range(HALVINGS):
            if np.all(domain.contains((points[:, None] + wide * steps).reshape(-1, probe.size))):
                break
            wide /= 2
        answers = self._ask(points, wide * steps).reshape(LOOKS, 4, -1)
        third = answers[:, 3] - 2 * answers[:, 2] + 2 * answers[:, 1] - answers[:, 0]
        precision = probe.problem.precision
        noise = max(precision.noise, np.finfo(float).eps * float(np.sqrt(np.mean(answers**2))))
        size = max(float(np.sqrt(np.mean(third**2))) / 2, noise)
        return wide * min((8 * noise / size) ** (1 / 3), 1.0)

    @property
    def num_directions(self) -> int:
        return self.hessians.shape[-1]

    def span(self, dimension: int | None = None) -> MatrixSpan:
        """Of all Hessians."""
        flat = self.hessians.reshape(-1, *self.hessians.shape[2:])
        return estimate_span(flat, dimension=dimension, gram=False)

    def add_directions(self, count: int) -> None:
        """So many in all, at all points."""
        before, count = self.num_directions, min(count, self.probe.size)
        hessians = np.zeros((len(self.points), self.num_outputs, count, count))
        hessians[..., :before, :before] = self.hessians
        self.hessians = hessians
        if len(self.points):
            ones = self._ask(self.points, self._steps(before, count))
            self._ones = np.concatenate([self._ones, ones], axis=1)
            self._fill(slice(0, len(self.points)), before)
        else:
            self._ones = np.zeros((0, count, self.num_outputs))

    def add_points(self, count: int) -> bool:
        """Further points; False where the budget does not leave them."""
        probe, size = self.probe, self.num_directions
        if probe.meter.ledger.left < count * (size + 1) * (size + 2) // 2:
            return False
        before, points = len(self.points), probe.meter.snap(self._draw(count))
        asked = self._ask(points, np.concatenate([np.zeros((1, probe.size)), self._steps(0, size)]))
        self.points = np.concatenate([self.points, points])
        self._centre = np.concatenate([self._centre, asked[:, :1]])
        self._ones = np.concatenate([self._ones, asked[:, 1:]])
        more = np.zeros((count, self.num_outputs, size, size))
        self.hessians = np.concatenate([self.hessians, more])
        self._fill(slice(before, before + count), 0)
        return True

    def _draw(self, count: int) -> np.ndarray:
        """Where units of ordinary size bend, and further out, where they differ more, in turn."""
        inner, outer = self.probe.inner_points(count), self.probe.points(count, 2 * self.probe.unit)
        order = np.arange(len(self.points), len(self.points) + count)
        return np.where((order % 2 == 0)[:, None], inner, outer)

    def complete(self, vectors: np.ndarray, curvatures: np.ndarray) -> np.ndarray | None:
        """Rows (units, inputs) of the units that show as ``vectors`` along the directions, from mixed differences with
        all other directions at as few points as determine them; None where the budget does not leave them.
        """
        probe, size = self.probe, self.num_directions
        needed = int(np.ceil(CERTAIN * len(vectors) / (size * self.num_outputs)))
        few = min(needed, len(self.points))
        num_rest = probe.size - size
        if probe.meter.ledger.left < few * (size + 1) * num_rest:
            return None
        # where curvatures are large
        at = np.argsort(-np.sum(curvatures**2, axis=(1, 2)))[:few]
        rest = self._steps(size, probe.size)
        ones = self._ask(self.points[at], rest)
        both = (self._steps(0, size)[:, None] + rest[None]).reshape(-1, probe.size)
        pairs = self._ask(self.points[at], both).reshape(few, size, num_rest, self.num_outputs)
        centre, first = self._centre[at][:, :, None], self._ones[at][:, :, None]
        mixed = (pairs - first - ones[:, None] + centre) / self._step**2
        system = np.einsum("nok,ks->nsok", curvatures[at], vectors)
        known = np.moveaxis(mixed, 2, 3).reshape(-1, num_rest)
        others = np.linalg.lstsq(system.reshape(-1, len(vectors)), known, rcond=None)[0]
        return np.hstack([vectors, others]) @ self._basis

    def _steps(self, first: int, last: int) -> np.ndarray:
        return self._step * self._basis[first:last]

    def _ask(self, points: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Answers (points, steps, outputs)."""
        meter = self.probe.meter
        batch = (points[:, None] + steps[None]).reshape(-1, meter.input_size)
        with meter.stage("hessians"):
            return meter.ask(batch).reshape(len(points), len(steps), meter.output_size)

    def _fill(self, some: slice, before: int) -> None:
        """Second differences of these points along pairs of directions of which one is new."""
        rows, columns = np.triu_indices(self.num_directions)
        new = columns >= before
        rows, columns = rows[new], columns[new]
        steps = self._steps(0, self.num_directions)
        both = self._ask(self.points[some], steps[rows] + steps[columns])
        ones = self._ones[some]
        second = (both - ones[:, rows] - ones[:, columns] + self._centre[some]) / self._step**2
        part = self.hessians[some]
        part[..., rows, columns] = part[..., columns, rows] = np.swapaxes(second, 1, 2)
