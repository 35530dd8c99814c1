"""The planes behind the kinks of a line from a few of its cells, where there are several outputs.

A unit's output weights point along the jump of the slope at its kink, which the search of the line has already
seen. So the change of the gradient across a group of kinks, a matrix of rank at most the number of outputs, splits
into the rows of the group's units by least squares: with k outputs only every (k/2)-th cell need be measured, and the
widest cells can be chosen. The directions are then measured again, four queries a unit, where there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from unweave.probes.cells import Pieces, measure_pieces
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import Planes, no_planes

MIN_OUTPUTS = 4

Place = Callable[[Planes, int], tuple[np.ndarray, float] | None]
"""A point on the numbered plane and the height above it that keeps clear of all others."""


@dataclass(frozen=True)
class _Group:
    """Consecutive kinks of the line and the measured cells before and after them."""

    members: np.ndarray
    left: int
    right: int


def measure_planes_jointly(
    inquiry: Inquiry, lines: Lines, kinks: Kinks, place: Place, rng: np.random.Generator
) -> tuple[Planes, Pieces] | None:
    """The planes behind all kinks of the one line of ``lines``; None where this way does not apply."""
    positions, k = kinks.positions, inquiry.output_size
    if k < MIN_OUTPUTS or len(lines) != 1 or len(positions) < 4 or len(kinks.unresolved):
        return None
    scale = lines.scale[0]
    low = max(lines.low[0], positions[0] - 2 * (scale + abs(positions[0])))
    high = min(lines.high[0], positions[-1] + 2 * (scale + abs(positions[-1])))
    edges = np.concatenate([[low], positions, [high]])
    middles, widths = (edges[:-1] + edges[1:]) / 2, np.diff(edges) / 2
    usable = widths / (scale + np.abs(middles))
    for _ in range(4):
        chosen = _choose_cells(usable, max(2, min(k // 2, 12)))
        x = lines.points(np.zeros(len(chosen), dtype=int), middles[chosen])
        pieces = measure_pieces(inquiry, x, widths[chosen] / 5, rng)
        if pieces.valid.all():
            break
        usable[chosen[~pieces.valid]] *= 1e-6
    else:
        return None
    groups = [_Group(np.arange(a, b), i, i + 1) for i, (a, b) in enumerate(pairwise(chosen))]
    points = lines.points(np.zeros(len(positions), dtype=int), positions)
    sizes = np.linalg.norm(kinks.jumps, axis=1, keepdims=True)
    if np.any(sizes == 0):
        return None
    planes = _split(pieces, groups, kinks.jumps / sizes, points)
    jumps, places, heights = measure_heights(inquiry, planes, place)
    lengths = np.linalg.norm(jumps, axis=1) * np.linalg.norm(planes.jumps, axis=1)
    agree = np.einsum("mk,mk->m", jumps, planes.jumps) / np.maximum(lengths, 1e-300) > 1 - 1e-6
    directions = np.where(agree[:, None], jumps, planes.jumps)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sound = np.concatenate([np.full(len(group.members), agree[group.members].all()) for group in groups])
    split = _split(pieces, groups, directions, points)
    offsets = heights - np.einsum("md,md->m", split.normals, places)
    return replace(split, offsets=offsets, points=places).take(sound), pieces


def _choose_cells(widths: np.ndarray, longest: int) -> np.ndarray:
    """The cheapest way from the first cell to the last in steps of at most ``longest``; narrow cells cost more."""
    cost = 1 + 0.1 * np.median(widths) / np.maximum(widths, 1e-300)
    total, back = np.full(len(widths), np.inf), np.zeros(len(widths), dtype=int)
    total[0] = 0.0
    for cell in range(1, len(widths)):
        start = max(0, cell - longest)
        best = start + int(np.argmin(total[start:cell]))
        total[cell], back[cell] = total[best] + cost[cell], best
    path = [len(widths) - 1]
    while path[-1]:
        path.append(int(back[path[-1]]))
    return np.array(path[::-1])


def _split(pieces: Pieces, groups: list[_Group], directions: np.ndarray, points: np.ndarray) -> Planes:
    """Each group's change of the gradient as a sum of (direction) x (row) over its units."""
    k, d = pieces.gradients.shape[1:]
    if not groups:
        return no_planes(d, k)
    rows, errors = np.empty((len(points), d)), np.empty(len(points))
    for group in groups:
        change = pieces.gradients[group.right] - pieces.gradients[group.left]
        inverse = np.linalg.pinv(directions[group.members].T)
        rows[group.members] = inverse @ change
        bar = np.hypot(pieces.errors[group.left], pieces.errors[group.right])
        errors[group.members] = bar * np.linalg.norm(inverse, axis=1)
    sizes = np.linalg.norm(rows, axis=1)
    normals = rows / sizes[:, None]
    offsets = -np.einsum("md,md->m", normals, points)
    relative = errors / np.max(np.abs(rows), axis=1)
    return Planes(normals, offsets, sizes[:, None] * directions, relative, points)


def measure_heights(
    inquiry: Inquiry, planes: Planes, place: Place
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The jump of the slope across each plane where there is room, that place, and its height above the true plane.

    Jumps are 0 where no place was found or the plane is not there.
    """
    jumps, x, heights = np.zeros_like(planes.jumps), planes.points.copy(), np.zeros(len(planes))
    found = [(i, at) for i in range(len(planes)) if (at := place(planes, i)) is not None]
    if not found:
        return jumps, x, heights
    rows = np.array([i for i, _ in found])
    x[rows] = np.array([at[0] for _, at in found])
    lift = np.array([at[1] for _, at in found])[:, None]
    steps = [lift * m * planes.normals[rows] for m in (-2, -1, 1, 2)]
    answers, bars = inquiry.ask(np.concatenate([x[rows] + step for step in steps]))
    far_down, down, up, far_up = np.split(answers, 4)
    jumps[rows] = ((far_up - up) - (down - far_down)) / lift
    meet = (2 * up - far_up) - (2 * down - far_down)
    square = np.maximum(np.einsum("mk,mk->m", jumps[rows], jumps[rows]), 1e-300)
    heights[rows] = np.einsum("mk,mk->m", meet, jumps[rows]) / square
    bar = np.max(np.split(bars, 4), axis=0)
    misplaced = np.max(np.abs(meet), axis=1) > SAFETY * 6 * bar + 1e-3 * np.sqrt(square) * lift[:, 0]
    jumps[rows[misplaced]] = 0.0
    return jumps, x, heights
