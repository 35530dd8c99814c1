"""How high and how low traced units get on planes that they have not crossed: climbs along the plane, no question.

Where a unit changes sign on the part of a plane that borders on what its trace knows it meets the plane, however small
the part is on which it does: random points never fall into a corner of the domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.climb import Climb
from unweave.methods.relu.lifted.faces import Faces, value_at
from unweave.methods.relu.lifted.traces import Traces

NEAR = 1e-9
"""How near to a plane, in a box of length two, is on it."""
CORNERS = 4
"""Random corners of a part of a plane, whose middle is taken."""
PULL = 1e-3
"""How far corners are moved into the part, relative to its middle."""


def add_extremes(
    faces: Faces,
    traces: Traces,
    starts: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> Faces:
    """With points of planes where units get highest and lowest that keep one sign on all points before.

    ``starts`` (m, d) are where the traces began: from there the part of a plane is found that no point lies on.
    """
    view = _View(traces, (low + high) / 2, (high - low) / 2)
    unit, plane, x, _ = _keeping(view, faces, starts)
    if not len(unit):
        return faces
    # corners of the part, from each of which it may be another way up
    corners = [view.corner(unit, plane, x, rng.standard_normal(x.shape)) for _ in range(CORNERS)]
    inner = np.mean(corners, axis=0)
    found = [inner]
    for sign in (1.0, -1.0):
        ends = np.stack([view.extreme(unit, plane, start, sign) for start in (x, inner, *corners)])
        heights = sign * np.stack([value_at(traces, unit, view.outward(t)) for t in ends])
        best = ends[np.argmax(heights, axis=0), np.arange(len(unit))]
        found.append(best + PULL * (inner - best))
    return faces.join(traces.planes, np.tile(plane, len(found)), view.outward(np.concatenate(found)))


def look_beyond(
    faces: Faces, traces: Traces, starts: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Points (n, d) beyond planes along which units keep one sign, where they may have the other for all that is known.

    A part of a unit's zero set may lie beyond a plane that it does not meet. How the unit bends there is not known; so
    the points are where it would change first if it bent as it does elsewhere, or as much as it does anywhere.
    """
    view = _View(traces, (low + high) / 2, (high - low) / 2)
    unit, plane, x, sign = _keeping(view, faces, starts)
    if not len(unit):
        return np.zeros((0, len(low)))
    sizes = np.where(traces.known, np.abs(traces.beta), np.nan)
    found = []
    for bend in (np.nanmedian(sizes, axis=1), np.nanmax(sizes, axis=1)):
        t = view.beyond(unit, plane, x, -sign, 2 * np.nan_to_num(bend)[unit])
        found.append(t + PULL * (x - t))
    return view.outward(np.concatenate(found))


def _keeping(
    view: _View, faces: Faces, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Units and planes not crossed, on which they keep one sign wherever was looked: a point, and the sign."""
    traces, d = view.traces, len(view.half)
    values, known = faces.look(traces)
    pairs, seen, signs = [], [], []
    for i in range(len(traces.planes)):
        rows = np.flatnonzero(faces.plane == i)
        for j in np.flatnonzero(~traces.known[:, i]):
            own = rows[known[rows, j]]
            z = values[own, j]
            if np.any(z > 0) and np.any(z < 0):
                continue
            pairs.append((j, i))
            seen.append(faces.x[own[np.argmin(np.abs(z))]] if len(own) else np.full(d, np.nan))
            signs.append(np.sign(z[0]) if len(own) else 0.0)
    if not pairs:
        none = np.zeros(0, dtype=int)
        return none, none, np.zeros((0, d)), np.zeros(0)
    (unit, plane), x, sign = np.array(pairs).T, view.inward(np.array(seen)), np.array(signs)
    unseen = np.isnan(x[:, 0])
    x[unseen], touched = view.touch(unit[unseen], plane[unseen], view.inward(starts)[unit[unseen]])
    sign[unseen] = np.sign(value_at(traces, unit[unseen], view.outward(x[unseen])))
    met = ~unseen
    met[unseen] = touched
    return unit[met], plane[met], x[met], sign[met]


@dataclass(frozen=True)
class _View:
    """Traces in coordinates in which the box is [-1, 1]."""

    traces: Traces
    middle: np.ndarray
    half: np.ndarray

    @property
    def planes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of length one, their offsets, and their lengths before."""
        planes = self.traces.planes
        rows = planes.normals * self.half
        length = np.linalg.norm(rows, axis=1)
        return rows / length[:, None], planes.heights(self.middle[None])[0] / length, length

    def inward(self, x: np.ndarray) -> np.ndarray:
        return (x - self.middle) / self.half

    def outward(self, t: np.ndarray) -> np.ndarray:
        return self.middle + t * self.half

    def begin(self, unit: np.ndarray, t: np.ndarray) -> Climb:
        """Climbs within what each unit's trace knows."""
        rows, offsets, _ = self.planes
        climb, n = Climb.begin(rows, offsets, t), len(rows)
        unknown = ~self.traces.known[unit]
        climb.sign[:, :n] = np.where(unknown, self.traces.sides[unit], climb.sign[:, :n])
        climb.counts[:, :n] = unknown
        return climb

    def touch(self, unit: np.ndarray, plane: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Towards the plane from ``t``: the points reached, and on which the plane is."""
        rows, offsets, _ = self.planes
        climb = self.begin(unit, t)
        climb.slope = -self.traces.sides[unit, plane][:, None] * rows[plane]
        t = climb.run(t, until=plane)
        away = np.abs(np.einsum("qd,qd->q", t, rows[plane]) + offsets[plane])
        return t, away < NEAR

    def corner(self, unit: np.ndarray, plane: np.ndarray, t: np.ndarray, way: np.ndarray) -> np.ndarray:
        """Along the plane from ``t`` as far as may be in the directions ``way``."""
        climb = self.begin(unit, t)
        climb.fixed, climb.slope = plane, way
        return climb.run(t)

    def extreme(self, unit: np.ndarray, plane: np.ndarray, t: np.ndarray, goal: float) -> np.ndarray:
        """Along the plane from ``t``, up (1) or down (-1) the units."""
        climb = self.begin(unit, t)
        climb.fixed = plane
        climb.rise(*self._value(unit, np.full(len(unit), goal)))
        return climb.run(t)

    def beyond(
        self, unit: np.ndarray, plane: np.ndarray, t: np.ndarray, goal: np.ndarray, bend: np.ndarray
    ) -> np.ndarray:
        """Beyond the plane, up (1) or down (-1) the units, if these bend by so much there."""
        climb, (rows, _, length) = self.begin(unit, t), self.planes
        away = -self.traces.sides[unit, plane]
        climb.sign[np.arange(len(unit)), plane] = away
        climb.rise(*self._value(unit, goal))
        climb.slope += (away * bend * length[plane])[:, None] * rows[plane]
        return climb.run(t)

    def _value(self, unit: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The units, or what is less the higher they are, as climbs take them."""
        linear = goal[:, None] * self.traces.gamma[unit, :-1] * self.half
        return linear, goal[:, None] * self.traces.beta[unit] * self.planes[2]
