"""Which units of a one-layer student the others can stand in for, from the units' values alone.

Once a student with surplus units nearly fits, these are copies of others, constants, or do nothing: their values are
linear combinations of the others'. Removing a unit then costs the outputs what is left of its values after a regression
on the rest, the outgoing weights taking over the difference. This ignores that rows could move too, which the surgeon
counts (``surgeon``), but one small matrix serves all removals: it takes time in proportion to one evaluation of the
student, where the inverse over all parameters grows with their cube.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.solve.layout import Layout

RIDGE = 1e-13
"""Relative to the mean of the diagonal."""


@dataclass(frozen=True)
class Cut:
    """The student after one more removal: parameters of what is left, and the residual it is predicted to have."""

    kept: np.ndarray
    parameters: np.ndarray
    predicted: float


def plan_cuts(layout: Layout, parameters: np.ndarray, x: np.ndarray, rms: float) -> list[Cut]:
    """All removals, the cheapest next, from a student of one hidden layer with residual ``rms`` in standard outputs."""
    rows, outgoing = layout.block(parameters, 0), layout.block(parameters, 1)
    values = layout.activations[0].value(x @ rows[:, :-1].T + rows[:, -1], np)
    features = np.hstack([values, np.ones((len(x), 1))])
    gram = features.T @ features / len(x)
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    inverse, weights = np.linalg.inv(gram), outgoing.copy()
    alive, loss, cuts = np.ones(len(rows), dtype=bool), len(outgoing) * rms**2, []
    for _ in range(len(rows) - 1):
        spread = np.maximum(np.diag(inverse)[:-1], 1e-300)
        costs = np.where(alive, np.sum(weights[:, :-1] ** 2, axis=0) / spread, np.inf)
        unit = int(np.argmin(costs))
        alive[unit], loss = False, loss + float(costs[unit])
        column = inverse[:, unit] / inverse[unit, unit]
        weights = weights - np.outer(weights[:, unit], column)
        inverse = inverse - np.outer(column, inverse[unit])
        inverse[unit, unit] = 1.0  # removed: its row and column are zero now
        weights[:, unit] = 0.0
        kept = np.append(alive, True)
        narrow = np.concatenate([rows[alive].ravel(), weights[:, kept].ravel()])
        cuts.append(Cut(alive.copy(), narrow, float(np.sqrt(loss / len(outgoing)))))
    return cuts
