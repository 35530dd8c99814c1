"""What a map of two inputs tells of its last hidden layer: pieces of the function, chains, and which of them are one.

Cells are told by three points each; the sides of chains are counted along ways from cell to cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.maps.closing import outputs_of
from unweave.methods.relu.maps.count import count_sides
from unweave.methods.relu.maps.sheet import Sheet

IN_A_CELL, MORE = 6, 6000
"""Points of every cell, and by area of all, at which sides are held."""
SHARP = 1e-9
"""Error up to which a piece counts, of its gradient relative to the typical one, and an edge, relative to the plane."""


@dataclass
class Pieces:
    """Three points of every cell, which tell its piece, and corners of the chains of the last layer."""

    x: np.ndarray
    y: np.ndarray
    sides: np.ndarray
    """(points, chains)"""
    outputs: np.ndarray
    """(chains, k) of length one: how the answers turn across each chain."""
    corners: list[np.ndarray]
    """Of each chain."""
    more: np.ndarray
    """Points at random in every cell, at which only sides count, ..."""
    more_sides: np.ndarray
    """... and these."""


@dataclass
class Layer:
    """The features below the last layer, with a one: of rows ``ways``, on where the unit is that they belong to."""

    below: Known
    rows: np.ndarray
    leak: float
    ways: np.ndarray
    units: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        h = np.hstack([self.below.features(x), np.ones((len(x), 1))])
        gates = np.where(h @ self.rows.T > 0, 1.0, self.leak)[:, self.units]
        return np.hstack([gates * (h @ self.ways.T), h[:, -1:]])


def gather_pieces(sheet: Sheet, left: np.ndarray, rng: np.random.Generator) -> Pieces:
    sides, usable = count_sides(sheet.chains, len(sheet.chart.cells), left)
    every, extent = sheet.chart.cells, sheet.chart.plane.extent
    steep = float(np.median([np.linalg.norm(cell.gradient) for cell in every]))
    cells = [n for n in np.flatnonzero(usable) if every[n].whole and every[n].error <= SHARP * steep]
    points, values, more, counts = [], [], [], []
    whole = float(_area(sheet.chart.plane.frame))
    for n in cells:
        cell = sheet.chart.cells[n]
        middle = cell.corners.mean(axis=0)
        some = cell.corners[np.linspace(0, len(cell.corners), 3, endpoint=False).astype(int)]
        inside = middle + 0.9 * (some - middle)
        points.append(sheet.chart.plane.lift(inside))
        values.append(cell.at(inside))
        counts.append(IN_A_CELL + int(MORE * _area(cell.corners) / whole))
        shares = rng.dirichlet(np.full(len(cell.corners), 0.7), size=counts[-1])
        more.append(sheet.chart.plane.lift(shares @ cell.corners))
    outputs, corners = outputs_of(sheet, left, SHARP * extent)
    told = sides[cells]
    return Pieces(
        np.concatenate(points),
        np.concatenate(values),
        np.repeat(told, 3, axis=0),
        outputs,
        corners,
        np.concatenate(more),
        np.repeat(told, counts, axis=0),
    )


def _area(corners: np.ndarray) -> float:
    """Of a polygon."""
    x, y = (corners - corners[0]).T
    return abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def sides_of_units(pieces: Pieces, groups: list[list[int]]) -> np.ndarray:
    return side_of(pieces.sides, groups)


def side_of(sides: np.ndarray, groups: list[list[int]]) -> np.ndarray:
    """Of the chains of every unit together."""
    return np.stack([np.prod(sides[:, group], axis=1) for group in groups], axis=1)


def last_chains(sheet: Sheet) -> np.ndarray:
    """Chains that are left, without edges that touch nothing: two pieces that were taken for neighbours."""
    roots = sheet.chains.roots
    ends = np.bincount([roots[edge] for edge, _ in sheet.chains.loose], minlength=len(roots))
    return np.array(
        [root for root in np.unique(roots[~sheet.known]) if ends[root] < 2 or np.sum(roots == root) > 1]
    )


def broken_chains(sheet: Sheet, left: np.ndarray) -> list[list[int]]:
    """Chains, those together that break off next to each other: nothing hides zero sets of the last layer."""
    groups, roots = [[chain] for chain in range(len(left))], sheet.chains.roots
    ends = [
        (i, at)
        for i, root in enumerate(left)
        for edge, at in sorted(sheet.chains.loose)
        if roots[edge] == root
    ]
    places = sheet.ends[[at for _, at in ends]] if ends else np.zeros((0, 2))
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    pairs = sorted((apart[a, b], a, b) for a, b in combinations(range(len(ends)), 2))
    free = set(range(len(ends)))
    for _, a, b in pairs:
        if not {a, b} <= free:
            continue
        free -= {a, b}
        one, two = (next(group for group in groups if ends[end][0] in group) for end in (a, b))
        if one is not two:
            groups.remove(two)
            one += two
    return groups
