"""Units without sides along lines, where their values are known, and what to take for what no crossing has told.

Where the zero set of a unit never meets the border of one below, that weight may be anything that does not change the
unit's sign where no line saw it change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from unweave.methods.relu.deep.trace import Trace

DARK = 1e-7
"""Share of the features in which a row is not known, above which its value is not."""
GUESSED = 0.1
"""Weight of a sign taken from the nearest line, beside those that lines tell."""
STEADY = 0.1
"""Price of a turn, beside that of a sign that it does not keep."""


@dataclass(frozen=True)
class Track:
    """One line in the features: these, with a one, at its breaks ``t``; straight in between."""

    t: np.ndarray
    x: np.ndarray
    features: np.ndarray

    @staticmethod
    def along(features, lines, i: int) -> Track:
        t = features.breaks(lines, i)
        x = lines.origins[i] + t[:, None] * lines.directions[i]
        return Track(t, x, np.hstack([features.features(x), np.ones((len(t), 1))]))

    def zeros(self, trace: Trace) -> np.ndarray:
        """Where the trace's value, as far as it is known, changes its sign."""
        z, dark = self.features @ trace.row, is_dark(trace, self.features)
        at = np.flatnonzero(((z[:-1] > 0) != (z[1:] > 0)) & ~dark[:-1] & ~dark[1:])
        return self.t[at] + (self.t[at + 1] - self.t[at]) * z[at] / (z[at] - z[at + 1])


def is_dark(trace: Trace, extended: np.ndarray) -> np.ndarray:
    """Where the trace's value is not known."""
    if not trace.null.shape[1]:
        return np.zeros(len(extended), dtype=bool)
    return np.linalg.norm(extended @ trace.null, axis=1) > DARK * np.linalg.norm(extended, axis=1)


def complete(trace: Trace, features, tracks: list[Track], offline: np.ndarray) -> np.ndarray:
    """The row, in the directions that no crossing has told so that its sign stays where no line saw it change.

    A line tells the sign of a unit where it is not known by where it enters and leaves; ``offline`` points take that of
    the nearest.
    """
    if not trace.null.shape[1]:
        return trace.row
    x, points, signs = [], [], []
    for track in tracks:
        z, dark = track.features @ trace.row, is_dark(trace, track.features)
        light = np.flatnonzero(~dark & (np.abs(z) > 1e-9 * np.abs(z).max()))
        for b in np.flatnonzero(dark):
            place = np.searchsorted(light, b)
            told = np.unique(np.sign(z[light[max(place - 1, 0) : place + 1]]))
            if len(told) == 1:
                x.append(track.x[b])
                points.append(track.features[b])
                signs.append(told[0])
    if not points:
        return trace.row
    x, points, signs = np.array(x), np.array(points), np.array(signs)
    more = np.hstack([features.features(offline), np.ones((len(offline), 1))])
    dark = is_dark(trace, more)
    near = np.argmin(np.linalg.norm(offline[dark][:, None] - x[None], axis=2), axis=1)
    weights = np.append(np.ones(len(x)), np.full(len(near), GUESSED))
    return keep_signs(
        trace.row, trace.null, np.vstack([points, more[dark]]), np.append(signs, signs[near]), weights
    )


def keep_signs(
    row: np.ndarray,
    null: np.ndarray,
    points: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    room: float = 0.3,
) -> np.ndarray:
    """``row + null a`` whose values at the points have these signs, with some room, as far as may be."""
    value, turn = signs * (points @ row), signs[:, None] * (points @ null)
    size = np.linalg.norm(turn, axis=1)
    least = room * size * float(np.median(np.abs(value))) / (float(np.median(size)) + 1e-300)
    n, q = turn.shape
    scale = np.maximum(np.linalg.norm(turn, axis=0), 1e-300) / np.sqrt(n)
    unit = float(np.median(np.abs(value))) + 1e-300
    # the least sum of what is short of the room, one slack a point, by short turns
    short = -turn / scale
    found = linprog(
        np.concatenate([np.full(2 * q, STEADY), weights]),
        A_ub=scipy.sparse.hstack([short, -short, -scipy.sparse.identity(n)], format="csr"),
        b_ub=(value - least) / unit,
    )
    if found.x is None:
        return row
    return row + null @ ((found.x[:q] - found.x[q : 2 * q]) * unit / scale)
