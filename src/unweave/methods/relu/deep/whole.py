"""A network that is whole: what fresh points and contradictions show to be missing of it is put in its place.

Its weights that nothing had shown are asked for now that there is an output layer; fresh points are asked where units
may hide; units that contradictions show are put in their layers, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unweave.methods.relu.deep.borders import Opened, ask_borders
from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.entries import ask_entries
from unweave.methods.relu.deep.extremes import extreme_points, novel_points
from unweave.methods.relu.deep.finish import drop_spare_units
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.repair import find_rare_unit, put_in_last, put_in_place
from unweave.methods.relu.deep.residual import add_missing_units
from unweave.methods.relu.deep.steady import settle_steady
from unweave.methods.relu.deep.top import Top, count_wrong, fit_top

MAX_REPAIRS = 4
"""Units that contradictions may add, one after the other."""
MOST_FRESH = 1500
"""Points that are asked where units may hide, at once."""


@dataclass(frozen=True)
class Recovered:
    """Known layers, the output layer where the last of them is the last hidden one, and what is open."""

    known: Known
    top: Top | None
    open_entries: tuple[tuple[int, int, int], ...] = ()
    """(layer, unit, feature) of weights that no answer shows; layers count from 1."""


@dataclass(frozen=True)
class Repaired:
    """The networks after every unit that was put in its place, and the output layer of the last."""

    steps: tuple[Recovered, ...]
    top: Top
    rare: tuple[int, Candidate] | None
    """How many layers are below a unit that was seen and could not be put in its place, and that unit."""


def num_wrong(pool: Pool, found: Recovered) -> int:
    """How many of all answers that there are now a network contradicts."""
    assert found.top is not None
    return count_wrong(pool, found.known, found.top.coefficients)


def look_again(
    pool: Pool, found: Recovered, suspects: np.ndarray, say: Callable[[str], None] = lambda text: None
) -> Recovered:
    """The network with what answers at ``suspects``, near which it is not the model, show to be missing."""
    assert found.top is not None
    pool.inquiry.meter.ask(suspects)
    opened: Opened = {}
    for layer, unit, feature in found.open_entries:
        opened[layer] = (*opened.get(layer, ()), (unit, feature))
    known, depth = found.known, found.known.depth
    top = fit_top(pool, known, start=found.top.coefficients)
    known, top, opened[depth] = finish(pool, known, top, opened.get(depth, ()), say)
    repaired = put_in_places(pool, known, top, opened, set(), MAX_REPAIRS, say)
    if repaired.steps:
        known, top = repaired.steps[-1].known, repaired.top
    if top.share_wrong > 0:
        known, top, opened[depth] = finish(pool, known, top, opened[depth], say, lenient=True)
    again = Recovered(known, top, flat_entries(opened, depth))
    return again if num_wrong(pool, again) <= num_wrong(pool, found) else found


def put_in_places(
    pool: Pool,
    known: Known,
    top: Top,
    opened: Opened,
    borders: set[int],
    most: int,
    say: Callable[[str], None],
) -> Repaired:
    """The network with up to ``most`` units that contradictions show, one after the other.

    ``opened`` learns what is open, ``borders`` kinks that were met as borders of such units.
    """
    steps: list[Recovered] = []
    while len(steps) < most:
        rare = find_rare_unit(pool, known, top, borders)
        if rare is None:
            break
        say(f"*** layer {rare[0] + 1} lacks a unit")
        placed = _place(pool, known, top, *rare, opened, say)
        if placed is None:
            return Repaired(tuple(steps), top, rare)
        known, top = placed
        say(f"  put in its place: wrong {top.share_wrong:.5f}")
        known = replace(known, open_entries=tuple(opened.get(l + 1, ()) for l in range(known.depth)))
        known, top, opened[known.depth] = finish(pool, known, top, opened.get(known.depth, ()), say)
        known, top = ask_below(pool, known, top, opened, say)
        steps.append(Recovered(known, top, flat_entries(opened, known.depth)))
    return Repaired(tuple(steps), top, None)


def ask_below(
    pool: Pool, known: Known, top: Top, opened: Opened, say: Callable[[str], None]
) -> tuple[Known, Top]:
    """The layers below the last with open entries that the borders of their features tell, now that there is a top.

    ``opened`` loses these.
    """
    inner = {layer: opened[layer] for layer in range(2, known.depth) if opened.get(layer)}
    if not inner or not top.is_output or any(known.leaks):
        return known, top
    other, left = ask_borders(pool, known, top, inner)
    before, after = sum(map(len, inner.values())), sum(map(len, left.values()))
    if after == before:
        return known, top
    fit = fit_top(pool, other, start=top.coefficients)
    say(f"  below: {after} of {before} entries are open still, wrong {fit.share_wrong:.5f}")
    if not fit.is_output or fit.wrong.sum() > count_wrong(pool, known, top.coefficients):
        return known, top
    opened.update(left)
    return replace(other, open_entries=tuple(opened.get(l + 1, ()) for l in range(other.depth))), fit


def _place(
    pool: Pool,
    known: Known,
    top: Top,
    below: int,
    unit: Candidate,
    opened: Opened,
    say: Callable[[str], None],
) -> tuple[Known, Top] | None:
    """The network with a unit more on top of so many layers, where that explains answers.

    ``opened`` learns what is open.
    """
    if below == known.depth - 1:
        wider = put_in_last(pool, known, top, unit, opened.get(known.depth, ()))
        if wider is not None:
            opened[known.depth] = wider[2]
        return None if wider is None else wider[:2]
    better = put_in_place(pool, known, top, below, unit, say)
    if better is None:
        return None
    known, top, more = better
    for layer, entries in more.items():
        opened[layer] = (*opened.get(layer, ()), *entries)
    return known, top


def finish(
    pool: Pool,
    known: Known,
    top: Top,
    open_entries: tuple[tuple[int, int], ...],
    say,
    max_rounds: int = 3,
    lenient: bool = False,
) -> tuple[Known, Top, tuple[tuple[int, int], ...]]:
    """Fresh points where units may hide, and what they show to be missing; the entries that are open then."""
    domain, rng = pool.inquiry.meter.domain, pool.rng
    for _ in range(max_rounds):
        num_fresh = int(np.clip(sum(w.size for w in known.weights), 100, MOST_FRESH))
        fresh = [novel_points(domain, num_fresh, known, pool.inquiry.meter.transcript()[0], rng)]
        fresh += [
            extreme_points(known.first(l), 2 * known.first(l).width, domain, rng)
            for l in range(1, known.depth)
        ]
        pool.inquiry.meter.ask(np.concatenate(fresh))
        before = known.width
        known, top, open_entries = add_missing_units(
            pool, known, fit_top(pool, known), open_entries, lenient=lenient
        )
        say(f"  finish: {known.width} units, wrong {top.share_wrong:.5f}")
        if top.wrong.any():
            break
        if known.width == before:
            break
    if not top.wrong.any():
        known, top, open_entries = drop_spare_units(pool, known, top, open_entries)
        known, top, open_entries = settle_steady(pool, *ask_entries(pool, known, top, open_entries))
    return known, top, open_entries


def flat_entries(opened: Opened, depth: int) -> tuple[tuple[int, int, int], ...]:
    """(layer, unit, feature) of all weights that are open in the first layers."""
    return tuple((layer, u, i) for layer in range(1, depth + 1) for u, i in opened.get(layer, ()))
