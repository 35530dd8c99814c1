"""Layers with more units than inputs: kinks and corners tell too little of them, so zero sets are followed.

Units above a layer whose sides are not known tell these sides (``lift``); units above known layers are followed until
their rows are whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate, supporters
from unweave.methods.relu.deep.confirm import zero_set
from unweave.methods.relu.deep.follow import begin, follow
from unweave.methods.relu.deep.lift import SPARE, Lifted, are_enough, tell_sides
from unweave.methods.relu.deep.membership import explained, predict
from unweave.methods.relu.deep.orient import Layer
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.units import judge
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.outputs import shared_outputs, those_that_wait

BATCHES, MOST_BATCHES = 4, 20
"""Times that more kinks are followed before the sides of a layer are given up; and as long as there are too few
equations for them: in a deep network most kinks are of units that are lost."""
MOST_TRIED = 2
"""Times that an entry is looked for in vain."""
FEWEST_PLACES, SAME = 3, 1e-8
"""Lines on which places of kinks have to agree on a weight, and how closely."""
SHOWS = 0.9
"""Share of the places at which lines should meet the zero set with that weight that have to show it."""
PLACES = 40
"""Places of a zero set from which it is followed to open entries."""


def lift_layer(view: LayerView, units: list[Candidate], say: Callable[[str], None]) -> Layer | None:
    """The layer with its sides as units above it tell them, and these units; None: they do not."""
    pool, known = view.pool, view.known
    rows = np.array([unit.row for unit in units])
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    lifted = Lifted(known, rows)
    num = 2 * int(np.ceil(SPARE * len(rows) / pool.input_size)) + 4
    traces: list[Trace] = []
    tried: set[int] = set()
    for batch in range(MOST_BATCHES):
        if batch >= BATCHES and (not traces or are_enough(lifted, traces)):
            break
        seeds = _seeds(view, units, tried, num, above=True)
        if not len(seeds):
            break
        begun = [begin(pool, lifted, int(m)) for m in seeds]
        traces += follow(pool, lifted, begun, kinks=_others(view, units), say=say)
        told = tell_sides(lifted, traces, say)
        if told is not None:
            rows = rows * told.signs[:, None]
            return Layer(rows, (), False, len(rows), told.leak, tuple(told.above))
    return None


def _seeds(
    view: LayerView, units: list[Candidate], tried: set[int], num: int, *, above: bool = False
) -> np.ndarray:
    """Kinks of one line that no unit of the layer explains, with normals.

    Those of the last layer are left out; where units ``above`` are wanted, as long as there are others.
    """
    pool = view.pool
    late = shared_outputs(pool.slope_jump, pool.line, pool.is_random[pool.line])
    may = ~explained(view, units)[view.open] & ~pool.foreign[view.open] & ~np.isin(view.open, list(tried))
    waits = those_that_wait(late[view.open])
    if above and np.sum(may & ~waits) < num:
        waits[:] = False
    left = view.open[may & ~waits]
    if not len(left):
        return left
    lines, counts = np.unique(pool.line[left], return_counts=True)
    chosen = left[pool.line[left] == lines[np.argmax(counts)]]
    chosen = chosen[np.argsort(pool.place_error[chosen])][:num]
    tried.update(int(m) for m in chosen)
    pool.measure(chosen, view.known)
    return chosen[np.isfinite(pool.normal_error[chosen])]


def _others(view: LayerView, units: list[Candidate]) -> np.ndarray:
    """Kinks with normals that no unit of the layer explains."""
    left = view.open[~explained(view, units)[view.open]]
    return left[np.isfinite(view.pool.normal_error[left])]


def follow_units(
    view: LayerView, units: list[Candidate], say: Callable[[str], None], tried: set[int], num: int = 40
) -> list[Candidate]:
    """With units whose zero sets were followed from kinks that no unit explains."""
    pool = view.pool
    seeds = _seeds(view, units, tried, num)
    if not len(seeds):
        return units
    begun = [begin(pool, view.known, int(m)) for m in seeds]
    traces = follow(pool, view.known, begun, kinks=_others(view, units), say=say)
    view.load()
    found = list(units)
    for trace in traces:
        if not trace.seen[-1] or trace.seen.sum() < 4:
            continue
        members = np.flatnonzero(view.kinks == trace.seed)
        judged = judge(view, _candidate(trace, members), np.ones(len(view.kinks), dtype=bool))
        if judged is not None:
            found.append(judged)
    return found


def _candidate(trace: Trace, members: np.ndarray) -> Candidate:
    seen, size = trace.seen, np.linalg.norm(trace.row)
    told = trace.system / trace.errors[:, None] * size
    return Candidate(np.where(seen, trace.row / size, 0.0), seen, members, shown=True, told=told)


def complete_units(
    view: LayerView, units: list[Candidate], failed: dict[Any, int], say: Callable[[str], None]
) -> list[Candidate]:
    """The units, those with open entries followed to the borders of the features that these are of.

    ``failed``: how often entries were asked for in vain.
    """
    units = [fill_from_places(view, unit) for unit in units]
    open_entries = [int((~unit.seen).sum()) for unit in units]
    # those with least to ask first: others may turn out to be the same units
    order = np.argsort(open_entries, kind="stable")
    order = [int(i) for i in order if open_entries[i]]
    for part in (order[: (len(order) + 1) // 2], order[(len(order) + 1) // 2 :]):
        _complete(view, units, [i for i in part if not _is_another(view, units, i)], failed, say)
    return [unit for i, unit in enumerate(units) if unit.whole or not _is_another(view, units, i)]


def fill_from_places(view: LayerView, unit: Candidate) -> Candidate:
    """The unit with weights that places of open kinks agree on, where one feature alone is on whose weight is not seen.

    Each place gives the weight with which its kink would be the unit's; those of other units scatter. Nothing is asked.
    """
    pool = view.pool
    while not unit.whole and unit.seen[-1]:
        h = view.known.features(pool.x[view.open])
        on = view.known.active(h)
        row, dark = np.where(unit.seen, unit.row, 0.0), on & ~unit.seen[:-1]
        varied = on.sum(axis=1) > 1  # where one feature alone is on any zero set is a value of it
        size = np.linalg.norm(h, axis=1) + 1
        best: tuple[int, int, float] | None = None
        for feature in np.flatnonzero(~unit.seen[:-1]):
            alone = dark[:, feature] & (dark.sum(axis=1) == 1) & varied
            at = np.flatnonzero(alone & (h[:, feature] > 1e-4 * size))
            if len(at) < FEWEST_PLACES:
                continue
            values = -(h[at] @ row[:-1] + row[-1]) / h[at, feature]
            allowed = SAME * size[at] / h[at, feature]
            order = np.argsort(values)
            values, allowed, lines = values[order], allowed[order], pool.line[view.open[at[order]]]
            end = np.searchsorted(values, values + allowed, side="right")
            counts = [len(np.unique(lines[a:b])) for a, b in enumerate(end)]
            most = int(np.argmax(counts))
            if counts[most] >= FEWEST_PLACES and (best is None or counts[most] > best[0]):
                best = counts[most], int(feature), float(np.median(values[most : end[most]]))
        if best is None:
            break
        row[best[1]] = best[2]
        seen = unit.seen.copy()
        seen[best[1]] = True
        wider = replace(unit, row=row / np.linalg.norm(row), seen=seen)
        _, _, hit = predict(view, wider.row, wider.seen)
        if hit.sum() < unit.hits + FEWEST_PLACES or hit.mean() < SHOWS:
            break
        unit = replace(wider, hits=int(hit.sum()), predicted=len(hit))
    return unit


def _is_another(view: LayerView, units: list[Candidate], number: int) -> bool:
    """Whether all kinks of a unit lie on the zero set of one that is whole."""
    unit = units[number]
    mine = supporters(view, unit.row, unit.seen)
    whole = [one for i, one in enumerate(units) if one.whole and i != number]
    return bool(mine.any()) and any(bool(np.all(supporters(view, one.row, one.seen)[mine])) for one in whole)


def _complete(
    view: LayerView,
    units: list[Candidate],
    chosen: list[int],
    failed: dict[Any, int],
    say: Callable[[str], None],
) -> None:
    """Follow the chosen units."""
    pool, known = view.pool, view.known
    numbers, traces = [], []
    for number in chosen:
        unit = units[number]
        mine = np.flatnonzero(supporters(view, unit.row, unit.seen))
        tried = [failed.get(_key(unit, int(i)), 0) for i in np.flatnonzero(~unit.seen)]
        if unit.whole or not len(mine) or min(tried) >= MOST_TRIED:
            continue
        x = np.concatenate([view.x[mine], zero_set(view, replace(unit, members=mine))[0][:PLACES]])
        system = view.constraints[mine].reshape(-1, len(unit.row))
        errors = np.repeat(view.noise[mine], system.shape[0] // len(mine))
        if unit.told is not None:
            system, errors = np.vstack([system, unit.told]), np.append(errors, np.ones(len(unit.told)))
        eye = np.eye(len(unit.row))
        row = np.where(unit.seen, unit.row, 0.0)
        numbers.append(number)
        traces.append(
            Trace(number, x, row / (row @ row), system, errors, eye[:, unit.seen], eye[:, ~unit.seen])
        )
    if not traces:
        return
    follow(pool, known, traces, sure=True, say=say)
    for number, trace in zip(numbers, traces, strict=True):
        for i in np.flatnonzero(~trace.seen):
            key = _key(units[number], int(i))
            failed[key] = failed.get(key, 0) + 1
        if trace.crossed:
            old = units[number]
            units[number] = replace(_candidate(trace, old.members), shown=old.shown, oriented=old.oriented)


def _key(unit: Candidate, entry: int) -> tuple[float, ...]:
    """The same for one entry of one unit whatever more of it is known: by its largest weights."""
    weights = np.abs(unit.row[:-1]) / np.max(np.abs(unit.row[:-1]))
    top = np.argsort(-weights, kind="stable")[:3]
    return entry, *np.round(weights[top], 4).tolist()
