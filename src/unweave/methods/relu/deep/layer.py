"""One more layer on top of the known ones: its units, their entries and their sides.

Candidate rows in the known features are kept when their zero sets show where they should; entries that no kink has
shown are asked for; the sides follow from the output layer when the layer is the last, else from answers around corners
of the layers below. Corners whose answers contradict point to units that are missing: lines are drawn from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.extremes import (
    border_lines,
    extreme_lines,
    extreme_points,
    lowest_points,
    random_lines,
    spread_points,
    through_pairs,
)
from unweave.methods.relu.deep.finish import close_unseen, entries_from_answers
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.last import LastLayer, orient_last
from unweave.methods.relu.deep.membership import crossings
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.spots import Sides, vote_sides
from unweave.methods.relu.deep.steady import find_steady_unit
from unweave.methods.relu.deep.units import aim_at_entries, find_units, update_units
from unweave.methods.relu.deep.view import LayerView, nearest
from unweave.probes.lines import Lines, join_lines


@dataclass(frozen=True)
class Layer:
    """Oriented rows of one layer; the first ``num_carried`` were found by their kinks."""

    rows: np.ndarray
    open_entries: tuple[tuple[int, int], ...]
    is_last: bool
    num_carried: int


class Stuck(Exception):
    """A layer could not be finished."""


class Missing(Stuck):
    """A unit below the layer is missing; the kinks that nothing explains are among its own."""

    def __init__(self, depth: int, view: LayerView):
        super().__init__(f"a unit of layer {depth} or below is missing")
        self.view = view


def find_layer(pool: Pool, known: Known, say: Callable[[str], None], *, max_rounds: int = 4) -> Layer:
    domain, rng = pool.inquiry.meter.domain, pool.rng
    units: list[Candidate] = []
    more = None
    for attempt in range(max_rounds):
        if more is not None:
            pool.add_lines(more, known)
        view = LayerView(pool, known)
        units = _gather_units(view, units, 2 if known.depth else 1)
        more = (
            extreme_lines(known, 4, domain, rng)
            if known.depth
            else random_lines(domain, 4, pool.input_size, rng)
        )
        if not units:
            continue
        failed: dict = {}
        for _ in range(3):
            if all(unit.whole for unit in units) or not aim_at_entries(view, units, failed):
                break
            view.load()
            units, _ = update_units(view, units)
        rows, seen = np.array([u.row for u in units]), np.array([u.seen for u in units])
        say(
            f"layer {known.depth + 1}: {len(units)} units, open entries {int((~seen).sum())}, lines {len(pool.scans)}, "
            f"queries {pool.num_queries}, foreign {int(view.foreign.sum())}, hits {[u.hits for u in units]}"
        )
        if known.depth and _too_many_misses(units):
            raise Missing(known.depth, view)
        whole = seen.all(axis=1)
        for core in (np.ones(len(rows), dtype=bool), whole):
            if core.sum() < 2 or (core is whole and whole.all()):
                continue
            last = orient_last(pool, known, rows[core], seen[core], view if core.all() else None)
            if (
                last is not None and last.is_guess and attempt < 2
            ):  # a unit never seen to switch: look for its border first
                more = join_lines(more, _where_it_may_switch(pool, known, last))
                last = None
            if last is not None:
                say(
                    f"  last layer: {len(last.rows) - last.num_found} steady units, {last.num_choices} choices"
                )
                rows, seen = entries_from_answers(pool, known, last.rows, last.seen)
                return _closed(pool, known, rows, seen, num_carried=last.num_found)
        for core in (whole, np.ones(len(rows), dtype=bool)):
            if core.sum() < 2 or (core is not whole and whole.all()):
                continue
            sides = vote_sides(pool, known, rows[core], seen[core])
            say(
                f"  corners: {len(sides.spoke)} spoke, {len(sides.failed)} failed, clashes {int(sides.clashes.sum())}, "
                f"{int(core.sum())} units"
            )
            if sides.settled and not len(sides.failed):
                rows, seen = _take_entries(rows[core], seen[core], sides)
                return _closed(pool, known, rows * sides.signs()[:, None], seen)
            more = _towards_missing(pool, known, sides, more)
            if attempt and core is whole and len(sides.failed) and not len(sides.spoke):
                steady = find_steady_unit(pool, known, rows[core])
                say(f"  steady unit: {steady is not None}")
                if steady is not None:
                    return _closed(pool, known, steady, np.ones(steady.shape, dtype=bool))
    raise Stuck(f"layer {known.depth + 1}")


def _closed(
    pool: Pool, known: Known, rows: np.ndarray, seen: np.ndarray, num_carried: int | None = None
) -> Layer:
    """Rows of length one, entries that nothing shows set so that they do not."""
    rows = close_unseen(pool, known, rows, seen)
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    unseen = tuple((int(u), int(i)) for u, i in np.argwhere(~seen))
    return Layer(rows, unseen, num_carried is not None, len(rows) if num_carried is None else num_carried)


def weak_units(known: Known, found: Layer) -> np.ndarray:
    """Units of the last layer that no kink carries: read off the answers, or never seen to switch."""
    return np.arange(min(found.num_carried, known.width), known.width)


def cross_weak_units(pool: Pool, known: Known, weak: np.ndarray) -> None:
    """Segments across the borders of units of the last layer, as far as answers lie on both sides."""
    x = pool.inquiry.meter.transcript()[0]
    z = known.arguments(x)[-1]
    for unit in weak:
        on = z[:, unit] > 0
        if on.any() and not on.all():
            pool.add_lines(
                border_lines(pool.inquiry.meter.domain, x, on, pool.rng, 6),
                known.first(known.depth - 1),
                random=False,
            )


def _take_entries(rows: np.ndarray, seen: np.ndarray, sides: Sides) -> tuple[np.ndarray, np.ndarray]:
    """Entries that corners agree on."""
    rows, seen = rows.copy(), seen.copy()
    for (unit, feature), values in sides.entries.items():
        middle = float(np.median(values))
        if np.sum(np.abs(np.array(values) - middle) < 1e-6 * (1 + abs(middle))) >= 2:
            rows[unit, feature], seen[unit, feature] = middle, True
    return rows, seen


def _too_many_misses(units: list[Candidate]) -> bool:
    """Zero sets that bend where nothing known bends: a unit below is missing."""
    hits, predicted = sum(u.hits for u in units), sum(u.predicted for u in units)
    return hits < 0.97 * predicted


def _where_it_may_switch(pool: Pool, known: Known, last: LastLayer, num: int = 3) -> Lines:
    """Lines through the points at which a unit that seems always on is smallest, offline."""
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, pool.input_size
    lows = lowest_points(known, last.steady, num, domain, rng)
    return through_pairs(domain, lows, spread_points(domain, len(lows), d, rng, 0.7), rng)


def _towards_missing(pool: Pool, known: Known, sides: Sides, others: Lines) -> Lines:
    """Lines from corners that a missing unit spoils to corners that it does not: they cross its border."""
    if not len(sides.failed):
        return others
    rng, num = pool.rng, 4
    a = sides.failed[rng.integers(len(sides.failed), size=num)]
    good = sides.spoke if len(sides.spoke) else extreme_points(known, num, pool.inquiry.meter.domain, rng)
    b = good[rng.integers(len(good), size=num)]
    half = 0.49 * np.linalg.norm(b - a, axis=1)  # corners themselves lie on many borders
    apart = half > 1e-9
    a, b, half = a[apart], b[apart], half[apart]
    borders = Lines((a + b) / 2, 0.49 * (b - a) / half[:, None], -half, half, half)
    return join_lines(others.take(np.arange(2)), borders)


def _gather_units(view: LayerView, units: list[Candidate], num_quiet: int) -> list[Candidate]:
    """Measure line after line where found units do not explain the kinks, until lines bring nothing new."""
    pool = view.pool
    view.load()
    units = find_units(view, units)
    quiet = 0
    order = np.arange(len(pool.scans))
    for line in order[::-1] if view.known.depth else order:  # the newest were drawn for what is missing
        mine = view.open[pool.line[view.open] == line]
        mine = mine[np.isinf(pool.normal_error[mine]) & ~pool.foreign[mine]]
        if not len(mine):
            continue
        numbers = mine[~_explained(view, units)[mine]]
        if not len(numbers):
            continue
        pool.measure(numbers, view.known)
        view.load()
        before = len(units), sum(int(unit.seen.sum()) for unit in units)
        units = find_units(view, units)
        after = len(units), sum(int(unit.seen.sum()) for unit in units)
        quiet = quiet + 1 if after == before and units else 0
        if quiet >= num_quiet:
            break
    return units


def _explained(view: LayerView, units: list[Candidate]) -> np.ndarray:
    """Which kinks of the pool lie on the zero set of a found unit."""
    pool = view.pool
    out = np.zeros(len(pool.t), dtype=bool)
    for unit in units:
        line, t = crossings(view, unit.row, unit.seen)
        for i in np.unique(line):
            mine = np.flatnonzero(pool.line == i)
            out[mine] |= nearest(np.sort(t[line == i]), pool.t[mine]) <= 10 * view.tolerance(i, pool.t[mine])
    return out
