"""Whose kink is it: a candidate's zero set, predicted along every line, against the kinks that were seen there.

True units of the layer show wherever the function is not constant; zero sets of deeper units bend where the
layer's own units switch, so their continuation is not met. Free of queries.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.view import LayerView, nearest


def crossings(view: LayerView, row: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predicted zeros (line, t) of the row where all active entries are seen."""
    track = view.track
    z = track.features @ row
    swap = ((z[:-1] > 0) != (z[1:] > 0)) & (track.line[:-1] == track.line[1:])
    if view.known.depth and not seen.all():
        dark = np.any(track.features[:, :-1][:, ~seen[:-1]] != 0, axis=1)
        swap &= ~dark[:-1] & ~dark[1:]
    at = np.flatnonzero(swap)
    t = track.t[at] + (track.t[at + 1] - track.t[at]) * z[at] / (z[at] - z[at + 1])
    return track.line[at], t


def predict(view: LayerView, row: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(line, t, hit) of every predicted crossing at which the function is not constant, as far as features are sure."""
    line, t = crossings(view, row, seen)
    hit = view.pool.is_border(line, t, 10 * view.tolerance(line, t))
    counts = hit | ~view.pool.is_flat(line, t)
    lines = view.pool.lines
    if lines is not None and any(view.known.open_entries):
        counts &= ~view.known.is_unsure(lines.points(line, t))
    return line[counts], t[counts], hit[counts]


def explained(view: LayerView, units: list[Candidate]) -> np.ndarray:
    """Which kinks of the pool lie on the zero set of a found unit."""
    pool = view.pool
    out = np.zeros(len(pool.t), dtype=bool)
    for unit in units:
        line, t = crossings(view, unit.row, unit.seen)
        for i in np.unique(line):
            mine = np.flatnonzero(pool.line == i)
            out[mine] |= nearest(np.sort(t[line == i]), pool.t[mine]) <= 10 * view.tolerance(i, pool.t[mine])
    return out
