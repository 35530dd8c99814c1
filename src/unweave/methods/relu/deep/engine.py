"""A whole relu network, layer after layer, from one pool of lines, kinks and cells.

For l = 1, 2, ...: candidate rows in the known features, kept when their zero sets show where they should; entries
that no kink has shown are asked for; the sides follow from answers around corners of the layers below, or from the
output layer when the layer is the last; then the output layer is tried by least squares on every answer.

One long file: every stage reads and changes the same layers and pool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unweave.core import clock
from unweave.methods.relu.deep.borders import Opened, ask_borders
from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.corners import Corners
from unweave.methods.relu.deep.entries import ask_entries
from unweave.methods.relu.deep.extremes import (
    border_lines,
    extreme_points,
    near_lines,
    novel_points,
    random_lines,
)
from unweave.methods.relu.deep.finish import drop_spare_units
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.layer import Missing, Stuck, cross_weak_units, find_layer, weak_units
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.repair import carry_over, find_rare_unit, put_in_last, put_in_place
from unweave.methods.relu.deep.residual import add_missing_units
from unweave.methods.relu.deep.sharpen import sharpen_layers
from unweave.methods.relu.deep.steady import settle_steady
from unweave.methods.relu.deep.top import Top, count_wrong, fit_top
from unweave.methods.relu.deep.view import LayerView

MAX_REPAIRS = 4
"""Units that contradictions may add to inner layers, one after the other."""

OPEN = 0.03
"""Share of the kinks on lines drawn at random that a whole network may leave."""

MOST_TRIED = 3
"""Times that a layer is tried before the one below it is looked for again."""

MOST_LACKED = 2
"""Times that what a layer of so many units lacks is looked for before one is built on it as it is."""

MOST_FRESH = 1500
"""Points that are asked where units may hide, at once."""

MAX_FAILURES = 8
"""Layers that do not close, all together, before the rest is left open."""


@dataclass(frozen=True)
class Recovered:
    """Known layers, the output layer where the last of them is the last hidden one, and what is open."""

    known: Known
    top: Top | None
    open_entries: tuple[tuple[int, int, int], ...] = ()
    """(layer, unit, feature) of weights that no answer shows; layers count from 1."""


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
    pool.add_lines(random_lines(domain, max(num_lines - len(pool.scans), 0), d, pool.rng))
    known, opened, best = Known(d), {}, Recovered(Known(d), None)
    failures, num_failures, num_back, num_again, num_repairs = {}, 0, {}, 0, 0
    corners: Corners | None = None
    former: Known | None = None
    former_open: dict[int, tuple[tuple[int, int], ...]] = {}
    met: dict[tuple[int, ...], tuple[Known, list[Candidate]]] = {}
    stuck_at: dict[int, tuple[int, int]] = {}
    most_units: dict[int, int] = {}
    lacked: dict[tuple[int, int], int] = {}
    borders: set[int] = set()
    above: set[tuple[int, ...]] = set()
    deadline = clock.now() + max_seconds
    for _ in range(max_steps):
        depth = known.depth
        if clock.now() > deadline:
            break
        try:
            if corners is None or corners.known is not known:
                corners = Corners(pool, known)
            begin = met.get(_key(known), (known, []))[1]
            if not begin and former is not None:
                x = pool.inquiry.meter.transcript()[0]
                begin = carry_over(former, known, former_open.get(known.depth + 1, ()), x)
            in_vain = lacked.get((known.depth, known.width), 0) >= MOST_LACKED
            found = find_layer(corners, say, begin=begin, tolerant=in_vain)
            met[_key(known)] = known, found.units()
            if len(found.rows) > most_units.get(depth, 0):  # what failed above it may not fail any more
                if depth in most_units:
                    failures = {l: count for l, count in failures.items() if l <= depth}
                    num_back = {l: count for l, count in num_back.items() if l <= depth}
                    stuck_at = {l: count for l, count in stuck_at.items() if l <= depth}
                most_units[depth] = len(found.rows)
            known = known.extended(found.rows, found.leak, found.open_entries)
            met[_key(known)] = known, list(found.above)
            opened[known.depth] = found.open_entries
            top = fit_top(pool, known)
            if best.top is not None and known.depth < best.known.depth:
                continue  # a layer looked for again, which was not the last
            say(
                f"  output layer on {known.depth}: median miss {top.median_miss:.1e}, wrong {top.share_wrong:.4f}"
            )
            fine, top = sharpen_layers(pool, known, top)
            if top.is_output:
                for number in range(known.depth):  # of layers that were put in order since nothing was met
                    below, units = fine.first(number), met.get(_key(known.first(number)), (known, []))[1]
                    met[_key(below)] = below, units
                fine, top = _ask_below(pool, fine, top, opened, say)
                bare = known = fine
                known, top, opened[known.depth] = _finish(pool, known, top, suspects, found.open_entries, say)
                known, top = _ask_below(pool, known, top, opened, say)
            if not top.is_output:
                if known.depth == max_layers:
                    break
                continue
            before = -1 if best.top is None else num_wrong(pool, best)
            if num_again and before == 0 < top.wrong.sum():
                return best  # the borders of its weak units are not to be had
            if best.top is None or top.wrong.sum() <= before:
                best = Recovered(known, top, _flat_entries(opened, known.depth))
                if keep is not None:
                    keep.append(best)
            rare = None
            while num_repairs < MAX_REPAIRS:
                rare = find_rare_unit(pool, known, top, borders)
                if rare is None:
                    break
                say(f"*** layer {rare[0] + 1} lacks a unit")
                placed = _place(pool, known, top, *rare, opened, say)
                if placed is None:
                    break
                num_repairs += 1
                known, top = placed
                say(f"  put in its place: wrong {top.share_wrong:.5f}")
                known = replace(known, open_entries=tuple(opened.get(l + 1, ()) for l in range(known.depth)))
                known, top, opened[known.depth] = _finish(
                    pool, known, top, suspects, opened[known.depth], say
                )
                known, top = _ask_below(pool, known, top, opened, say)
                best = Recovered(known, top, _flat_entries(opened, known.depth))
                bare, rare = known, None
                if keep is not None:
                    keep.append(best)
            if rare is not None and rare[0] < known.depth - 1 and top.share_wrong > 0:
                below, unit = rare
                num_repairs += 1
                former, former_open = known, dict(opened)
                known = known.first(below)
                met[_key(known)] = known, [*met[_key(known)][1], unit]
                continue
            if top.wrong.any():  # nothing below is seen to be missing
                known, top, opened[known.depth] = _finish(
                    pool, known, top, None, opened[known.depth], say, lenient=True
                )
                if top.wrong.sum() <= num_wrong(pool, best):
                    best = Recovered(known, top, _flat_entries(opened, known.depth))
                    if keep is not None:
                        keep.append(best)
            if (
                top.share_wrong > 0  # a layer more shows in fair answers
                and _key(bare) not in above
                and bare.depth < max_layers
                and share_open(pool, known) > OPEN
            ):  # units of a layer above that hardly ever switch leave kinks, and answers that rarely contradict
                above.add(_key(bare))
                known = bare
                continue
            whole, known = known, known.first(known.depth - 1)
            if not top.wrong.any():
                # units that no kink carries: lines across their borders, and the layer again
                weak = weak_units(whole, found)
                if not len(weak) or num_again or not cross_weak_units(pool, whole, weak):
                    return best
                num_again += 1
                continue
            if (
                not top.share_wrong
            ):  # right wherever a fair look was taken: layers are not begun again for the rest
                return best
            failures[depth] = failures.get(depth, 0) + 1
        except (Stuck, np.linalg.LinAlgError) as stuck:
            say(f"*** {stuck}")
            if best.top is not None and not best.top.wrong.any():
                return best
            found = stuck.found if isinstance(stuck, Stuck) else (0, 0)
            # the same again: more of it does not help
            same = found[0] > 0 and stuck_at.get(depth) == found
            failures[depth] = MOST_TRIED if same else failures.get(depth, 0) + 1
            stuck_at[depth] = found
            if _key(known) in above:
                known = known.first(depth - 1)
            elif isinstance(stuck, Missing) and depth:
                _look_near(pool, stuck.view)
                lacking = layer_that_lacks(pool, stuck.view)
                lacked[depth, known.width] = lacked.get((depth, known.width), 0) + 1
                if lacking < depth:
                    say(f"*** layer {lacking} lacks a unit")
                    former, former_open = known, dict(opened)
                known = known.first(lacking - 1)
            elif isinstance(stuck, Stuck):  # nothing is confirmed or followed twice
                met[_key(known)] = known, stuck.kept
        if best.top is None and known.depth > best.known.depth:
            best = Recovered(known, None, _flat_entries(opened, known.depth))
            if keep is not None:
                keep.append(best)
        num_failures += 1
        if num_failures >= MAX_FAILURES:
            break
        if (
            failures.get(depth, 0) >= MOST_TRIED
        ):  # more of the same does not help: the layer below again, once
            # what was known of the layers below before is kept: only the layer below the last is looked for again
            if num_back.get(depth, 0) or not depth or depth < best.known.depth:
                break
            num_back[depth] = 1
            known = known.first(min(known.depth, depth - 1))
            failures[depth] = 1
    return best


def num_wrong(pool: Pool, found: Recovered) -> int:
    """How many of all answers that there are now a network contradicts."""
    assert found.top is not None
    return count_wrong(pool, found.known, found.top.coefficients)


def _ask_below(
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


def layer_that_lacks(pool: Pool, view: LayerView) -> int:
    """The layer that lacks a unit: the first from whose features foreign kinks cannot have their normals."""
    numbers = view.kinks[view.foreign]
    for depth in range(1, view.known.depth):
        below = LayerView(pool, view.known.first(depth))
        below.load()
        mine = np.isin(below.kinks, numbers)
        if mine.any() and np.mean(below.foreign[mine]) > 0.5:
            return depth
    return view.known.depth


def share_open(pool: Pool, known: Known) -> float:
    """Share of the kinks on lines drawn at random that no unit of a network explains."""
    view = LayerView(pool, known)
    return float(np.sum(pool.is_random[pool.line[view.open]])) / max(np.sum(pool.is_random[pool.line]), 1)


def _key(known: Known) -> tuple[int, ...]:
    """The same for the same layers: what was found on top of them is found again at once."""
    return tuple(id(w) for w in known.weights)


def _flat_entries(opened: dict, depth: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((layer, u, i) for layer in range(1, depth + 1) for u, i in opened.get(layer, ()))


def _look_near(pool: Pool, view: LayerView, num: int = 6) -> None:
    """Short lines beside kinks that nothing explains, across their zero sets, and from there to others.

    Kinks whose normals no unit can have lie where a unit below is on that is missing: the way to others
    crosses its border.
    """
    left = np.flatnonzero(view.foreign)
    if not len(left):
        left = np.flatnonzero(view.free)
    if not len(left):
        return
    lines = near_lines(pool, view.x[left], view.g[left], num // 2)
    if view.foreign.any() and not view.foreign.all():
        more = border_lines(pool.inquiry.meter.domain, view.x, view.foreign, pool.rng, num - num // 2)
        lines = lines.join(more)
    pool.add_lines(lines, view.known, random=False)


def _finish(
    pool: Pool,
    known: Known,
    top: Top,
    suspects: np.ndarray | None,
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
        if suspects is not None:
            fresh.append(suspects)
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
