"""The sides of a layer's units, and units of it that lines have not shown, from corners of the layers below.

Corners that all units found explain tell their sides. The others have a unit active that is missing: it is read off
them, and lines are drawn to where it switches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate, supporters
from unweave.methods.relu.deep.corners import Corner, Corners
from unweave.methods.relu.deep.finish import close_unseen
from unweave.methods.relu.deep.firm import cross_zero_set, firm_units
from unweave.methods.relu.deep.hypotheses import choose_sides, choose_with_missing
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.membership import explained, predict
from unweave.methods.relu.deep.missing import (
    Shown,
    always_on,
    fill_entries,
    find_border,
    show_last_units,
    show_rare,
    show_space,
)
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.seek import ask_until_shown, between, see_all_active, where_it_may_switch
from unweave.methods.relu.deep.shown_entries import ask_shown_entries
from unweave.methods.relu.deep.sides import Sides, vote_sides
from unweave.methods.relu.deep.units import agree, judge, update_units
from unweave.methods.relu.deep.view import LayerView

FEW_LINES = 3
"""Lines below which the zero set of a unit is crossed elsewhere before it is believed."""
RARE = 2
"""Corners that a unit which is missing may spoil, for every one that tells sides, when nothing else shows it: features
are extreme at corners, and units that are hardly ever on are on there."""
MOST_AGAINST = 0.25
"""Share of the corners that may contradict the sides which others tell: a rare unit that is missing is active there."""
NUM_NORMALS = 4
"""Kinks of a unit that corners have shown whose normals are measured."""


@dataclass(frozen=True)
class Layer:
    """Oriented rows of one layer; the first ``num_carried`` were found by their kinks."""

    rows: np.ndarray
    open_entries: tuple[tuple[int, int], ...]
    is_last: bool
    num_carried: int
    leak: float = 0.0
    above: tuple[Candidate, ...] = ()
    """Units above that have told the sides."""
    num_steady: int = 0
    """How many after those found by their kinks were never seen to switch."""

    def units(self) -> list[Candidate]:
        """Its units, but those with open entries or never seen to switch, to begin with when it is looked for again."""
        unseen = {unit for unit, _ in self.open_entries}
        every, none = np.ones(self.rows.shape[1], dtype=bool), np.zeros(0, dtype=int)
        return [
            Candidate(row / np.linalg.norm(row), every, none, shown=True)
            for unit, row in enumerate(self.rows[: self.num_carried])
            if unit not in unseen
        ]


def orient(
    view: LayerView, corners: Corners, units: list[Candidate], say: Callable[[str], None], *, attempt: int
) -> Layer | tuple[list[Candidate], Sides | None]:
    """The layer with its sides as corners tell them; else its units, with those that corners have shown besides."""
    known = view.known
    steady: list[np.ndarray] = []
    sides = None
    for _ in range(6):
        whole = [unit for unit in units if unit.whole]
        partial = [unit for unit in units if not unit.whole]
        if len(whole) < 2:
            break
        rows = np.vstack([rows_of(whole)[0], *steady])
        sides = vote_sides(corners, rows, np.ones(rows.shape, dtype=bool))
        say(_told(sides, len(rows)))
        if known.depth and sides.settled and not sides.failed:
            sides = see_all_active(corners, sides, rows)
        idle = np.flatnonzero(sides.idle[: len(whole)])
        if len(idle):
            say(f"  {len(idle)} rows that no corner needs")
            units = [unit for unit in units if not any(unit is whole[i] for i in idle)]
            continue
        if sides.is_leaky and (attempt > 1 or not known.depth or known.leaks[-1]):
            break  # on relu layers all units are often on, seen through as many features
        if sides.settled and not [corner for corner in sides.failed if not _may_be_on(corner, partial)]:
            layer = _settle_layer(view, corners, sides, rows, partial, attempt, len(steady))
            if layer is not None:
                return layer
            break
        found = _look_for_missing(view, corners, sides, rows, units)
        sides = vote_sides(corners, rows, np.ones(rows.shape, dtype=bool))
        say(f"  from corners: {found if found is None else type(found).__name__}")
        if isinstance(found, Candidate):
            row, seen = fill_entries(sides, rows, found.row[None], found.seen)
            found = replace(found, row=row[0] / np.linalg.norm(row[0]), seen=seen)
            found = firm_units(view, [found])[0]
            units = [unit for unit in units if unit.whole or not agree(unit, found)] + [found]
            if not found.whole:
                break
        elif found is not None and attempt:
            more = always_on(view, found)
            steady.extend(fill_entries(sides, rows, more, np.append(found.frame, True))[0])
        else:
            break
    if attempt > 1 and sides is not None and sides.settled and len(sides.failed) <= RARE * len(sides.spoke):
        whole = [unit for unit in units if unit.whole]
        rows = np.vstack([rows_of(whole)[0], *steady])
        if len(rows) == len(sides.votes):  # a rare unit is missing: contradictions will show it in the end
            partial = [unit for unit in units if not unit.whole]
            layer = _settle_layer(view, corners, sides, rows, partial, attempt, len(steady))
            if layer is not None:
                return layer
    if len(units) < 2:
        return units, sides
    layer = _settle_open(view, corners, units, say, attempt)
    if layer is None:
        layer, units = _settle_beside(view, corners, units, say, attempt)
    return (units, sides) if layer is None else layer


def _settle_open(
    view: LayerView, corners: Corners, units: list[Candidate], say: Callable[[str], None], attempt: int
) -> Layer | None:
    """The layer with its open entries, where corners tell the sides of all units, one by one or all corners together.

    Later on units that no corner tells anything of are left out.
    """
    pool, known = view.pool, view.known
    rows, seen = rows_of(units)
    told = vote_sides(corners, rows, seen)
    say(_told(told, len(rows)))
    if told.idle.any() and np.sum(~told.idle) >= 2:
        needed = [unit for unit, idle in zip(units, told.idle, strict=True) if not idle]
        return _settle_open(view, corners, needed, say, attempt)
    if told.settled and not told.failed:
        return close_layer(pool, known, *ask_shown_entries(corners, rows * told.signs()[:, None], seen))
    signs = choose_sides(corners.asked, rows, seen, most_against=MOST_AGAINST if attempt else 0.0)
    if signs is not None:
        return close_layer(pool, known, *ask_shown_entries(corners, rows * signs[:, None], seen))
    shown = told.votes.sum(axis=1) > 0
    if attempt and 2 <= shown.sum() < len(shown):
        return _settle_open(
            view, corners, [unit for unit, shows in zip(units, shown, strict=True) if shows], say, 0
        )
    return None


def _settle_beside(
    view: LayerView, corners: Corners, units: list[Candidate], say: Callable[[str], None], attempt: int
) -> tuple[Layer | None, list[Candidate]]:
    """The layer, or its units, with one that is on at most corners besides the known ones."""
    rows, seen = rows_of(units)
    beside = choose_with_missing(corners.asked, rows, seen)
    if beside is None and view.pool.inquiry.output_size > 1:
        beside = choose_with_missing(corners.asked, rows, seen, 2)
    if beside is None:
        return None, units
    if not beside.num:
        rows, seen = ask_shown_entries(corners, rows * beside.signs[:, None], seen)
        return close_layer(view.pool, view.known, rows, seen), units
    shown = Shown(beside.basis, beside.frame, beside.corners, beside.error, False)
    found = _checked(view, find_border(view, shown), units)
    if found is None and shown.weights is not None:  # it is off where it is smallest, if anywhere
        weights = np.zeros((1, view.known.width))
        weights[:, shown.frame] = shown.weights
        view.pool.add_lines(where_it_may_switch(view.pool, view.known, weights), view.known, random=False)
        view.update()
        view.load()
        found = _checked(view, find_border(view, shown), units)
    say(
        f"  all corners together: one more unit, {'never seen to switch' if found is None else 'with its border'}"
    )
    if found is not None:
        units = [*units, firm_units(view, [found])[0]]
        return _settle_open(view, corners, units, say, attempt), units
    if not attempt or (attempt < 2 and shown.basis.shape[1] > beside.num):
        return None, units
    more = always_on(view, shown)[: beside.num]  # the others are rows that are known
    rows = np.vstack([rows * beside.signs[:, None], more])
    seen = np.vstack([seen, np.broadcast_to(np.append(shown.frame, True), more.shape)])
    rows, seen = ask_shown_entries(corners, rows, seen)
    return close_layer(view.pool, view.known, rows, seen, num_steady=len(more)), units


def _settle_layer(
    view: LayerView,
    corners: Corners,
    sides: Sides,
    rows: np.ndarray,
    partial: list[Candidate],
    attempt: int,
    num_steady: int,
) -> Layer | None:
    """The rows on the sides that corners tell, with units that have open entries once nothing else helps."""
    others = None
    if all(unit.oriented for unit in partial):
        others = rows_of(partial) if partial else (rows[:0], np.ones(rows[:0].shape, dtype=bool))
    elif attempt > 1:
        others = _off_sides(sides, partial)
    if others is None:
        return None
    seen = np.vstack([others[1], np.ones(rows.shape, dtype=bool)])
    rows = np.vstack([others[0], rows * sides.signs()[:, None]])
    rows, seen = ask_shown_entries(corners, rows, seen)
    return close_layer(view.pool, view.known, rows, seen, num_steady=num_steady)


def _may_be_on(corner: Corner, partial: list[Candidate]) -> bool:
    """Whether a unit with open entries whose side is known is on at a corner, or nothing tells that it is off."""
    for unit in partial:
        dark = np.any((np.abs(corner.features) > 1e-12) & ~unit.seen[:-1])
        if unit.oriented and (dark or corner.features @ unit.row[:-1] + unit.row[-1] > 0):
            return True
    return False


def _told(sides: Sides, num: int) -> str:
    return (
        f"  corners: {len(sides.spoke)} spoke, {len(sides.failed)} failed, "
        f"clashes {int(sides.clashes.sum())}, {num} units"
    )


def _off_sides(sides: Sides, units: list[Candidate]) -> tuple[np.ndarray, np.ndarray] | None:
    """Oriented rows of units that no corner needs: they are off wherever their argument is known; None: unknown."""
    h = np.array([corner.features for corner in sides.spoke])
    rows, seen = np.zeros((0, h.shape[1] + 1)), np.zeros((0, h.shape[1] + 1), dtype=bool)
    for unit in units:
        told = ~np.any((np.abs(h) > 1e-12) & ~unit.seen[:-1], axis=1)
        z = h[told] @ unit.row[:-1] + unit.row[-1]
        if not len(z) or (z > 0).any() == (z < 0).any():
            return None
        rows = np.vstack([rows, unit.row if z[0] < 0 else -unit.row])
        seen = np.vstack([seen, unit.seen])
    return rows, seen


def _look_for_missing(
    view: LayerView, corners: Corners, sides: Sides, rows: np.ndarray, units: list[Candidate]
) -> Candidate | Shown | None:
    """A unit that corners show, with its border; what they show alone where it was never seen to switch."""
    pool, known = view.pool, view.known
    for one in show_last_units(corners.asked, rows) or []:
        found = _checked(view, find_border(view, one), units)
        if found is not None:
            return found
    rare = show_rare(sides, rows)
    shown = ask_until_shown(corners, sides, rows) if rare is None else [rare]
    for one in shown:
        found = _checked(view, find_border(view, one), units)
        if found is None:
            lines = between(pool, one.corners, sides.spoke) if sides.spoke else None
            if one.weights is not None:
                weights = np.zeros((1, known.width))
                weights[:, one.frame] = one.weights
                lows = where_it_may_switch(pool, known, weights)
                lines = lows if lines is None else lines.join(lows.take(np.arange(1)))
            if lines is None:
                continue
            numbers = pool.add_lines(lines, known, random=False)
            view.update()
            if one.weights is None:  # a place alone does not tell which of several rows it is
                new = np.intersect1d(numbers, view.open)
                pool.measure(new[~explained(view, units)[new]], known)
            view.load()
            update_units(view, units)
            found = _checked(view, find_border(view, one), units)
        if found is not None:
            return found
    space = next((one for one in shown if one.weights is not None), None)
    if space is None:
        space = show_space(vote_sides(corners, rows, np.ones(rows.shape, dtype=bool)), rows)
        found = None if space is None else _checked(view, find_border(view, space), units)
        return space if found is None else found
    return space


def _checked(view: LayerView, found: Candidate | None, units: list[Candidate]) -> Candidate | None:
    """The unit if it is new and shows where it should."""
    if found is None:
        return None
    line, t, hit = predict(view, found.row, found.seen)
    if hit.any() and hit.all() and len(np.unique(line)) < FEW_LINES:
        mine = np.flatnonzero(supporters(view, found.row, found.seen, 1e-6))
        cross_zero_set(view, found, mine, np.ones(len(found.row), dtype=bool))
        line, t, hit = predict(view, found.row, found.seen)
    places = view.pool.kinks_at(line[hit], t[hit], 10 * view.tolerance(line[hit], t[hit]))
    view.pool.measure(
        np.setdiff1d(places, view.kinks)[:NUM_NORMALS], view.known
    )  # places alone are not sharp
    view.load()
    view.free = np.ones(len(view.kinks), dtype=bool)
    judged = judge(view, found, view.free)
    if judged is None:
        line, _, hit = predict(view, found.row, found.seen)
        if len(np.unique(line[hit])) < 2 or hit.mean() < 0.9:
            return None
        judged = replace(found, hits=int(hit.sum()), predicted=len(hit))
    return None if any(unit.whole and agree(unit, judged) for unit in units) else judged


def close_layer(
    pool: Pool,
    known: Known,
    rows: np.ndarray,
    seen: np.ndarray,
    num_carried: int | None = None,
    num_steady: int = 0,
    leak: float = 0.0,
) -> Layer:
    """Rows of length one, entries that nothing shows set so that they do not."""
    rows = close_unseen(pool, known, rows, seen)
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    unseen = tuple((int(u), int(i)) for u, i in np.argwhere(~seen))
    is_last = num_carried is not None
    carried = len(rows) - num_steady if num_carried is None else num_carried
    return Layer(rows, unseen, is_last, carried, leak, num_steady=len(rows) - carried)


def rows_of(units: list[Candidate]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([u.row for u in units]), np.array([u.seen for u in units])
