"""A rare unit of an inner layer, from answers that contradict a network which is otherwise whole.

Contradictions lie where the unit is active. On a segment from there to an answer that agrees, the first kink that the
network does not explain, seen from the side that agrees, is the unit's border: its layer is the one in whose features
several such kinks are one row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate, grow, grow_open
from unweave.methods.relu.deep.extremes import border_lines
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.membership import predict
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top
from unweave.methods.relu.deep.units import agree, judge
from unweave.methods.relu.deep.view import LayerView

FEWEST = 3
"""Borders that have to lie on the zero set of one row."""
SHOWS = 0.9
"""Share of the places at which lines should meet its zero set that have to show it."""


def add_rare_unit(pool: Pool, known: Known, top: Top, num: int = 8) -> Known | None:
    """The known layers up to the one that lacked a unit, with it; None where the contradictions do not show it."""
    if not top.wrong.any() or top.wrong.all():
        return None
    numbers = _borders(pool, known, top, num)
    if len(numbers) < FEWEST:
        return None
    pool.measure(numbers, Known(pool.input_size))
    best: tuple[tuple[int, int], int, Candidate] | None = None
    for depth in range(known.depth):
        found = _shared_row(pool, known, depth, numbers)
        if found is not None and (best is None or (len(found.members), found.hits) > best[0]):
            best = ((len(found.members), found.hits), depth, found)
    if best is None:
        return None
    _, depth, unit = best
    below = known.first(depth)
    wrong = below.features(top.x[top.wrong]) @ unit.row[:-1] + unit.row[-1]
    row = unit.row if np.mean(wrong > 0) > 0.5 else -unit.row
    rows = np.hstack([known.weights[depth], known.biases[depth][:, None]])
    return below.extended(np.vstack([rows, row / np.linalg.norm(row[:-1])]), known.leaks[depth])


def _borders(pool: Pool, known: Known, top: Top, num: int) -> np.ndarray:
    """The kink of each segment that is nearest to its right end among those the network does not explain."""
    lines = border_lines(pool.inquiry.meter.domain, top.x, top.wrong, pool.rng, num)
    begin = len(pool.scans)
    numbers = pool.add_lines(lines, known, random=False)
    view = LayerView(pool, known)
    found = []
    for line in range(begin, len(pool.scans)):
        mine = np.intersect1d(numbers[pool.line[numbers] == line], view.open)
        if len(mine):
            found.append(mine[np.argmax(pool.t[mine])])
    return np.array(found, dtype=int)


def _shared_row(pool: Pool, known: Known, depth: int, numbers: np.ndarray) -> Candidate | None:
    """A row in the features of the first ``depth`` layers on which most of these kinks lie, none that is known."""
    below = known.first(depth)
    view = LayerView(pool, below)
    view.load()
    mine = np.isin(view.kinks, numbers)
    if mine.sum() < FEWEST:
        return None
    rows = np.hstack([known.weights[depth], known.biases[depth][:, None]])
    old = [Candidate(row, np.ones(len(row), dtype=bool), np.zeros(0, dtype=int)) for row in rows]
    best = None
    for seed in np.flatnonzero(mine):
        found = (
            grow(view, int(seed), mine)
            if np.isfinite(view.row_error[seed])
            else grow_open(view, int(seed), mine)
        )
        if found is None or len(found.members) < FEWEST or any(agree(found, one) for one in old):
            continue
        found = judge(view, found, mine) or found
        # a facet of a deeper unit is a row here too, but does not go on where units of this layer switch
        _, _, hit = predict(view, found.row, found.seen)
        if hit.sum() < FEWEST or hit.mean() < SHOWS:
            continue
        found = replace(found, hits=int(hit.sum()), predicted=len(hit))
        if best is None or (len(found.members), found.hits) > (len(best.members), best.hits):
            best = found
    return best
