"""First-layer rows in the directions in which hardly any of them points, from long steps.

Rows that are read by short steps have errors that are small against the rows. Where arguments are to be set one by one
(``curvature``) their smallest singular values count: an error of 1e-8 along a direction in which all rows together have
2e-5 moves every argument with every other. But a step in such a direction leaves all units where they are, so it may
be as long as it takes to move a unit's argument by as much as any other step does. What the row says is where its own
argument moves alike, along the row itself: the answers at both places differ by the error of the row times the step.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.far_field.sight import Sight

WEAK = 0.02
"""Singular values of such directions, relative to the largest."""
MOVED = 0.3
"""How far a step moves the arguments, root mean square."""
BESIDE = 1e-3
"""How far beside it the slope of the answers is taken."""
FLAT, MOST = 1e-4, 0.1
"""A unit keeps its row whose slope is below this, relative to the largest, or whose argument would be off by more."""


def read_weak_directions(sight: Sight, rows: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """The rows (units, inputs) in their lengths with what weak directions say about them; each has a base (units,
    inputs) at which all other units are at their limits.
    """
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    rows, squares = rows.copy(), np.sum(rows**2, axis=1)
    for value, direction in zip(values, vectors, strict=True):
        if not 0 < value < WEAK * values[0]:
            continue
        length = MOVED * np.sqrt(len(rows)) / value
        moves = length * (rows @ direction)
        places = [bases + length * direction]
        places += [bases + ((m / squares)[:, None] * rows) for m in (moves, moves + BESIDE)]
        with sight.meter.stage("weak directions"):
            there, alike, beside = np.split(sight.meter.ask(np.concatenate(places)), 3)
        slopes = (beside - alike) / BESIDE
        steep = np.sum(slopes**2, axis=1)
        off = np.sum((there - alike) * slopes, axis=1) / np.maximum(steep, 1e-300)
        sound = (steep > FLAT**2 * np.max(steep)) & (np.abs(off) < MOST)
        rows[sound] += (off[sound] / length)[:, None] * direction
    return rows
