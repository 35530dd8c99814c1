"""A rare unit of an inner layer, from answers that contradict a network which is otherwise whole.

Contradictions lie where the unit is active. On a segment from there to an answer that agrees, the first kink that the
network does not explain, seen from the side that agrees, is the unit's border: its layer is the one in whose features
several such kinks are one row. The weights with which the layer above reads it follow from how the answers bend at its
border (``borders``); where they do not, that layer is looked for again with it, and what stood above is carried over.
A unit of the last layer is put in its place as well, with the output that most of what is left over has there: where
units of several layers are missing, each spoils the answers that would show the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.borders import Opened, ask_borders
from unweave.methods.relu.deep.candidates import Candidate, grow, grow_from_three, grow_open
from unweave.methods.relu.deep.confirm import confirm
from unweave.methods.relu.deep.extremes import border_lines
from unweave.methods.relu.deep.finish import close_unseen
from unweave.methods.relu.deep.firm import firm_units
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.membership import predict
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, count_wrong, fit_top
from unweave.methods.relu.deep.units import agree, judge
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.deep.wide import complete_units

FEWEST, ENOUGH = 3, 6
"""Borders that have to lie on the zero set of one row, and how many are looked for."""
FEW = 10
"""Contradictions below which none is looked for where no fair answer contradicts."""
MAX_BATCHES = 3
"""Times that segments are drawn: where entries are wrong as well, most have no border that is not known."""
SAME = 1e-7
"""Units whose outputs are within this of each other are the same."""
FEWER = 0.9
"""Share of the contradictions that may be left where a unit is put in its place: others may be missing as well, but a
unit that does not belong there explains none to all its digits."""
ALIKE = 1e-6
"""Outputs a unit of the last layer would have at two contradictions are the same within this."""
MOST_OUTPUTS = 300
"""Contradictions whose outputs are compared with all others."""
SHOWS, MAY_SHOW = 0.9, 0.7
"""Share of the places at which lines should meet its zero set that have to show it; and where another unit is missing
below, which moves it. It is kept only if it explains contradictions."""


def find_rare_unit(
    pool: Pool, known: Known, top: Top, met: set[int] | None = None, num: int = 8
) -> tuple[int, Candidate] | None:
    """How many layers are below the one that lacks a unit, and the unit; None where contradictions do not show it.

    ``met``: kinks that were met as such borders before; it receives the new ones.
    """
    if top.wrong.sum() < (1 if top.share_wrong else FEW) or top.wrong.all():
        return None
    met = set() if met is None else met
    for _ in range(MAX_BATCHES if top.share_wrong else 1):
        met.update(_borders(pool, known, top, num).tolist())
        numbers = np.intersect1d(np.array(sorted(met), dtype=int), LayerView(pool, known).open)
        found = _unit_behind(pool, known, numbers) if len(numbers) >= ENOUGH else None
        if found is not None:
            return found
    return _unit_behind(pool, known, numbers) if FEWEST <= len(numbers) < ENOUGH else None


def _unit_behind(pool: Pool, known: Known, numbers: np.ndarray) -> tuple[int, Candidate] | None:
    """How many layers are below the one in whose features most of these borders are one row, and that unit."""
    pool.measure(numbers, Known(pool.input_size))
    for shows in (SHOWS, MAY_SHOW):
        found = _layer_behind(pool, known, numbers, shows)
        if found is not None:
            return found[0], _oriented(pool, known.first(found[0]), found[1], numbers)
    return None


def _layer_behind(
    pool: Pool, known: Known, numbers: np.ndarray, shows: float
) -> tuple[int, Candidate] | None:
    """The same, the unit not oriented."""
    best: tuple[int, Candidate] | None = None
    is_sure = False
    for depth in range(known.depth):
        found = _shared_row(pool, known, depth, numbers, shows)
        if found is None or (best is not None and len(found.members) < len(best[1].members) + is_sure):
            continue
        goes_on = _goes_on(pool, known, depth, found) if depth < known.depth - 1 else True
        if goes_on is False:
            continue
        best, is_sure = (depth, replace(found, shown=True)), goes_on is True
    return best


def put_in_place(
    pool: Pool, known: Known, top: Top, depth: int, unit: Candidate, say: Callable[[str], None]
) -> tuple[Known, Top, Opened] | None:
    """The network with a unit more on top of its first ``depth`` layers, and the weights that are open for it then.

    None where contradictions do not become fewer: something else is missing as well.
    """
    if not unit.oriented or any(known.leaks):
        return None
    view = LayerView(pool, known.first(depth))
    view.load()
    if not unit.whole:
        unit = complete_units(view, [unit], {}, say)[0]
    unit = firm_units(view, [unit])[0]
    row = np.where(unit.seen, unit.row, 0.0) / np.linalg.norm(unit.row[:-1])
    row = close_unseen(pool, known.first(depth), row[None], unit.seen[None])[0]
    weights, biases = list(known.weights), list(known.biases)
    weights[depth] = np.vstack([weights[depth], row[:-1]])
    biases[depth] = np.append(biases[depth], row[-1])
    readers = len(biases[depth + 1])
    weights[depth + 1] = np.hstack([weights[depth + 1], np.zeros((readers, 1))])
    feature = len(biases[depth]) - 1
    wider = replace(known, weights=tuple(weights), biases=tuple(biases))
    opened: Opened = {depth + 2: tuple((u, feature) for u in range(readers))}
    wider, opened = ask_borders(pool, wider, top, opened)
    if len(opened[depth + 2]) == readers:
        return None
    opened[depth + 1] = tuple((feature, int(i)) for i in np.flatnonzero(~unit.seen))
    fit = fit_top(pool, wider, start=top.coefficients)
    if not fit.is_output or fit.wrong.sum() > FEWER * count_wrong(pool, known, top.coefficients):
        return None
    return wider, fit, opened


def put_in_last(
    pool: Pool, known: Known, top: Top, unit: Candidate, open_entries: tuple[tuple[int, int], ...]
) -> tuple[Known, Top, tuple[tuple[int, int], ...]] | None:
    """The network with a unit more in its last layer, and the entries that are open then; None as above."""
    if any(known.leaks):
        return None
    below = known.first(known.depth - 1)
    view = LayerView(pool, below)
    view.load()
    unit = firm_units(view, complete_units(view, [unit], {}, lambda text: None))[0]
    own = np.where(unit.seen, unit.row, 0.0) / np.linalg.norm(unit.row[:-1])
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    opened = (*open_entries, *((len(rows), int(i)) for i in np.flatnonzero(~unit.seen)))
    before = count_wrong(pool, known, top.coefficients)
    for side in (1.0,) if unit.oriented else (1.0, -1.0):
        closed = close_unseen(pool, below, side * own[None], unit.seen[None])
        output = _output(pool, known, top, closed[0])
        if output is None:
            continue
        wider = below.extended(np.vstack([rows, closed]), known.leaks[-1], opened)
        fit = fit_top(pool, wider, start=np.vstack([top.coefficients[:-1], output, top.coefficients[-1:]]))
        if fit.is_output and fit.wrong.sum() <= FEWER * before:
            return wider, fit, opened
    return None


def _output(pool: Pool, known: Known, top: Top, row: np.ndarray) -> np.ndarray | None:
    """The output of a last unit that most contradictions agree on where it is on."""
    x, y = pool.inquiry.meter.transcript()
    x, y = x[: len(top.wrong)][top.wrong], y[: len(top.wrong)][top.wrong]
    left = y - known.features(x) @ top.coefficients[:-1] - top.coefficients[-1]
    h = known.first(known.depth - 1).features(x)
    z = h @ row[:-1] + row[-1]
    on = z > 1e-6 * (1e-3 + np.linalg.norm(h, axis=1))
    if on.sum() < FEWEST:
        return None
    outputs = left[on] / z[on, None]
    size = np.linalg.norm(outputs, axis=1)
    apart = np.linalg.norm(outputs[:, None] - outputs[None, :MOST_OUTPUTS], axis=2)
    same = apart < ALIKE * size[None, :MOST_OUTPUTS]
    best = int(np.argmax(same.sum(axis=0)))
    return np.median(outputs[same[:, best]], axis=0) if same[:, best].sum() >= FEWEST else None


def _oriented(pool: Pool, below: Known, unit: Candidate, numbers: np.ndarray) -> Candidate:
    """The unit turned to be on at the wrong ends, where the segments begin on which its borders ``numbers`` lie."""
    assert pool.lines is not None
    h, jac = below.jacobian(pool.x[numbers])
    z = h @ unit.row[:-1] + unit.row[-1]
    facet = np.einsum("p,npd->nd", unit.row[:-1], jac)
    size = np.maximum(np.linalg.norm(facet, axis=1), 1e-300)
    mine = ~np.any(below.active(h) & ~unit.seen[:-1], axis=1)
    mine &= np.abs(z) / size < 1e-6 * (1 + np.linalg.norm(pool.x[numbers], axis=1))
    falls = np.sum(facet * pool.lines.directions[pool.line[numbers]], axis=1)[mine] < 0
    if len(falls) < FEWEST or SHOWS > np.mean(falls) > 1 - SHOWS:
        return unit
    return replace(unit, row=unit.row if np.mean(falls) >= SHOWS else -unit.row, oriented=True)


def _goes_on(pool: Pool, known: Known, depth: int, unit: Candidate) -> bool | None:
    """Whether its zero set shows where the units beside it stand differently, as that of a deeper unit does not."""
    view = LayerView(pool, known.first(depth))
    view.load()
    rows = np.hstack([known.weights[depth], known.biases[depth][:, None]])
    return confirm(view, unit, rows)


def carry_over(
    former: Known, known: Known, opened: tuple[tuple[int, int], ...], x: np.ndarray
) -> list[Candidate]:
    """The units that stood above these layers before one of them was found again, less what the new ones count for.

    ``opened``: entries of theirs that nothing has shown. ``x``: points by which units are known again.
    """
    if former.depth <= known.depth:
        return []
    now, then = known.features(x), former.first(known.depth).features(x)
    size, old_size = np.linalg.norm(now, axis=0), np.linalg.norm(then, axis=0)
    a, b = now / np.maximum(size, 1e-300), then / np.maximum(old_size, 1e-300)
    match = np.argmax(a.T @ b, axis=1)
    same = np.max(np.abs(a - b[:, match]), axis=0) < SAME
    rows = former.weights[known.depth]
    shown = np.ones(rows.shape, dtype=bool)
    for unit, feature in opened:
        if unit < len(rows) and feature < former.first(known.depth).width:
            shown[unit, feature] = False
    weights = np.where(same, rows[:, match] * (old_size[match] / np.maximum(size, 1e-300)), 0.0)
    seen = np.hstack([shown[:, match] & same, np.ones((len(rows), 1), dtype=bool)])
    out = np.hstack([weights, former.biases[known.depth][:, None]])
    out = out / np.linalg.norm(out, axis=1, keepdims=True)
    none = np.zeros(0, dtype=int)
    return [Candidate(row, mask, none, shown=True) for row, mask in zip(out, seen, strict=True)]


def _borders(pool: Pool, known: Known, top: Top, num: int) -> np.ndarray:
    """The kink of each segment that is nearest to its right end among those the network does not explain."""
    # one contradiction of each kind: many lie close together
    rows = pool.rng.permutation(np.flatnonzero(top.wrong))
    _, first = np.unique(np.hstack([z > 0 for z in known.arguments(top.x[rows])]), axis=0, return_index=True)
    wrong = np.zeros(len(top.x), dtype=bool)
    wrong[rows[first]] = True
    kept = wrong | ~top.wrong
    lines = border_lines(pool.inquiry.meter.domain, top.x[kept], wrong[kept], pool.rng, num)
    begin = len(pool.scans)
    numbers = pool.add_lines(lines, known, random=False)
    view = LayerView(pool, known)
    found = []
    for line in range(begin, len(pool.scans)):
        mine = np.intersect1d(numbers[pool.line[numbers] == line], view.open)
        if len(mine):
            found.append(mine[np.argmax(pool.t[mine])])
    return np.array(found, dtype=int)


def _shared_row(pool: Pool, known: Known, depth: int, numbers: np.ndarray, shows: float) -> Candidate | None:
    """A row in the features of the first ``depth`` layers on which most of these kinks lie, none that is known.

    ``shows``: share of the places at which lines should meet its zero set that have to show it.
    """
    below = known.first(depth)
    view = LayerView(pool, below)
    view.load()
    mine = np.isin(view.kinks, numbers)
    if mine.sum() < FEWEST:
        return None
    rows = np.hstack([known.weights[depth], known.biases[depth][:, None]])
    old = [Candidate(row, np.ones(len(row), dtype=bool), np.zeros(0, dtype=int)) for row in rows]
    best = None
    grown = [
        grow(view, int(seed), mine) if np.isfinite(view.row_error[seed]) else grow_open(view, int(seed), mine)
        for seed in np.flatnonzero(mine)
    ]
    for found in [*grown, *grow_from_three(view, mine, pool.rng)]:
        if found is None or len(found.members) < FEWEST or any(agree(found, one) for one in old):
            continue
        found = judge(view, found, mine) or found
        # a facet of a deeper unit is a row here too, but does not go on where units of this layer switch
        _, _, hit = predict(view, found.row, found.seen)
        if hit.sum() < FEWEST or hit.mean() < shows:
            continue
        found = replace(found, hits=int(hit.sum()), predicted=len(hit))
        if best is None or (len(found.members), found.hits) > (len(best.members), best.hits):
            best = found
    return best
