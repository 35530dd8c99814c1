"""A plane through a bounded domain with everything that shows on it: its map, edges and chains."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.core.errors import BudgetSpent
from unweave.methods.relu.maps.chains import Chains
from unweave.methods.relu.maps.edges import Edges, find_edges
from unweave.methods.relu.maps.planar import Map, Plane
from unweave.probes.inquiry import Inquiry

PLACE = 1e-7
"""A point closer than this to the end of the plane, relative to its extent, lies on it."""
STARTS = 6
"""Points in a plane from which it is explored."""
GLANCES = 60, 120, 180
"""Cells on which it is looked for zero sets that bend at others that bend, one number after the other."""
NEXT = 1e-3
"""How far beside an edge its cell is looked for, relative to its length."""
MENDS, AROUND = 2, 8
"""How often places around corners that do not close are looked at, and how many of them."""


@dataclass
class Sheet:
    """A plane with its map, edges and chains."""

    chart: Map
    edges: Edges
    chains: Chains
    ends: np.ndarray
    """(corners, d) in space."""
    middles: np.ndarray
    known: np.ndarray
    """Which edges lie on the zero set of a unit that is known."""
    beside: np.ndarray
    """The number of a cell beside every edge, or -1."""
    normals: dict[int, tuple[np.ndarray, float]] = field(default_factory=dict)


def begin_map(
    inquiry: Inquiry, origin, basis, low, high, deadline: float, rng, places: np.ndarray | None = None
) -> Map | None:
    """A map of one plane, to be explored from ``places`` (n, d) on it first, where small cells are overlooked later."""
    plane = Plane(inquiry, origin, basis, low, high)
    if len(plane.frame) < 3:
        return None
    shares = rng.dirichlet(np.ones(len(plane.frame)), size=STARTS)
    first = np.zeros((0, 2)) if places is None else (places - plane.origin) @ plane.basis.T
    return Map(plane, deadline, rng, starts=np.concatenate([first, shares @ plane.frame]))


def bends_twice(chart: Map) -> bool | None:
    """Whether zero sets on the first cells of a map bend at others that bend: units of a third layer.

    None where these cells are the whole map.
    """
    whole = chart.most
    try:
        for chart.most in GLANCES:
            chart.explore()
            if len(chart.cells) < chart.most:
                return None
            edges = find_edges(chart)
            if not len(edges):
                return False
            chains = Chains(edges)
            chains.link(_on_frame(chart.plane, edges.corners))
            roots = chains.roots
            bent = {int(roots[edge]) for edge, _, _ in chains.bends}
            if any(at >= 0 and int(roots[at]) in bent for _, _, at in chains.bends):
                return True
    except BudgetSpent:
        chart.closed = True
        return None
    finally:
        chart.most = whole
    return False


def draw_sheet(chart: Map) -> Sheet | None:
    """The map with everything that shows on it."""
    plane = chart.plane
    try:
        if not chart.closed:
            chart.explore()
    except BudgetSpent:  # the cells that are whole stay so
        chart.closed = True
    if not any(cell.whole for cell in chart.cells):
        return None
    for turn in range(MENDS + 1):
        edges = find_edges(chart)
        if not len(edges):
            return None
        chains = Chains(edges)
        chains.link(_on_frame(plane, edges.corners))
        places = _around(edges, {corner for _, corner in chains.loose})
        if turn == MENDS or chart.closed or not len(places) or not chart.cover(places):
            break
    return Sheet(
        chart,
        edges,
        chains,
        plane.lift(edges.corners),
        plane.lift(edges.middles),
        np.zeros(len(edges), dtype=bool),
        _cells_beside(chart, edges),
    )


def _cells_beside(chart: Map, edges: Edges) -> np.ndarray:
    out = np.full(len(edges), -1)
    for side in (1.0, -1.0):
        for edge in np.flatnonzero(out < 0):
            y = edges.middles[edge] + side * NEXT * edges.lengths[edge] * edges.normal[edge]
            found = chart.find(y)
            out[edge] = -1 if found is None else found
    return out


def _on_frame(plane: Plane, corners: np.ndarray) -> np.ndarray:
    """Which corners lie at the end of the plane."""
    frame, out = plane.frame, np.zeros(len(corners), dtype=bool)
    for i in range(len(frame)):
        way = frame[(i + 1) % len(frame)] - frame[i]
        off = (corners - frame[i]) @ np.array([-way[1], way[0]]) / max(float(np.linalg.norm(way)), 1e-300)
        out |= np.abs(off) < PLACE * plane.extent
    return out


def _around(edges: Edges, chosen: set[int]) -> np.ndarray:
    """Places in all directions around corners, nearer than any other corner."""
    out = []
    turn = 2 * np.pi * (np.arange(AROUND) + 0.3) / AROUND
    for corner in sorted(chosen):
        apart = np.linalg.norm(edges.corners - edges.corners[corner], axis=1)
        room = np.min(np.where(apart > 0, apart, np.inf))
        out.append(edges.corners[corner] + 0.05 * room * np.stack([np.cos(turn), np.sin(turn)], axis=1))
    return np.concatenate(out) if out else np.zeros((0, 2))
