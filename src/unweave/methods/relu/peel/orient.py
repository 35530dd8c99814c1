"""Sides of the generation below from traces above it, and these traces over the features with sides.

The rows of units above tell the sides and the leak of a layer (``deep.lift``), as far as they are known. With sides a
layer has as many features as units, whatever lies below it: less of every row above is open.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted, tell_sides
from unweave.methods.relu.deep.trace import NEW, Trace


def orient(
    features: Known | Lifted, traces: list[Trace], say: Callable[[str], None]
) -> tuple[Known, np.ndarray] | None:
    """The features with sides, and what turns rows over them into rows without; None where nothing tells the sides."""
    if not isinstance(features, Lifted) or not isinstance(features.known, Known):
        return None
    told = tell_sides(features, traces)
    if told is None:
        return None
    say(f"  sides told, leak {told.leak:.3g}")
    known, n = features.known, len(features.rows)
    first, leak = known.width, told.leak
    rows = told.signs[:, None] * features.rows
    turn = np.zeros((features.width + 1, n + 1))
    turn[first:-1, :-1] = 0.5 * (1 - leak) * np.eye(n)
    turn[:first, :-1] = 0.5 * (1 + leak) * rows[:, :-1].T
    turn[-1, :-1], turn[-1, -1] = 0.5 * (1 + leak) * rows[:, -1], 1.0
    return known.extended(rows, leak), turn


def over_sides(trace: Trace, turn: np.ndarray) -> Trace:
    """The trace over features with sides."""
    system, gauge = trace.system @ turn, trace.gauge @ turn
    told = np.vstack([system, gauge])
    # an equation counts by what it said of the row before
    size = np.linalg.norm(np.vstack([trace.system, trace.gauge]), axis=1, keepdims=True)
    _, s, vt = np.linalg.svd(told / np.maximum(size, 1e-300), full_matrices=True)
    rank = int(np.sum(s > NEW * s[0]))
    return Trace(
        trace.seed, trace.places, gauge, system, trace.errors, vt[:rank].T, vt[rank:].T, trace.crossed
    )


def restrict(trace: Trace, width: int) -> Trace:
    """The trace over the first features alone, where it has no share in the others."""
    kept = np.append(np.arange(width), len(trace.row) - 1)
    system, gauge = trace.system[:, kept], trace.gauge[kept]
    told = np.vstack([system, gauge])
    _, s, vt = np.linalg.svd(told / np.maximum(np.linalg.norm(told, axis=1, keepdims=True), 1e-300))
    rank = int(np.sum(s > NEW * s[0]))
    return Trace(
        trace.seed, trace.places, gauge, system, trace.errors, vt[:rank].T, vt[rank:].T, trace.crossed
    )
