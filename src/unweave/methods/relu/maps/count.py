"""On which side of every chain a cell lies, counted along ways from cell to cell; and points of the cells."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.maps.chains import Chains
from unweave.methods.relu.maps.planar import Map


def count_sides(chains: Chains, cells: int, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sides (cells, chains) of the chains with these roots, and which cells are reached without contradiction."""
    roots = chains.roots
    place = {int(root): i for i, root in enumerate(wanted)}
    beside: list[list[tuple[int, int]]] = [[] for _ in range(cells)]
    for one, two, edge in chains.edges.steps:
        crossed = -1 if edge < 0 else place.get(int(roots[edge]), -1)
        beside[one].append((two, crossed))
        beside[two].append((one, crossed))
    sides, seen = np.ones((cells, len(wanted))), np.zeros(cells, dtype=bool)
    clash = np.zeros(cells, dtype=bool)
    start = max(range(cells), key=lambda c: len(beside[c]))
    queue, seen[start] = [start], True
    while queue:
        one = queue.pop(0)
        for two, crossed in beside[one]:
            expected = sides[one].copy()
            if crossed >= 0:
                expected[crossed] *= -1
            if not seen[two]:
                sides[two], seen[two] = expected, True
                queue.append(two)
            elif np.any(sides[two] != expected):
                clash[[one, two]] = True
    return sides, seen & ~clash


def sample_cells(chart: Map, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, 2) inside usable cells with the values of their pieces, and the cell of each."""
    points, values, owner = [], [], []
    for number in np.flatnonzero(usable):
        cell = chart.cells[number]
        if not cell.whole:
            continue
        middle = cell.corners.mean(axis=0)
        halfway = (cell.corners + np.roll(cell.corners, -1, axis=0)) / 2
        inside = np.vstack([cell.corners, middle + 0.8 * (halfway - middle), middle])
        points.append(inside)
        values.append(cell.at(inside))
        owner.append(np.full(len(inside), number))
    return np.concatenate(points), np.concatenate(values), np.concatenate(owner)
