"""The last hidden layer and the outputs over an arrangement of two inputs, whose one map shows all that there is.

What no unit below explains on the map is chains of the last layer; ``parity`` fits them to the pieces of all cells.
Answers that contradict the fit are taken in until none does.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.maps.arrange import Arrangement
from unweave.methods.relu.maps.board import Board, Last
from unweave.methods.relu.maps.count import count_sides, sample_cells
from unweave.methods.relu.maps.parity import fit_last
from unweave.methods.relu.maps.sheet import Sheet

MOST_CHAINS = 60
"""Chains of the last layer, at most."""
REFITS, MOST_TOLD = 8, 400
"""How often answers that contradict are taken in, and how many at a time."""
WITHIN = 1e-7
"""Miss of an answer, relative to their spread, within which it agrees."""


def close(found: Arrangement) -> np.ndarray | None:
    """The outputs (features + 1, k) over the arrangement, to which the last layer is added; None where none fits."""
    features = found.features
    if found.inquiry.input_size != 2 or not found.sheets or not isinstance(features, Lifted):
        return None
    sheet = found.sheets[0]
    left = np.unique(sheet.chains.roots[~sheet.known])
    if not 0 < len(left) <= MOST_CHAINS:
        return None
    sides, usable = count_sides(sheet.chains, len(sheet.chart.cells), left)
    board = _board(found, features, sheet, left, sides, usable)
    last = fit_last(board, found.say)
    for _ in range(REFITS):
        wrong = np.zeros((0, 2)) if last is None else _misses(found, features, last)
        found.say(f"  {len(wrong)} answers contradict")
        if not len(wrong) or last is None:
            break
        y = (wrong - sheet.chart.plane.origin) @ sheet.chart.plane.basis.T
        cells = [sheet.chart.find(one) for one in y]
        told = [i for i, cell in enumerate(cells) if cell is not None and usable[cell]][:MOST_TOLD]
        if not told:
            break
        values = np.array([sheet.chart.cells[int(cells[i] or 0)].at(y[i]) for i in told])
        board.add(_below(features, wrong[told]), values, sides[[int(cells[i] or 0) for i in told]])
        last = fit_last(board, found.say, last)
    if last is None or len(_misses(found, features, last)):
        return None
    size = np.linalg.norm(last.rows[:, :-1], axis=1)
    found.features = Lifted(Lifted(features.known, last.below), last.rows / size[:, None])
    middle = np.vstack([last.affine[:, :-1].T, size[:, None] * last.outputs])
    return np.vstack([middle, last.affine[:, -1]])


def _misses(found: Arrangement, features: Lifted, last: Last) -> np.ndarray:
    """Points whose answers the last layer contradicts."""
    x, y = found.inquiry.meter.transcript()
    h = np.hstack([Lifted(features.known, last.below).features(x), np.ones((len(x), 1))])
    miss = np.max(np.abs(last(h) - y), axis=1)
    return x[miss > WITHIN * (np.std(y) + 1e-300)]


def _board(
    found: Arrangement,
    features: Lifted,
    sheet: Sheet,
    left: np.ndarray,
    sides: np.ndarray,
    usable: np.ndarray,
) -> Board:
    """The pieces of the map with the chains that are left, all of them of one layer."""
    y, values, owner = sample_cells(sheet.chart, usable)
    outputs, corners = outputs_of(sheet, left)
    on = [_below(features, x) for x in corners]
    low = _below(features, sheet.chart.plane.lift(y))
    nulls = [trace.null for trace in found.traces[-1]]
    return Board(low, values, sides[owner], outputs, on, features.rows, nulls, found.deadline)


def _below(features: Lifted, x: np.ndarray) -> np.ndarray:
    """What the units of the last generation are rows of, with a one."""
    return np.hstack([features.known.features(x), np.ones((len(x), 1))])


def outputs_of(sheet: Sheet, left: np.ndarray, sharp: float = np.inf) -> tuple[np.ndarray, list[np.ndarray]]:
    """How the answers turn across each of the chains (n, k), of length one, and the corners (m, d) of each.

    ``sharp``: the error up to which an edge counts, unless it is the best of its chain.
    """
    roots, cells, edges = sheet.chains.roots, sheet.chart.cells, sheet.edges
    outputs, corners = [], []
    for root in left:
        mine = np.flatnonzero(roots == root)
        edge = mine[np.argmax(edges.lengths[mine])]
        one, two = (cells[edges.pieces[name]] for name in edges.sides[edge])
        turn = (one.gradient - two.gradient) @ edges.normal[edge]
        outputs.append(turn / np.linalg.norm(turn))
        mine = mine[edges.error[mine] <= max(sharp, float(edges.error[mine].min()))]
        corners.append(sheet.ends[edges.ends[mine].ravel()])
    return np.array(outputs), corners
