"""Edges of a map: where they begin and end, and what is on either side.

The polygon of a cell may go on where its edge does not show: the same piece lies on both sides there. So every side of
a polygon is looked at between the corners of all cells on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unweave.methods.relu.maps.planar import Map

NEAR = 1e-7
"""Points closer than this, relative to the extent of the plane, are the same."""
BESIDE = 1e-4
"""How far beside a stretch it is asked what lies there, relative to its length."""
SAME = 1e-9
"""Pieces whose gradients differ by less than this, relative to the largest, are one."""


@dataclass
class Edges:
    """One row of every array an edge of the plane."""

    ends: np.ndarray
    """(n, 2) numbers of the corners."""
    sides: np.ndarray
    """(n, 2) numbers of the pieces: that where ``normal . x + offset`` is positive first."""
    normal: np.ndarray
    offset: np.ndarray
    corners: np.ndarray
    """(m, 2)"""
    pieces: np.ndarray
    """The number of a cell with each piece."""
    error: np.ndarray
    """How far an edge may lie from where it is said to."""
    steps: list[tuple[int, int, int]]
    """Cells side by side, and the number of the edge between them; -1 where they have one piece."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def middles(self) -> np.ndarray:
        return self.corners[self.ends].mean(axis=1)

    @property
    def lengths(self) -> np.ndarray:
        return np.linalg.norm(self.corners[self.ends[:, 0]] - self.corners[self.ends[:, 1]], axis=1)


def name_pieces(chart: Map) -> np.ndarray:
    """For every cell the number of its piece."""
    names, found = np.full(len(chart.cells), -1), []
    steep = max(np.max(np.abs(cell.gradient)) for cell in chart.cells) + 1e-300
    for number, cell in enumerate(chart.cells):
        for name, other in found:
            apart = np.max(np.abs(cell.gradient - other.gradient)) / steep
            gap = np.max(np.abs(cell.value - other.at(cell.centre))) / (steep * chart.plane.extent)
            if max(apart, gap) < SAME + 30 * (cell.error + other.error) / steep:
                names[number] = name
                break
        else:
            names[number] = len(found)
            found.append((len(found), cell))
    return names


def find_edges(chart: Map) -> Edges:
    """Every stretch between two pieces, once."""
    extent, names = chart.plane.extent, name_pieces(chart)
    whole = [number for number, cell in enumerate(chart.cells) if cell.whole]
    all_corners = np.concatenate([chart.cells[number].corners for number in whole])
    stretches: dict[tuple[int, int, int, int], tuple] = {}
    steps: list[tuple[int, int, tuple[int, int, int, int] | None]] = []
    points: list[np.ndarray] = []

    def corner(x: np.ndarray) -> int:
        if points:
            apart = np.max(np.abs(np.array(points) - x), axis=1)
            if apart.min() < 10 * NEAR * extent:
                return int(np.argmin(apart))
        points.append(x)
        return len(points) - 1

    for number in whole:
        cell = chart.cells[number]
        for i, other in enumerate(cell.behind):
            if other < 0:
                continue
            begin, end = cell.corners[i], cell.corners[(i + 1) % len(cell.corners)]
            way = end - begin
            length = float(np.linalg.norm(way))
            if length < 10 * NEAR * extent:
                continue
            a, b = cell.lines[int(other)]
            along = (all_corners - begin) @ way / length
            on = (np.abs(all_corners @ a + b) < NEAR * extent) & (along > 0) & (along < length)
            breaks = np.unique(np.concatenate([[0.0, length], along[on]]))
            breaks = breaks[np.append(True, np.diff(breaks) > 10 * NEAR * extent)]
            for low, high in pairwise(breaks):
                middle = begin + (low + high) / 2 / length * way
                beyond = middle - BESIDE * (high - low) * a
                holds = chart.find(beyond)
                behind = chart.piece_at(beyond) if holds is None else holds
                if behind is None or names[behind] == names[number]:
                    if holds is not None:
                        steps.append((number, holds, None))
                    continue
                gap = np.max(np.abs(cell.at(middle) - chart.cells[behind].at(middle)))
                turn = np.linalg.norm(cell.gradient - chart.cells[behind].gradient)
                if gap > 10 * NEAR * extent * turn:  # something thin lies between
                    continue
                ends = corner(begin + low / length * way), corner(begin + high / length * way)
                if ends[0] == ends[1]:
                    continue
                key = (
                    min(ends),
                    max(ends),
                    min(names[number], names[behind]),
                    max(names[number], names[behind]),
                )
                stretches.setdefault(key, (ends, (names[number], names[behind]), a, b))
                if holds is not None:
                    steps.append((number, holds, key))
    values = list(stretches.values())
    first = np.array([_best(chart, np.flatnonzero(names == name)) for name in range(names.max() + 1)])
    places = {key: place for place, key in enumerate(stretches)}
    errors = []
    for ends, sides, _, _ in values:
        one, two = (chart.cells[first[name]] for name in sides)
        jump = float(np.linalg.norm(one.gradient - two.gradient))
        reach = max(float(np.linalg.norm(points[ends[0]] - cell.centre)) for cell in (one, two))
        noise = float(np.max(np.abs(one.value))) * chart.plane.inquiry.relative
        errors.append((noise + (one.error + two.error) * reach) / jump)
    return Edges(
        np.array([v[0] for v in values]).reshape(-1, 2),
        np.array([v[1] for v in values]).reshape(-1, 2),
        np.array([v[2] for v in values]).reshape(-1, 2),
        np.array([v[3] for v in values]),
        np.array(points).reshape(-1, 2),
        first,
        np.array(errors),
        [(one, two, -1 if key is None else places[key]) for one, two, key in steps],
    )


def _best(chart: Map, cells: np.ndarray) -> int:
    """The cell whose piece is known best."""
    return int(
        cells[np.argmin([chart.cells[number].error + (not chart.cells[number].whole) for number in cells])]
    )
