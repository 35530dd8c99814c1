"""The first layer from several far circles: what one misses because two units switch together, another one shows.

Coarse answers cannot be asked from so far out that all units draw apart: on every circle a few overlap, are missed, or
are read as one. A unit counts when two circles show the same row; what only one of them shows was an overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unweave.methods.far_field.first_layer import FirstLayer
from unweave.probes.far_rows import Reading

SAME = 0.98
"""Cosine of the angle between two readings of one row."""
AGREES = 1e-3
"""One minus the cosine between a reading and the median of its unit."""
LEAST, MOST = 3, 7
"""Circles."""

Seen = tuple[Reading, np.ndarray, np.ndarray]
"""A reading, its row and the tangent."""


def join_circles(layers: Iterator[FirstLayer]) -> FirstLayer | None:
    """The units that at least two circles show; None when there are none.

    Ends when every row that was read more clearly than by chance was read twice.
    """
    clusters: list[list[Seen]] = []
    layer = None
    for count, layer in enumerate(layers, start=1):
        _add(clusters, list(zip(layer.readings, layer.rows, layer.tangents, strict=True)))
        if count >= MOST or (count >= LEAST and all(len(cluster) > 1 for cluster in clusters)):
            break
    found = [_agree(cluster) for cluster in clusters if len(cluster) > 1]
    if layer is None or not found:
        return None
    readings = [reading for reading, _, _ in found]
    rows, tangents = np.array([row for _, row, _ in found]), np.array([tangent for _, _, tangent in found])
    patterns = np.where(np.array([r.base for r in readings]) @ rows.T > 0, 1.0, -1.0)
    return FirstLayer(readings, rows, tangents, layer.basis, patterns, None)


def _add(clusters: list[list[Seen]], circle: list[Seen]) -> None:
    """Each reading to the cluster whose row it is most nearly parallel to, or a new one; a circle shows a unit once."""
    if clusters and circle:
        ours, theirs = _units([seen[1] for seen in circle]), _units([cluster[0][1] for cluster in clusters])
        cosines = np.abs(ours @ theirs.T)
    else:
        cosines = np.zeros((len(circle), len(clusters)))
    placed: set[int] = set()
    for flat in np.argsort(-cosines, axis=None):
        i, j = np.unravel_index(flat, cosines.shape)
        if cosines[i, j] > SAME and i not in placed:  # a cluster that was used has zeros by now
            clusters[j].append(circle[i])
            placed.add(int(i))
            cosines[:, j] = 0.0
    clusters.extend([seen] for i, seen in enumerate(circle) if i not in placed)


def _agree(cluster: list[Seen]) -> Seen:
    """The median direction of one unit's rows, with the reading nearest to the origin of those that agree with it."""
    units = _units([seen[1] for seen in cluster])
    centre = int(np.argmax(np.sum(np.abs(units @ units.T), axis=1)))
    middle = np.median(units * np.sign(units @ units[centre])[:, None], axis=0)
    middle /= np.linalg.norm(middle)
    off = 1 - np.abs(units @ middle)
    sound = np.flatnonzero(off <= max(float(np.median(off)), AGREES))
    best = min(sound.tolist(), key=lambda i: cluster[i][0].radius)
    reading, row, tangent = cluster[best]
    return reading, middle * (row @ middle), tangent


def _units(rows: list[np.ndarray]) -> np.ndarray:
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)
