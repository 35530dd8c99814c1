"""Convex polygons in a plane: a box cut by a plane, and what a line leaves of a polygon."""

from __future__ import annotations

import numpy as np


def cut_box(origin: np.ndarray, basis: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The corners (n, 2) of the part of the plane ``origin + y basis`` that lies in a box, in order."""
    reach = 2 * float(np.linalg.norm(high - low)) + 1e-300
    corners = reach * np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
    behind = np.full(4, -1)
    for axis in range(len(origin)):
        for sign, bound in ((1.0, low[axis]), (-1.0, high[axis])):
            a, b = sign * basis[:, axis], sign * (origin[axis] - bound)
            corners, behind = clip(corners, behind, a, float(b), -1, 0.0)
    return corners


def clip(
    corners: np.ndarray, behind: np.ndarray, a: np.ndarray, b: float, name: int, slack: float
) -> tuple[np.ndarray, np.ndarray]:
    """The part with ``a y + b >= 0``; ``behind`` names what lies behind the edge from each corner to the next."""
    height = corners @ a + b
    keep = height >= -slack
    if keep.all():
        return corners, behind
    if not keep.any():
        return corners[:0], behind[:0]
    points, names = [], []
    n = len(corners)
    for i in range(n):
        j = (i + 1) % n
        if keep[i]:
            points.append(corners[i])
            names.append(behind[i])
        if keep[i] != keep[j]:
            share = height[i] / (height[i] - height[j])
            points.append(corners[i] + share * (corners[j] - corners[i]))
            names.append(name if keep[i] else behind[i])
    return np.array(points), np.array(names)
