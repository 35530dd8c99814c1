"""Planes of the first layer that drown on random lines, from directions in which no known height changes.

With more inputs than planes are known there are such directions, and along them nothing bends but the units that are
not known: one that is a thousand times weaker than the others stands alone there. The facet at one of its kinks tells
roughly which direction crosses it; where lines in that direction from many places meet it, its plane is linear least
squares, every place with its own error bar. Of several that are not known each is crossed along what the facets of the
others leave of its direction: there they stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from unweave.core.columns import Columns
from unweave.core.domains import Everywhere
from unweave.evidence.affine_view import AffineView
from unweave.evidence.meter import Meter
from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import measure_planes

PLACES, NEAR = 3, 14.0
"""Places from which directions are tried, and how far lines from them lead, in their own size."""
CLEAR = 0.3
"""Relative error of a direction up to which lines along it are drawn."""
SAME = 0.2
"""How far directions may differ that are of one unit."""
MORE, LEAST = 1.5, 10
"""Lines along a direction, for each unknown of its plane, and beside these."""
FARTHER = 3.0
"""How far they lead, in the distance of the kink that told the direction and what it differs by from place to place."""
SAMPLED = 100
"""Points that tell the typical distance."""
STILL = 0.2
"""Slope on one side of a kink, relative to the bend there, up to which the answers stand still."""
HIT, DEVIATIONS = 0.6, 6.0
"""Share of the lines that bend on which a plane must lie, to so many error bars."""


@dataclass(frozen=True)
class Quiet(Columns):
    """Planes ``normals . x + offsets = 0`` with the covariance of (normal, offset)."""

    normals: np.ndarray
    offsets: np.ndarray
    covariances: np.ndarray


def find_quiet_plane(
    inquiry: Inquiry, normals: np.ndarray, offsets: np.ndarray, rng: np.random.Generator
) -> Quiet:
    """A plane beside the known ones, weak or strong, that bends the answers where no known height changes; or none."""
    m, d = normals.shape
    level = np.linalg.qr(normals.T, mode="complete")[0][:, m:]
    tried = np.zeros((0, d))
    for _ in range(PLACES):
        place = near_points(inquiry, 1, rng)
        directions, distances = _directions(inquiry, place, level, rng)
        for direction, distance in zip(directions, distances, strict=True):
            if np.any(np.abs(tried @ direction) > 1 - SAME**2 / 2):
                continue
            tried = np.vstack([tried, direction])
            plane = _meet(inquiry, direction, distance, rng)
            if plane is not None:
                return plane
    return Quiet(np.zeros((0, d)), np.zeros(0), np.zeros((0, d + 1, d + 1)))


def near_points(inquiry: Inquiry, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random points, all of them at the typical distance of those that a domain without end draws at many."""
    x = inquiry.meter.domain.sample(max(count, SAMPLED), inquiry.input_size, rng)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return (x * np.median(length) / np.maximum(length, 1e-300))[:count]


def _directions(
    inquiry: Inquiry, place: np.ndarray, level: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of level ground that cross one plane each, clearest first, and how far from the place that is."""
    view = cast(Meter, AffineView(inquiry.meter, place, level.T, level, Everywhere()))
    within, k = replace(inquiry, meter=view), level.shape[1]
    ahead = rng.standard_normal((1, k))
    scale = np.array([float(np.linalg.norm(place))])
    line = Lines(np.zeros((1, k)), ahead / np.linalg.norm(ahead), -NEAR * scale, NEAR * scale, scale)
    planes, _ = measure_planes(within, line, find_kinks(within, line), rng)
    planes = planes.take(np.argsort(planes.errors)).take(np.sort(planes.errors) < CLEAR)
    directions, distances = planes.normals.copy(), np.abs(planes.offsets)
    alone = np.linalg.pinv(planes.normals).T
    alone /= np.maximum(np.linalg.norm(alone, axis=1, keepdims=True), 1e-300)
    rates = np.sum(alone * planes.normals, axis=1)
    apart = rates > SAME  # else the plane is parallel to another one, or the same
    directions[apart], distances[apart] = alone[apart], distances[apart] / rates[apart]
    return directions @ level.T, distances


def _meet(inquiry: Inquiry, direction: np.ndarray, distance: float, rng: np.random.Generator) -> Quiet | None:
    """The plane that lines in this direction cross, if it explains most of those that bend."""
    d = len(direction)
    count = int(MORE * d + LEAST)
    origins = near_points(inquiry, count, rng)
    origins -= np.outer(origins @ direction, direction)
    reach = FARTHER * (distance + float(np.median(np.linalg.norm(origins, axis=1))) / np.sqrt(d))
    low, scale = np.full(count, -reach), np.full(count, reach / 4)
    lines = Lines(origins, np.tile(direction, (count, 1)), low, -low, scale)
    line, t, error = _outermost_kinks(find_kinks(inquiry, lines))
    if len(t) < d:
        return None
    # rows of (normal, offset) with normal . direction = 1
    basis = np.linalg.qr(direction[:, None], mode="complete")[0][:, 1:]
    rows = np.hstack([origins[line] @ basis, np.ones((len(t), 1))]) / error[:, None]
    right, weight = -t / error, np.ones(len(t))
    for _ in range(20):
        solution = np.linalg.lstsq(rows * weight[:, None], right * weight, rcond=1e-12)[0]
        misses = np.abs(rows @ solution - right)
        weight = 1 / np.sqrt(np.maximum(1.0, misses / (DEVIATIONS / 2)))
    near = misses <= DEVIATIONS
    if np.mean(near) < HIT or np.sum(near) < d + LEAST / 2:
        return None
    normal = direction + basis @ solution[:-1]
    length = float(np.linalg.norm(normal))
    inverse = np.linalg.pinv(rows[near])
    turn = np.zeros((d + 1, d))
    turn[:-1, :-1], turn[-1, -1] = basis, 1.0
    root = turn @ inverse / length
    return Quiet(normal[None] / length, solution[-1:] / length, (root @ root.T)[None])


def _outermost_kinks(scans: list[Kinks]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Line, place and error of the kink on each line beyond which the answers stand still: there the unit is off."""
    line, t, error = [], [], []
    for i, scan in enumerate(scans):
        if not len(scan.positions) or scan.place_errors is None:
            continue
        best = STILL
        first, last = scan.positions[[0, -1]]
        for place, outside in ((0, np.less(scan.asked, first)), (-1, np.greater(scan.asked, last))):
            if np.sum(outside) < 2 or np.any(_lies(scan.unresolved, scan.asked[outside])):
                continue
            (a, *_, b), (fa, *_, fb) = scan.asked[outside], scan.answers[outside]
            share = np.linalg.norm((fb - fa) / (b - a)) / np.linalg.norm(scan.jumps[place])
            if share < best:
                best, found = share, (i, scan.positions[place], scan.place_errors[place])
        if best < STILL:
            for values, value in zip((line, t, error), found, strict=True):
                values.append(value)
    return np.array(line, dtype=int), np.array(t), np.array(error)


def _lies(places: np.ndarray, among: np.ndarray) -> np.ndarray:
    return (places >= among[0]) & (places <= among[-1])
