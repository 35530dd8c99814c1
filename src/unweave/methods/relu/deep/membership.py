"""Whose kink is it: a candidate's zero set, predicted along every line, against the kinks that were seen there.

True units of the layer show wherever the function is not constant; zero sets of deeper units bend where the
layer's own units switch, so their continuation is not met. Free of queries.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.view import LayerView, nearest


def crossings(view: LayerView, row: np.ndarray, seen: np.ndarray):
    """Predicted zeros (line, t) of the row where all active entries are seen."""
    lines, places = [], []
    hidden = ~seen[:-1] if view.known.depth else np.zeros(len(seen) - 1, dtype=bool)
    for i, (t, h) in enumerate(zip(view.breaks, view.line_features, strict=True)):
        z = h @ row
        swap = (z[:-1] > 0) != (z[1:] > 0)
        if hidden.any():
            dark = np.any(h[:, :-1][:, hidden] != 0, axis=1)
            swap &= ~dark[:-1] & ~dark[1:]
        at = np.flatnonzero(swap)
        lines.append(np.full(len(at), i))
        places.append(t[at] + (t[at + 1] - t[at]) * z[at] / (z[at] - z[at + 1]))
    return np.concatenate(lines), np.concatenate(places)


def predict(view: LayerView, row: np.ndarray, seen: np.ndarray):
    """(line, t, hit) of every predicted crossing at which the function is not constant."""
    line, t = crossings(view, row, seen)
    hit, counts = np.zeros(len(t), dtype=bool), np.ones(len(t), dtype=bool)
    for i in np.unique(line):
        mine = np.flatnonzero(line == i)
        scan = view.pool.scans[i]
        seen_at = np.sort(np.concatenate([scan.positions, scan.unresolved]))
        hit[mine] = nearest(seen_at, t[mine]) <= 10 * view.tolerance(i, t[mine])
        counts[mine] = hit[mine] | ~view.pool.is_flat(i, t[mine])
    return line[counts], t[counts], hit[counts]
