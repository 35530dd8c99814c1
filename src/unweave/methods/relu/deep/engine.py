"""A whole relu network, layer after layer, from one pool of lines, kinks and cells.

For l = 1, 2, ...: candidate rows in the known features, kept when their zero sets show where they should; entries
that no kink has shown are asked for; the sides follow from answers around corners of the layers below, or from the
output layer when the layer is the last; then the output layer is tried by least squares on every answer.

One long file: every stage reads and changes the same layers and pool.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core import clock
from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.corners import Corners
from unweave.methods.relu.deep.extremes import (
    border_lines,
    near_lines,
    random_lines,
)
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.layer import Missing, Stuck, cross_weak_units, find_layer, weak_units
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.repair import carry_over
from unweave.methods.relu.deep.sharpen import sharpen_layers
from unweave.methods.relu.deep.top import fit_top
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.deep.whole import (
    MAX_REPAIRS,
    Recovered,
    ask_below,
    finish,
    flat_entries,
    num_wrong,
    put_in_places,
)

OPEN = 0.03
"""Share of the kinks on lines drawn at random that a whole network may leave."""

MOST_TRIED = 3
"""Times that a layer is tried before the one below it is looked for again."""

MOST_LACKED = 2
"""Times that what a layer of so many units lacks is looked for before one is built on it as it is."""

SELDOM = 0.005
"""Share of fair answers that contradict up to which layers are not begun again: what is put in its place stays."""

MAX_FAILURES = 8
"""Layers that do not close, all together, before the rest is left open."""


def recover(
    pool: Pool,
    *,
    num_lines: int = 8,
    max_layers: int = 8,
    max_steps: int = 24,
    max_seconds: float = 120.0,
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
                fine, top = ask_below(pool, fine, top, opened, say)
                bare = known = fine
                known, top, opened[known.depth] = finish(pool, known, top, found.open_entries, say)
                known, top = ask_below(pool, known, top, opened, say)
            if not top.is_output:
                if _hardly_wrong(best) or known.depth == max_layers:
                    break
                continue
            before = -1 if best.top is None else num_wrong(pool, best)
            if num_again and before == 0 < top.wrong.sum():
                return best  # the borders of its weak units are not to be had
            if best.top is None or top.wrong.sum() <= before:
                best = Recovered(known, top, flat_entries(opened, known.depth))
                if keep is not None:
                    keep.append(best)
            repaired = put_in_places(pool, known, top, opened, borders, MAX_REPAIRS - num_repairs, say)
            num_repairs, rare = num_repairs + len(repaired.steps), repaired.rare
            if repaired.steps:
                known, top = repaired.steps[-1].known, repaired.top
                best = repaired.steps[-1]
                bare = known
                if keep is not None:
                    keep.extend(repaired.steps)
            if rare is not None and rare[0] < known.depth - 1 and top.share_wrong > SELDOM:
                below, unit = rare
                num_repairs += 1
                former, former_open = known, dict(opened)
                known = known.first(below)
                met[_key(known)] = known, [*met[_key(known)][1], unit]
                continue
            if top.share_wrong > 0:  # nothing below is seen to be missing
                known, top, opened[known.depth] = finish(
                    pool, known, top, opened[known.depth], say, lenient=True
                )
                if top.wrong.sum() <= num_wrong(pool, best):
                    best = Recovered(known, top, flat_entries(opened, known.depth))
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
            if _hardly_wrong(best) and not isinstance(stuck, Missing):
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
            best = Recovered(known, None, flat_entries(opened, known.depth))
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


def _hardly_wrong(best: Recovered) -> bool:
    """Whether there is a network which is so nearly right that another is looked for only where kinks show why."""
    return best.top is not None and best.top.share_wrong <= SELDOM


def _key(known: Known) -> tuple[int, ...]:
    """The same for the same layers: what was found on top of them is found again at once."""
    return tuple(id(w) for w in known.weights)


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
