"""The hyperplanes behind kinks: where the two affine pieces beside a kink agree.

Across the hyperplane of one unit the gradient jumps by (output weights) x (normal), a matrix of rank one. A jump
of higher rank means that two units bend at once, and the kink is left to another line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.columns import Columns
from unweave.probes.cells import Pieces, measure_pieces
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines


@dataclass(frozen=True)
class Planes(Columns):
    """``{normals . x + offsets = 0}`` with unit normals.

    From the negative to the positive side the gradient grows by ``jumps`` (outer) ``normals``; turning a normal round
    turns the sides too, so ``jumps`` does not depend on the orientation.
    """

    normals: np.ndarray
    offsets: np.ndarray
    jumps: np.ndarray
    errors: np.ndarray
    """Expected error of a normal's entries, relative to its largest."""
    points: np.ndarray
    """A point on each plane: the kink it was seen at."""


def no_planes(input_size: int, output_size: int) -> Planes:
    """No plane at all."""
    wide, empty = np.zeros((0, input_size)), np.zeros(0)
    return Planes(wide, empty, np.zeros((0, output_size)), empty, wide)


def measure_planes(
    inquiry: Inquiry, lines: Lines, kinks: list[Kinks], rng: np.random.Generator
) -> tuple[Planes, Pieces]:
    """The planes behind every kink that the cells beside it allow to be measured, and those cells' pieces."""
    owners, centres, widths = [], [], []
    sides: list[tuple[int, float, int, int]] = []
    for line, found in enumerate(kinks):
        breaks = np.sort(np.concatenate([found.positions, found.unresolved]))
        cells: dict[int, int] = {}
        for t in found.positions:
            place = int(np.searchsorted(breaks, t))
            for cell in (place, place + 1):
                if cell not in cells:
                    middle, width = _cell_middle(lines, line, breaks, cell)
                    cells[cell] = len(centres)
                    owners.append(line)
                    centres.append(middle)
                    widths.append(width)
            sides.append((line, float(t), cells[place], cells[place + 1]))
    d = inquiry.input_size
    points = lines.points(np.array(owners, dtype=int), np.array(centres)) if centres else np.zeros((0, d))
    pieces = measure_pieces(inquiry, points, np.array(widths) / 5, rng)
    at = [lines.origins[line] + t * lines.directions[line] for line, t, _, _ in sides]
    left, right = np.array([s[2] for s in sides], dtype=int), np.array([s[3] for s in sides], dtype=int)
    return jump_planes(pieces, left, right, np.array(at).reshape(len(sides), d)), pieces


def _cell_middle(lines: Lines, line: int, breaks: np.ndarray, cell: int) -> tuple[float, float]:
    """The middle of a cell of a line and its half width; unbounded cells are cut at a few times their distance."""
    low = breaks[cell - 1] if cell else None
    high = breaks[cell] if cell < len(breaks) else None
    scale = lines.scale[line]
    if low is None and high is not None:
        low = max(lines.low[line], high - 2 * (scale + abs(high)))
    if high is None and low is not None:
        high = min(lines.high[line], low + 2 * (scale + abs(low)))
    assert low is not None
    assert high is not None
    middle = (low + high) / 2
    return float(middle), float((high - low) / 2)


def jump_planes(pieces: Pieces, left: np.ndarray, right: np.ndarray, points: np.ndarray) -> Planes:
    """The planes across which piece ``left[i]`` turns into piece ``right[i]`` at ``points[i]``."""
    k, d = pieces.gradients.shape[1:]
    usable = np.flatnonzero(pieces.valid[left] & pieces.valid[right])
    left, right, points = left[usable], right[usable], points[usable]
    jumps = pieces.gradients[right] - pieces.gradients[left]
    errors = np.hypot(pieces.errors[right], pieces.errors[left])
    if not len(usable):
        return no_planes(d, k)
    u, sizes, vt = np.linalg.svd(jumps, full_matrices=False)
    across = pieces.centres[right] - pieces.centres[left]
    side = np.where(np.einsum("nd,nd->n", vt[:, 0], across) < 0, -1.0, 1.0)[:, None]
    normals, outputs = side * vt[:, 0], side * u[:, :, 0] * sizes[:, :1]
    relative = errors / np.maximum(np.max(np.abs(jumps), axis=(1, 2)), 1e-300)
    gap = (
        pieces.values[right]
        + np.einsum("nkd,nd->nk", pieces.gradients[right], points - pieces.centres[right])
        - pieces.values[left]
        - np.einsum("nkd,nd->nk", pieces.gradients[left], points - pieces.centres[left])
    )
    shift = np.einsum("nk,nk->n", gap, outputs) / np.maximum(np.einsum("nk,nk->n", outputs, outputs), 1e-300)
    offsets = shift - np.einsum("nd,nd->n", normals, points)
    away = np.linalg.norm(pieces.centres[right] - points, axis=1) + np.linalg.norm(
        pieces.centres[left] - points, axis=1
    )
    single = np.ones(len(usable), dtype=bool)
    if sizes.shape[1] > 1:
        single = sizes[:, 1] <= SAFETY * errors * np.sqrt(k * d)
    strong = sizes[:, 0] > SAFETY * errors * np.sqrt(d)
    placed = np.abs(shift) <= 1e-3 * away + SAFETY * relative * (away + np.linalg.norm(points, axis=1))
    keep = single & strong & placed
    return Planes(normals, offsets, outputs, relative, points).take(keep)
