"""Traces that are parts of one unit: what each says of the row leaves a row in common.

The zero set of a unit need not be connected in a bounded domain. Two traces leave rows of their own, each a subspace of
all rows; those of different units have no more in common than any two subspaces of their sizes.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.trace import Trace

SAME = 1e-6
"""Sine of the angle below which two subspaces share a direction."""


def unite_traces(traces: list[Trace]) -> list[Trace]:
    """The traces, parts of one unit as one."""
    found: list[Trace] = []
    for trace in sorted(traces, key=lambda trace: trace.null.shape[1]):
        one = trace
        while True:
            for place, other in enumerate(found):
                both = unite(other, one)
                if both is not None:
                    found.pop(place)
                    one = both
                    break
            else:
                break
        found.append(one)
    return found


def unite(one: Trace, two: Trace) -> Trace | None:
    """Both as one trace; None where they are not parts of one unit."""
    size = len(one.row)
    left, right = _rows(one), _rows(two)
    if left.shape[1] + right.shape[1] > size:  # any two have a row in common
        return None
    u, s, _ = np.linalg.svd(left.T @ right)
    shared = s > 1 - SAME**2 / 2
    if not shared.any() or s[0] < 1 - SAME**2 / 2:
        return None
    rows = left @ u[:, : len(s)][:, shared]
    if not np.linalg.norm(one.gauge @ rows) > 1e-9 * np.linalg.norm(one.gauge):
        return None
    # the directions of these rows that the gauge does not see are still open
    turn = np.linalg.svd((one.gauge @ rows)[None])[2]
    null = rows @ turn[1:].T
    span = np.linalg.svd(null.T)[2][null.shape[1] :].T if null.shape[1] else np.eye(size)
    both = Trace(
        one.seed,
        np.vstack([one.places, two.places]),
        one.gauge,
        np.vstack([one.system, two.system]),
        np.append(one.errors, two.errors),
        span,
        null,
        one.crossed + two.crossed,
    )
    return both


def _rows(trace: Trace) -> np.ndarray:
    """Orthonormal basis of the rows that a trace leaves, its own among them."""
    return np.linalg.qr(np.column_stack([trace.row, trace.null]))[0]
