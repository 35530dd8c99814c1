"""One more layer on top of the known ones: its units, their entries and their sides.

Candidate rows in the known features are kept when their zero sets show where they should; entries that no kink has
shown are asked for; the sides follow from the output layer when the layer is the last, else from answers around corners
of the layers below. Corners whose answers contradict point to units that are missing: lines are drawn from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.borders import ask_borders
from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.corners import Corners
from unweave.methods.relu.deep.extremes import border_lines, extreme_lines, random_lines
from unweave.methods.relu.deep.finish import entries_from_answers
from unweave.methods.relu.deep.firm import firm_units
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.last import LastLayer, orient_last
from unweave.methods.relu.deep.membership import explained
from unweave.methods.relu.deep.orient import Layer, close_layer, orient, rows_of
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.residual import add_missing_units
from unweave.methods.relu.deep.seek import between, where_it_may_switch
from unweave.methods.relu.deep.sides import Sides
from unweave.methods.relu.deep.top import LAST, Top, fit_top
from unweave.methods.relu.deep.units import find_units, update_units
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.deep.wide import complete_units, follow_units, lift_layer
from unweave.probes.lines import Lines

MANY = 60
"""Kinks that must show some unit of the layer, if all layers below are whole."""


FEW_FOREIGN = 2
"""Kinks that no unit on top of the known layers can have, beyond any doubt, where the layer does not close."""
PATIENCE = 2
"""Rounds of a layer after which one that brings nothing is the last."""
SHORT = 0.3
"""Share of the kinks that have to tell whole rows for units to be grown from them."""


class Stuck(Exception):
    """A layer could not be finished; ``units``: those of it that are known."""

    def __init__(self, text: str, units: list[Candidate] | None = None):
        super().__init__(text)
        self.units = units or []

    @property
    def found(self) -> tuple[int, int]:
        """How many units of it, and entries of these, are known."""
        return _count(self.units)

    @property
    def kept(self) -> list[Candidate]:
        """The whole ones, to begin with when the layer is looked for again."""
        none = np.zeros(0, dtype=int)
        return [replace(unit, members=none, shown=True) for unit in self.units if unit.whole]


class Missing(Stuck):
    """A unit below the layer is missing; the kinks that nothing explains are among its own."""

    def __init__(self, depth: int, view: LayerView):
        super().__init__(f"a unit of layer {depth} or below is missing")
        self.view = view


def find_layer(
    corners: Corners,
    say: Callable[[str], None] = lambda text: None,
    *,
    begin: list[Candidate] | None = None,
    max_rounds: int = 4,
    tolerant: bool = False,
) -> Layer:
    """The next layer on top of those that the corners are of; ``begin``: units of it that are known already.

    ``tolerant``: kinks that no unit on top of these can have are left out, as looking for what is missing was in vain.
    """
    pool, known = corners.pool, corners.known
    domain, rng = pool.inquiry.meter.domain, pool.rng
    units = begin or []
    more, tried, lifted, known_before = None, set(), 0, None
    for attempt in range(max_rounds):
        if more is not None:
            pool.add_lines(more, known)
        view = LayerView(pool, known)
        units = _gather_units(
            view, [unit for unit in units if unit.whole or unit.shown], 2 if known.depth else 1
        )
        if known.depth and not _is_foreign(view) and _is_short(view):
            units = _follow_more(view, units, tried, say)
        if known.depth and ((_is_foreign(view) and not tolerant) or (not units and len(view.kinks) >= MANY)):
            raise Missing(known.depth, view)
        more = (
            extreme_lines(known, 4, domain, rng)
            if known.depth
            else random_lines(domain, 4, pool.input_size, rng)
        )
        if not units:
            continue
        say(_progress(view, units))
        if known.depth and not tolerant and _too_many_misses(units):
            raise Missing(known.depth, view)
        if not all(unit.whole for unit in units):
            units = update_units(view, complete_units(view, units, corners.failed, say))[0]
            say(_progress(view, units))
        if known.depth:
            units = firm_units(view, units)
        layer, guess = _try_last(view, units, say, patient=attempt > 0)
        if layer is not None:
            return layer
        if guess is not None:  # it is the last one: corners tell nothing that the answers do not
            more = more.join(where_it_may_switch(pool, known, guess))
            continue
        found = orient(view, corners, units, say, attempt=attempt)
        if isinstance(found, Layer):
            return found
        if known.depth and not tolerant and view.clearly_foreign().sum() >= FEW_FOREIGN:
            raise Missing(known.depth, view)
        units, sides = found
        tells = sides is None or not sides.failed or sides.is_leaky
        whole = [unit for unit in units if unit.whole]  # the others do not become so by waiting
        if tells and len(whole) > max(lifted, 1) and (attempt or len(whole) == len(units)):
            lifted = len(whole)
            layer = lift_layer(view, whole, say)
            if layer is not None:
                return layer
        if sides is not None:
            more = _towards_missing(pool, known, sides, more)
        before, known_before = known_before, _count(units)
        if before == known_before and attempt >= PATIENCE:  # more lines have brought nothing
            break
    raise Stuck(f"layer {known.depth + 1}", units)


def _count(units: list[Candidate]) -> tuple[int, int]:
    """How many units there are, and how many of their entries are known."""
    return len(units), sum(int(unit.seen.sum()) for unit in units)


def _try_last(
    view: LayerView, units: list[Candidate], say: Callable[[str], None], *, patient: bool
) -> tuple[Layer | None, np.ndarray | None]:
    """The layer as the last one, if the answers are affine in it; else rows a unit that never switched may have."""
    pool, known, guess = view.pool, view.known, None
    for core in _cores(units):
        last = orient_last(pool, known, *rows_of(core), view if len(core) == len(units) else None)
        if last is None:
            continue
        if last.is_guess and not patient:  # look for its border first
            guess = last.steady
            continue
        say(f"  last layer: {len(last.rows) - last.num_found} steady units, {last.num_choices} choices")
        layer, top = _close_last(view, last, last.rows, last.seen, say)
        if top.wrong.any() and not last.seen.all() and not last.leak:
            rows, seen = entries_from_answers(pool, known, last.rows, last.seen)
            other = _close_last(view, last, rows, seen, say)
            if other[1].wrong.sum() < top.wrong.sum():
                layer, top = other
        if top.is_output:
            return layer, None
    return None, guess


def _close_last(
    view: LayerView, last: LastLayer, rows: np.ndarray, seen: np.ndarray, say: Callable[[str], None]
) -> tuple[Layer, Top]:
    """The last layer from these rows, with what it leaves over of the answers, and the output layer on it."""
    pool, known = view.pool, view.known
    layer = close_layer(pool, known, rows, seen, num_carried=last.num_found, leak=last.leak)
    whole = known.extended(layer.rows, layer.leak)
    top = fit_top(pool, whole)
    say(f"  as the last: median miss {top.median_miss:.1e}, wrong {top.share_wrong:.4f}")
    if layer.open_entries and top.median_miss < LAST:
        whole, opened = ask_borders(pool, whole, top, {whole.depth: layer.open_entries})
        rows = np.hstack([whole.weights[-1], whole.biases[-1][:, None]])
        say(f"  at borders: {len(opened[whole.depth])} of {len(layer.open_entries)} entries are open still")
        layer = replace(layer, rows=rows, open_entries=opened[whole.depth])
        top = fit_top(pool, whole)
        say(f"  as the last: median miss {top.median_miss:.1e}, wrong {top.share_wrong:.4f}")
    if not top.is_output and top.median_miss < LAST:
        whole, top, still_open = add_missing_units(pool, whole, top, layer.open_entries)
        rows = np.hstack([whole.weights[-1], whole.biases[-1][:, None]])
        layer = replace(layer, rows=rows, open_entries=still_open)
        say(f"  with what is left over: {len(layer.rows)} units, wrong {top.share_wrong:.4f}")
    return layer, top


def _cores(units: list[Candidate]) -> list[list[Candidate]]:
    """All units, and those without open entries, if there are enough."""
    whole = [unit for unit in units if unit.whole]
    return [core for core in ([units, whole] if len(whole) < len(units) else [units]) if len(core) >= 2]


def _progress(view: LayerView, units: list[Candidate]) -> str:
    open_entries = sum(int((~unit.seen).sum()) for unit in units)
    return (
        f"layer {view.known.depth + 1}: {len(units)} units, open entries {open_entries}, lines {len(view.pool.scans)}, "
        f"queries {view.pool.num_queries}, foreign {int(view.foreign.sum())}, hits {[u.hits for u in units]}"
    )


def weak_units(known: Known, found: Layer) -> np.ndarray:
    """Units of the last layer that were never seen to switch."""
    first = min(found.num_carried, known.width)
    return np.arange(first, min(first + found.num_steady, known.width))


def cross_weak_units(pool: Pool, known: Known, weak: np.ndarray) -> bool:
    """Segments across the borders of units of the last layer, as far as answers lie on both sides; whether any do."""
    x = pool.inquiry.meter.transcript()[0]
    z, found = known.arguments(x)[-1], False
    for unit in weak:
        on = z[:, unit] > 0
        if on.any() and not on.all():
            found = True
            pool.add_lines(
                border_lines(pool.inquiry.meter.domain, x, on, pool.rng, 6),
                known.first(known.depth - 1),
                random=False,
            )
    return found


def _too_many_misses(units: list[Candidate]) -> bool:
    """Zero sets that bend where nothing known bends: a unit below is missing."""
    hits, predicted = sum(u.hits for u in units), sum(u.predicted for u in units)
    return hits < 0.97 * predicted


def _towards_missing(pool: Pool, known: Known, sides: Sides, others: Lines) -> Lines:
    """Lines from corners that a missing unit spoils to corners that it does not: they cross its border."""
    if not sides.failed:
        return others
    return others.take(np.arange(2)).join(between(pool, sides.failed, sides.spoke, known))


def _gather_units(view: LayerView, units: list[Candidate], num_quiet: int) -> list[Candidate]:
    """Measure line after line where found units do not explain the kinks, until lines bring nothing new."""
    pool = view.pool
    view.load()
    units = find_units(view, units)
    if not view.known.depth and pool.surveyed and units:
        pool.surveyed = False
        return units
    quiet = 0
    order = np.arange(len(pool.scans))
    for line in order[::-1] if view.known.depth else order:  # the newest were drawn for what is missing
        mine = view.open[pool.line[view.open] == line]
        mine = mine[np.isinf(pool.normal_error[mine]) & ~pool.foreign[mine]]
        if not len(mine):
            continue
        numbers = mine[~explained(view, units)[mine]]
        if not len(numbers):
            continue
        pool.measure(numbers, view.known)
        view.load()
        before = len(units), sum(int(unit.seen.sum()) for unit in units)
        if _is_foreign(view):
            break
        units = find_units(view, units)
        after = len(units), sum(int(unit.seen.sum()) for unit in units)
        quiet = quiet + 1 if after == before and units else 0
        if quiet >= num_quiet:
            break
    return units


def _is_short(view: LayerView) -> bool:
    """Whether most kinks leave their unit's row open: more features are active than there are inputs."""
    return len(view.kinks) > 0 and float(np.mean(np.isfinite(view.row_error))) < SHORT


def _follow_more(
    view: LayerView, units: list[Candidate], tried: set[int], say: Callable[[str], None], max_rounds: int = 4
) -> list[Candidate]:
    """Follow kinks that no unit explains, line after line, until that brings no unit more."""
    for _ in range(max_rounds):
        found, _ = update_units(view, follow_units(view, units, say, tried))
        units, before = found, units
        if len(units) <= len(before):
            break
    return units


def _is_foreign(view: LayerView) -> bool:
    """Whether kinks have normals that no unit on top of the known layers can have."""
    return int(view.foreign.sum()) >= max(3, 0.1 * len(view.foreign))
