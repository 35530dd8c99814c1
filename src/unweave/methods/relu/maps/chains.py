"""Edges of a map in chains: parts of zero sets of units, and which bends at which.

Where two zero sets cross, that of the lower unit goes straight on and that of the upper one bends, or both go straight.
So the edges at a corner tell which belong together, and which unit stands above the other, before anything is known of
either. Where more or fewer than four edges meet, the units that are known by then tell it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from unweave.methods.relu.maps.edges import Edges

STRAIGHT = 1e-6
"""Sine of the angle up to which two edges go straight on."""


@dataclass
class Chains:
    """Edges linked at corners."""

    edges: Edges
    parent: np.ndarray = field(init=False)
    bends: list[tuple[int, int, int]] = field(default_factory=list)
    """(edge, edge it goes on with, an edge of what it bends at; -1 for what is known but not seen)."""
    loose: set[tuple[int, int]] = field(default_factory=set)
    """(edge, corner) at which an edge does not go on."""
    is_wall: np.ndarray = field(init=False)
    around: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.edges)
        self.parent = np.arange(count)
        flat = self.edges.ends.ravel()
        order = np.argsort(flat, kind="stable")
        cuts = np.searchsorted(flat[order], np.arange(len(self.edges.corners) + 1))
        self.around = [order[a:b] // 2 for a, b in pairwise(cuts)]

    def link(self, walls: np.ndarray) -> None:
        """Links at all corners but those on the ``walls`` of the plane."""
        self.is_wall = walls
        for corner, mine in enumerate(self.around):
            if not walls[corner]:
                self._link_corner(corner, mine)

    def _link_corner(self, corner: int, mine: np.ndarray) -> None:
        ways = self._ways(corner, mine)
        left = list(range(len(mine)))
        pairs = []
        for i in range(len(mine)):
            for j in range(i + 1, len(mine)):
                cross = ways[i][0] * ways[j][1] - ways[i][1] * ways[j][0]
                if abs(cross) < STRAIGHT and ways[i] @ ways[j] < 0 and i in left and j in left:
                    pairs.append((i, j))
                    left.remove(i)
                    left.remove(j)
        for i, j in pairs:
            self._join(int(mine[i]), int(mine[j]))
        if len(left) == 2 and len(pairs) == 1:
            i, j = left
            line = ways[pairs[0][0]]
            heights = [line[0] * ways[k][1] - line[1] * ways[k][0] for k in left]
            if heights[0] * heights[1] < 0:
                self._join(int(mine[i]), int(mine[j]))
                self.bends.append((int(mine[i]), int(mine[j]), int(mine[pairs[0][0]])))
                return
        self.loose |= {(int(mine[i]), corner) for i in left}

    def _ways(self, corner: int, mine: np.ndarray) -> np.ndarray:
        """Directions of edges from a corner."""
        ends = self.edges.ends[mine]
        far = np.where(ends[:, 0] == corner, ends[:, 1], ends[:, 0])
        ways = self.edges.corners[far] - self.edges.corners[corner]
        # the direction of its line is sharper than that of its ends
        along = np.stack([-self.edges.normal[mine][:, 1], self.edges.normal[mine][:, 0]], axis=1)
        return along * np.sign(np.sum(along * ways, axis=1))[:, None]

    def relink(self, known: np.ndarray, passing: np.ndarray) -> int:
        """Links of two loose edges where no other is unknown; ``passing``: corners that known zero sets pass."""
        count = 0
        for corner in {corner for _, corner in self.loose}:
            mine = [edge for edge, at in self.loose if at == corner and not known[edge]]
            others = [int(edge) for edge in self.around[corner] if edge not in mine]
            if len(mine) == 2 and passing[corner]:
                self._join(mine[0], mine[1])
                at = next((edge for edge in others if known[edge]), -1)
                self.bends.append((mine[0], mine[1], at))
                self.loose -= {(edge, corner) for edge in mine}
                count += 1
        return count

    def _join(self, one: int, two: int) -> None:
        a, b = self.root(one), self.root(two)
        if a != b:
            self.parent[max(a, b)] = min(a, b)

    def root(self, edge: int) -> int:
        while self.parent[edge] != edge:
            self.parent[edge] = self.parent[self.parent[edge]]
            edge = int(self.parent[edge])
        return edge

    @property
    def roots(self) -> np.ndarray:
        return np.array([self.root(edge) for edge in range(len(self.edges))], dtype=int)
