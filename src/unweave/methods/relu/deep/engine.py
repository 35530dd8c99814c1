"""A whole relu network, layer after layer, from one pool of lines, kinks and cells.

For l = 1, 2, ...: candidate rows in the known features, kept when their zero sets show where they should; entries
that no kink has shown are asked for; the sides follow from answers around corners of the layers below, or from the
output layer when the layer is the last; then the output layer is tried by least squares on every answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.extremes import (
    border_lines,
    extreme_lines,
    extreme_points,
    lowest_points,
    near_lines,
    random_lines,
    spread_points,
    through_pairs,
)
from unweave.methods.relu.deep.finish import add_missing_units, close_unseen, entries_from_answers
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.last import LastLayer, orient_last
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.spots import Sides, vote_sides
from unweave.methods.relu.deep.top import Top, fit_top
from unweave.methods.relu.deep.units import aim_at_entries, find_units, update_units
from unweave.methods.relu.deep.membership import crossings
from unweave.methods.relu.deep.view import LayerView, nearest
from unweave.probes.lines import Lines, join_lines

NUM_EXTREME = 0
LAST = 1e-9
"""Median miss of the output layer, relative to the answers, below which a layer is the last."""


@dataclass(frozen=True)
class Recovered:
    """Known layers, the output layer where the last of them is the last hidden one, and what is open."""

    known: Known
    top: Top | None
    open_entries: tuple[tuple[int, int, int], ...] = ()
    """(layer, unit, feature) of weights that no answer shows; layers count from 1."""
    steady: tuple[tuple[int, int], ...] = ()
    """(layer, unit) that were never seen to switch."""


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


def recover(
    pool: Pool,
    *,
    num_lines: int = 8,
    max_layers: int = 8,
    max_steps: int = 24,
    max_seconds: float = 120.0,
    suspects: np.ndarray | None = None,
    keep: list[Recovered] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Recovered:
    """Layer after layer; where a layer does not close, more lines, then the layer below again.

    ``keep`` receives the best so far whenever there is a better one.
    """
    d, domain = pool.input_size, pool.inquiry.meter.domain
    pool.add_lines(random_lines(domain, num_lines - len(pool.scans), d, pool.rng))
    known, opened, best = Known(d), {}, Recovered(Known(d), None)
    served, failures, num_back, num_again = 0, {}, {}, 0
    deadline = time.monotonic() + max_seconds
    for _ in range(max_steps):
        depth = known.depth
        if time.monotonic() > deadline:
            break
        try:
            found = _find_layer(pool, known, say, first_time=depth + 1 > served)
            served = max(served, depth + 1)
            known = known.extended(found.rows)
            opened[known.depth] = found.open_entries
            top = fit_top(pool, known)
            say(f"  output layer on {known.depth}: median miss {top.median_miss:.1e}, wrong {top.share_wrong:.4f}")
            if top.median_miss >= LAST:
                if found.is_last:
                    known = known.first(depth)
                    raise Stuck(f"layer {depth + 1} is the last, but not whole")
                if known.depth == max_layers:
                    break
                continue
            known, top = _finish(pool, known, top, suspects, say)
            best = Recovered(known, top, _flat_entries(opened, known.depth))
            if keep is not None:
                keep.append(best)
            weak = _weak_units(known, found)
            if not top.wrong.any() and (not len(weak) or num_again >= 2):
                return best
            known = known.first(known.depth - 1)
            if not top.wrong.any():  # units that no kink carries: lines across their borders, and the layer again
                num_again += 1
                _cross_weak_units(pool, best.known, weak)
                continue
            failures[depth] = failures.get(depth, 0) + 1
        except Stuck as stuck:
            say(f"*** {stuck}")
            if best.top is not None and not best.top.wrong.any():
                return best
            served = max(served, depth + 1)
            failures[depth] = failures.get(depth, 0) + 1
            if isinstance(stuck, Missing) and depth:
                _look_near(pool, stuck.view)
                known = known.first(depth - 1)
        if best.top is None and known.depth > best.known.depth:
            best = Recovered(known, None, _flat_entries(opened, known.depth))
            if keep is not None:
                keep.append(best)
        if failures.get(depth, 0) >= 3:  # more of the same does not help: the layer below again, once
            if num_back.get(depth, 0) or not depth:
                break
            num_back[depth] = 1
            known = known.first(min(known.depth, depth - 1))
            failures[depth] = 1
    return best


def _flat_entries(opened: dict, depth: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((layer, u, i) for layer in range(1, depth + 1) for u, i in opened.get(layer, ()))


def _look_near(pool: Pool, view: LayerView, num: int = 6) -> None:
    """Short lines beside kinks that nothing explains, across their zero sets: more kinks of what is missing."""
    left = np.flatnonzero(view.foreign)
    if not len(left):
        left = np.flatnonzero(view.free)
    if not len(left):
        return
    pool.add_lines(near_lines(pool, view.x[left], view.g[left], num), view.known, random=False)


def _finish(pool: Pool, known: Known, top: Top, suspects: np.ndarray | None, say, max_rounds: int = 3) -> tuple[Known, Top]:
    """Fresh points where units may hide, and what they show to be missing."""
    domain, rng, d = pool.inquiry.meter.domain, pool.rng, pool.input_size
    for _ in range(max_rounds):
        num_fresh = int(np.clip(sum(w.size for w in known.weights), 100, 3000))
        fresh = [spread_points(domain, num_fresh, d, rng)]
        fresh += [extreme_points(known.first(l), 2 * known.first(l).width, domain, rng) for l in range(1, known.depth)]
        if suspects is not None:
            fresh.append(suspects)
        pool.inquiry.meter.ask(np.concatenate(fresh))
        before = known.width
        known, top = add_missing_units(pool, known, fit_top(pool, known))
        say(f"  finish: {known.width} units, wrong {top.share_wrong:.5f}")
        if top.wrong.any():
            pool.add_lines(border_lines(domain, top.x, top.wrong, rng), known, random=False)
            break
        if known.width == before:
            break
    return known, top


def _find_layer(pool: Pool, known: Known, say, *, first_time: bool, max_rounds: int = 4) -> Layer:
    domain, rng = pool.inquiry.meter.domain, pool.rng
    units: list[Candidate] = []
    more = extreme_lines(known, NUM_EXTREME, domain, rng) if NUM_EXTREME and known.depth and first_time else None
    for attempt in range(max_rounds):
        if more is not None:
            pool.add_lines(more, known)
        view = LayerView(pool, known)
        units = _gather_units(view, units, 2 if known.depth else 1)
        more = extreme_lines(known, 4, domain, rng) if known.depth else random_lines(domain, 4, pool.input_size, rng)
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
            f"queries {pool.num_queries}, hits {[(u.hits, u.predicted) for u in units]}, foreign {int(view.foreign.sum())}"
        )
        if known.depth and _too_many_misses(units):
            raise Missing(known.depth, view)
        whole = seen.all(axis=1)
        for core in (np.ones(len(rows), dtype=bool), whole):
            if core.sum() < 2 or (core is whole and whole.all()):
                continue
            last = orient_last(pool, known, rows[core], seen[core], view if core.all() else None)
            if last is not None and last.is_guess and attempt < 2:  # a unit never seen to switch: look for its border first
                more = join_lines(more, _where_it_may_switch(pool, known, last))
                last = None
            if last is not None:
                say(f"  last layer: {len(last.rows) - last.num_found} steady units, {last.num_choices} choices")
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
    raise Stuck(f"layer {known.depth + 1}")


def _closed(pool: Pool, known: Known, rows: np.ndarray, seen: np.ndarray, num_carried: int | None = None) -> Layer:
    """Rows of length one, entries that nothing shows set so that they do not."""
    rows = close_unseen(pool, known, rows, seen)
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    unseen = tuple((int(u), int(i)) for u, i in np.argwhere(~seen))
    return Layer(rows, unseen, num_carried is not None, len(rows) if num_carried is None else num_carried)


def _weak_units(known: Known, found: Layer) -> np.ndarray:
    """Units of the last layer that no kink carries: read off the answers, or never seen to switch."""
    return np.arange(found.num_carried, known.width)


def _cross_weak_units(pool: Pool, known: Known, weak: np.ndarray) -> None:
    """Segments across the borders of units of the last layer, as far as answers lie on both sides."""
    x = pool.inquiry.meter.transcript()[0]
    z = known.arguments(x)[-1]
    for unit in weak:
        on = z[:, unit] > 0
        if on.any() and not on.all():
            pool.add_lines(border_lines(pool.inquiry.meter.domain, x, on, pool.rng, 6), known.first(known.depth - 1), random=False)


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
    half = np.linalg.norm(b - a, axis=1) / 2
    apart = half > 1e-9
    a, b, half = a[apart], b[apart], half[apart]
    borders = Lines((a + b) / 2, (b - a) / (2 * half[:, None]), -half, half, half)
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
