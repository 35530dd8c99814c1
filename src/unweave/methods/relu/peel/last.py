"""The last hidden layer and the outputs over known generations: every side is counted, the rest is least squares.

With the sides of its units at all points (``sides``) the answers are linear in the rows of the last layer
(``deep.parity``), whatever is open in them. Parts of one unit are found as those that one row explains.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.parity import Board, fit_last
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.peel.climb import Climb
from unweave.methods.relu.peel.sides import count_sides

POINTS = 4.0
"""Points for every unknown of the layer, ..."""
MOST_POINTS = 6000
"""... at most so many."""
REFITS, MOST_TOLD = 8, 400
"""How often answers that contradict are taken in, and how many at a time."""
WITHIN = 1e-7
"""Miss of an answer, relative to their spread, within which it agrees."""


def close(climb: Climb, traces: list[Trace]) -> np.ndarray | None:
    """The outputs (features + 1, k) with these traces as the last layer, which is added; None where that does not fit."""
    features = climb.features
    if not isinstance(features, Lifted):
        return None
    x, y = climb.pool.inquiry.meter.transcript()
    k, p = y.shape[1], features.width + 1
    wanted = int(POINTS * (p + len(traces) * p / k)) + 200
    some = climb.region.rng.permutation(len(x))[: min(wanted, MOST_POINTS)]
    sides = count_sides(climb.region, features, traces, x[some])
    below = climb.generations[-1]
    chains = [trace.places for trace in traces]
    points = np.concatenate([x[some], *chains])
    signs = count_sides(climb.region, features.known, below, points)
    parts = np.split(signs, len(some) + np.cumsum([0, *(len(part) for part in chains)])[:-1])
    seeds = [trace.seed for trace in traces]
    outputs, jumps = climb.pool.output[seeds], climb.pool.slope_jump[seeds]
    outputs = outputs * np.where(np.sum(outputs * jumps, axis=1, keepdims=True) < 0, -1.0, 1.0)
    on = [_below(features, trace.places) for trace in traces]
    nulls = [trace.null for trace in below]
    board = Board(
        _below(features, x[some]),
        y[some],
        sides,
        outputs,
        on,
        features.rows,
        nulls,
        climb.deadline,
        parts[0],
        parts[1:],
    )
    last = fit_last(board, climb.say)
    for _ in range(REFITS):
        if last is None:
            return None
        h = np.hstack([Lifted(features.known, last.below).features(x), np.ones((len(x), 1))])
        wrong = np.flatnonzero(np.max(np.abs(last(h) - y), axis=1) > WITHIN * (np.std(y) + 1e-300))
        climb.say(f"  {len(wrong)} of {len(x)} answers contradict")
        if not len(wrong):
            break
        told = wrong[:: 1 + len(wrong) // MOST_TOLD]
        low, sides = _below(features, x[told]), count_sides(climb.region, features, traces, x[told])
        signs = count_sides(climb.region, features.known, below, x[told])
        board.add(low, y[told], sides, signs)
        last = fit_last(board, climb.say, last)
    if last is None:
        return None
    size = np.linalg.norm(last.rows[:, :-1], axis=1)
    climb.features = Lifted(Lifted(features.known, last.below), last.rows / size[:, None])
    middle = np.vstack([last.affine[:, :-1].T, size[:, None] * last.outputs])
    return np.vstack([middle, last.affine[:, -1]])


def _below(features: Lifted, x: np.ndarray) -> np.ndarray:
    """What the units of the last generation are rows of, with a one."""
    return np.hstack([features.known.features(x), np.ones((len(x), 1))])
