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
LEAST, MOST = 3, 7
"""Circles."""

Seen = tuple[Reading, np.ndarray, np.ndarray]
"""A reading, its row and the tangent."""


def join_circles(layers: Iterator[FirstLayer]) -> FirstLayer | None:
    """The units that at least two circles show, each as it was read nearest to the origin; None when there are none.

    Ends when every row that was read more clearly than by chance was read twice.
    """
    clusters: list[list[Seen]] = []
    layer = None
    for count, layer in enumerate(layers, start=1):
        for seen in zip(layer.readings, layer.rows, layer.tangents, strict=True):
            _add(clusters, seen)
        if count >= MOST or (count >= LEAST and all(len(cluster) > 1 for cluster in clusters)):
            break
    kept = [min(cluster, key=lambda seen: seen[0].radius) for cluster in clusters if len(cluster) > 1]
    if layer is None or not kept:
        return None
    rows, tangents = np.array([row for _, row, _ in kept]), np.array([tangent for _, _, tangent in kept])
    readings = [reading for reading, _, _ in kept]
    patterns = np.where(np.array([r.base for r in readings]) @ rows.T > 0, 1.0, -1.0)
    return FirstLayer(readings, rows, tangents, layer.basis, patterns, None)


def _add(clusters: list[list[Seen]], seen: Seen) -> None:
    """To the cluster whose rows are parallel to this one, or a new one."""
    row = seen[1]
    for cluster in clusters:
        other = cluster[0][1]
        if abs(row @ other) > SAME * np.linalg.norm(row) * np.linalg.norm(other):
            cluster.append(seen)
            return
    clusters.append([seen])
