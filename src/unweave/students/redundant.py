"""Which units of a student's last or last but one layer the others can stand in for, from the units' values alone.

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
LEAST_REACH = 1e-6
"""Of an argument that hardly moves the answers, relative to the largest."""


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


def plan_lower_cuts(layout: Layout, parameters: np.ndarray, x: np.ndarray, rms: float) -> list[Cut]:
    """Removals from the first of two hidden layers, whose units the others stand in for in the arguments above, these
    in proportion to what they move the answers by; parameters of the first two blocks only.
    """
    rows, upper, outgoing = (layout.block(parameters, layer) for layer in range(3))
    values = layout.activations[0].value(x @ rows[:, :-1].T + rows[:, -1], np)
    slopes = layout.activations[1].first(values @ upper[:, :-1].T + upper[:, -1], np)
    reach = np.sqrt(np.mean(slopes**2, axis=0) * np.mean(outgoing[:, :-1] ** 2, axis=0))
    reach = np.maximum(reach, LEAST_REACH * np.max(reach, initial=1e-300))[:, None]
    lower = Layout.uniform(layout.sizes[:3], layout.activations[0])
    cuts = []
    for cut in plan_cuts(lower, np.concatenate([rows.ravel(), (reach * upper).ravel()]), x, 0.0):
        size = lower.starts[1] // len(rows) * int(cut.kept.sum())
        above = cut.parameters[size:].reshape(len(upper), -1) / reach
        # each argument moves the answers by itself, as if by chance
        predicted = float(np.hypot(rms, np.sqrt(len(upper)) * cut.predicted))
        cuts.append(Cut(cut.kept, np.concatenate([cut.parameters[:size], above.ravel()]), predicted))
    return cuts
