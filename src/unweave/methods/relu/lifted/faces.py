"""Where a traced unit's zero set meets planes it has not crossed, by looking at many points of every plane.

On the border of what a trace knows its value is known as well. The part of a plane on that border is convex: between
two points of it at which the unit has different signs there is a meeting. Where all points have one sign, that is the
sign the unit keeps beyond the plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.wander import Meetings, measure_room

POINTS = 160
"""Points of each plane."""
HERD, GENERATIONS, KEPT = 24, 12, 2
"""Points that breed for each unit and plane, how often, and how many of them are kept."""
PAIRS = 3
"""Pairs of points with different signs that are tried for each unit and plane."""


@dataclass(frozen=True)
class Faces:
    """Points of every plane inside a box."""

    plane: np.ndarray
    x: np.ndarray
    signs: np.ndarray
    """Sides of all planes; on its own plane 0."""

    @staticmethod
    def draw(planes: Planes, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> Faces:
        which, x = [], []
        for i in range(len(planes)):
            points = points_on(planes, i, low, high, rng, POINTS)
            which.append(np.full(len(points), i))
            x.append(points)
        which, x = np.concatenate(which), np.concatenate(x)
        signs = np.where(planes.heights(x) > 0, 1.0, -1.0)
        signs[np.arange(len(x)), which] = 0.0
        return Faces(which, x, signs)

    def look(self, traces: Traces) -> tuple[np.ndarray, np.ndarray]:
        """(points, m) values of the traces, and whether each is known there, if only up to the plane."""
        heights = traces.planes.heights(self.x)
        unknown = ~traces.known
        # every unknown plane but the own one lies on its side
        agree = self.signs @ (traces.sides * unknown).T
        wanted = unknown.sum(axis=1)[None, :] - unknown[:, self.plane].T
        return traces.values(self.x, heights), agree >= wanted - 0.5

    def deepen(self, traces: Traces, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> Faces:
        """With points where units that keep one sign on a plane come closest to changing it.

        The points of each unit and plane breed: differences of some are added to others, the better ones are kept.
        """
        values, known = self.look(traces)
        units, planes, starts = [], [], []
        for i in np.unique(self.plane):
            rows = np.flatnonzero(self.plane == i)
            for j in np.flatnonzero(~traces.known[:, i]):
                own = rows[known[rows, j]]
                z = values[own, j]
                if len(own) >= 4 and (np.all(z > 0) or np.all(z < 0)):
                    units.append(j)
                    planes.append(i)
                    starts.append(own[np.argsort(np.abs(z))[np.arange(HERD) % len(own)]])
        if not units:
            return self
        unit, plane = np.repeat(units, HERD), np.repeat(planes, HERD)
        x = self.x[np.concatenate(starts)]
        best = np.abs(values[np.concatenate(starts), unit])
        side = np.sign(values[np.concatenate(starts), unit])
        base = np.repeat(np.arange(len(units)) * HERD, HERD)
        for _ in range(GENERATIONS):
            a, b, c = (base + rng.integers(HERD, size=len(base)) for _ in range(3))
            share = rng.uniform(0.3, 1.2, size=(len(base), 1))
            tried = np.where(rng.uniform(size=(len(base), 1)) < 0.5, x, x[a]) + share * (x[b] - x[c])
            tried = _onto(traces.planes, plane, tried, low, high)
            signs = np.where(traces.planes.heights(tried) > 0, 1.0, -1.0)
            signs[np.arange(len(plane)), plane] = traces.sides[unit, plane]
            strange = np.any((signs != traces.sides[unit]) & ~traces.known[unit], axis=1)
            away = np.abs(
                np.einsum("nd,nd->n", tried, traces.planes.normals[plane]) + traces.planes.offsets[plane]
            )
            far = away > 1e-9 * (1 + np.abs(traces.planes.offsets[plane]))
            height = np.where(strange | far, np.inf, side * value_at(traces, unit, tried))
            better = height < best
            x, best = np.where(better[:, None], tried, x), np.where(better, height, best)
        order = np.argsort(best.reshape(-1, HERD), axis=1)[:, :KEPT]
        rows = (order + np.arange(len(units))[:, None] * HERD).ravel()
        return self.join(traces.planes, plane[rows], x[rows])

    def join(self, planes: Planes, plane: np.ndarray, x: np.ndarray) -> Faces:
        """With more points ``x`` of the numbered planes."""
        signs = np.where(planes.heights(x) > 0, 1.0, -1.0)
        signs[np.arange(len(x)), plane] = 0.0
        return Faces(np.append(self.plane, plane), np.vstack([self.x, x]), np.vstack([self.signs, signs]))

    def meetings(
        self, traces: Traces, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
    ) -> Meetings:
        """Meetings of each unit with each plane that it has not crossed."""
        values, known = self.look(traces)
        unit, plane, starts, goals = [], [], [], []
        for i in np.unique(self.plane):
            rows = np.flatnonzero(self.plane == i)
            open_units = np.flatnonzero(~traces.known[:, i])
            up = known[np.ix_(rows, open_units)] & (values[np.ix_(rows, open_units)] > 0)
            down = known[np.ix_(rows, open_units)] & (values[np.ix_(rows, open_units)] < 0)
            for column in np.flatnonzero(up.any(axis=0) & down.any(axis=0)):
                unit.append(np.full(PAIRS, open_units[column]))
                plane.append(np.full(PAIRS, i))
                starts.append(rng.choice(rows[up[:, column]], size=PAIRS))
                goals.append(rng.choice(rows[down[:, column]], size=PAIRS))
        if not unit:
            d, n = self.x.shape[1], self.signs.shape[1]
            none = np.zeros(0, dtype=int)
            return Meetings(none, none, np.zeros((0, d)), np.zeros((0, n)), np.zeros((0, d + 1)), np.zeros(0))
        unit, plane = np.concatenate(unit), np.concatenate(plane)
        a, b = self.x[np.concatenate(starts)], self.x[np.concatenate(goals)]
        rows = np.arange(len(unit))
        for _ in range(45):
            middle = (a + b) / 2
            value = value_at(traces, unit, middle)
            a, b = np.where((value > 0)[:, None], middle, a), np.where((value > 0)[:, None], b, middle)
        x = (a + b) / 2
        signs = np.where(traces.planes.heights(x) > 0, 1.0, -1.0)
        signs[rows, plane] = traces.sides[unit, plane]
        facet = traces.facets(unit, signs)
        return Meetings(unit, plane, x, signs, facet, measure_room(traces, unit, plane, x, low, high))


def points_on(
    planes: Planes, plane: int, low: np.ndarray, high: np.ndarray, rng: np.random.Generator, count: int
) -> np.ndarray:
    """Random points of a plane inside a box: where segments between its two sides cross it."""
    normal, offset = planes.normals[plane], planes.offsets[plane]
    d = len(normal)
    points = low + (high - low) * rng.beta(0.5, 0.5, size=(8 * count, d))
    # a plane may cut off no more than a corner
    share = rng.uniform(size=(2, count, 1)) ** 3
    for sign, part in zip((1.0, -1.0), share, strict=True):
        corner = np.where(sign * normal > 0, high, low)
        points = np.concatenate([points, corner + part * (points[:count] - corner)])
    heights = points @ normal + offset
    up, down = np.flatnonzero(heights > 0), np.flatnonzero(heights < 0)
    if not len(up) or not len(down):
        return np.zeros((0, d))
    a, b = rng.choice(up, size=count), rng.choice(down, size=count)
    part = heights[a] / (heights[a] - heights[b])
    return points[a] + part[:, None] * (points[b] - points[a])


def _onto(planes: Planes, plane: np.ndarray, x: np.ndarray, low, high, num_passes: int = 5) -> np.ndarray:
    """Points moved onto their planes and into the box, as far as a few passes do."""
    normal, offset = planes.normals[plane], planes.offsets[plane]
    wide = (high - low) ** 2
    for _ in range(num_passes):
        x = np.clip(x, low, high)
        height = np.einsum("nd,nd->n", x, normal) + offset
        pull = normal * height[:, None]
        free = np.where(pull > 0, x > low, x < high) * wide
        weight = normal * free
        x = x - (height / np.maximum(np.einsum("nd,nd->n", weight, normal), 1e-300))[:, None] * weight
    return np.clip(x, low, high)


def value_at(traces: Traces, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    heights = np.abs(traces.planes.heights(x))
    gamma = traces.gamma[unit]
    return (
        np.einsum("nd,nd->n", x, gamma[:, :-1])
        + gamma[:, -1]
        + np.einsum("ni,ni->n", heights, traces.beta[unit])
    )
