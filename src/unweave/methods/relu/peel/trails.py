"""Traces with what is seen along them: rays within their facets, on which a unit goes straight on until a known border.

A unit of the layer in question bends at known units only. A facet that ends between known borders is one of a unit
farther above, or the unit does not show beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.tracks import is_dark
from unweave.methods.relu.deep.walk import Meetings, wander
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.looks import Looks, look

FAR, NEAR = 0.9, np.array([0.0, 0.5])
"""Where on its way to the next border a ray is looked at, and where if it is not seen there."""
WIDTH, CLEAR = 1e-3, 0.1
"""Widths of looks, relative to the domain, and to the distance of the next known border."""
PLACE = 1e-9
"""A kink closer than this to where it is expected, relative to the domain, is there."""
MOST_LEARNT = 400
"""Places of a zero set from which its row is sharpened."""


@dataclass
class Trail:
    """A trace and its rays."""

    trace: Trace
    rays: int = 0
    dark: int = 0
    """Places at which it should show, and did not."""
    ends: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    """Of rays that end: the last place seen, the first not seen, and the facet's normal."""
    learnt: int = 0
    done: bool = False

    @property
    def share(self) -> float:
        """Of rays that end."""
        return len(self.ends) / max(self.rays, 1)


@dataclass
class Region:
    """The box in which zero sets are followed, and what is asked there."""

    inquiry: Inquiry
    low: np.ndarray
    high: np.ndarray
    rng: np.random.Generator

    @property
    def scale(self) -> float:
        return float(np.max(self.high - self.low))

    def walls(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """How far along ``v`` the box goes on."""
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(v > 0, (self.high - x) / v, np.where(v < 0, (self.low - x) / v, np.inf))
        return np.maximum(np.min(far, axis=1), 0.0)

    def room(self, x: np.ndarray) -> np.ndarray:
        return np.minimum(x - self.low, self.high - x).min(axis=1)


def borders(features: Known | Lifted, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, units) of all known units, and their gradients (n, units, d)."""
    zs, gs = features.gradients(x)
    if not zs:
        return np.zeros((len(x), 0)), np.zeros((len(x), 0, x.shape[1]))
    return np.concatenate(zs, axis=1), np.concatenate(gs, axis=1)


def count_borders(features: Known | Lifted) -> int:
    """How many units are known."""
    return borders(features, np.zeros((1, features.input_size)))[0].shape[1]


def clearance(features: Known | Lifted, x: np.ndarray) -> np.ndarray:
    """Distance to the nearest border, in first order."""
    z, g = borders(features, x)
    size = np.linalg.norm(g, axis=2)
    apart = np.where(size > 1e-12, np.abs(z) / np.maximum(size, 1e-300), np.inf)
    return apart.min(axis=1, initial=np.inf)


def facets(features: Known | Lifted, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Gradients at ``x`` of units with these rows."""
    return np.einsum("np,npd->nd", rows[:, :-1], features.jacobian(x)[1])


def stroll(
    region: Region,
    features: Known | Lifted,
    traces: list[Trace],
    owner: np.ndarray,
    x: np.ndarray,
    steps: int,
) -> Meetings:
    """Move particles on the zero sets (``deep.walk``), in place; those that end where a trace is not known go back."""
    start = x.copy()
    meetings = wander(features, traces, owner, x, region.low, region.high, region.rng, steps)
    lost = _strays(features, traces, owner, x)
    x[lost] = start[lost]
    return meetings.take(np.flatnonzero(~_strays(features, traces, meetings.trace, meetings.x)))


def _strays(features: Known | Lifted, traces: list[Trace], owner: np.ndarray, x: np.ndarray) -> np.ndarray:
    extended = np.hstack([features.features(x), np.ones((len(x), 1))])
    found = np.zeros(len(x), dtype=bool)
    for j in np.unique(owner):
        mine = np.flatnonzero(owner == j)
        found[mine] = is_dark(traces[j], extended[mine])
    return found


def draw_along(normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random directions within facets."""
    size = np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    normal, v = normal / size, rng.standard_normal(normal.shape)
    for _ in range(2):
        v -= np.sum(v * normal, axis=1, keepdims=True) * normal
        v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300)
    return v


def shoot(region: Region, features: Known | Lifted, trails: list[Trail], owner, x, v=None) -> np.ndarray:
    """Rays from the places ``x`` of the trails ``owner``; what is seen is noted. The rays' ends that were seen.

    A facet is flat up to the next known border: only where its far end is not seen is the way there looked at.
    """
    rows = np.array([trail.trace.row for trail in trails])[owner]
    normal = facets(features, rows, x)
    v = draw_along(normal, region.rng) if v is None else v
    z, g = borders(features, x)
    speed = np.einsum("nbd,nd->nb", g, v)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(speed * z < 0, -z / speed, np.inf).min(axis=1, initial=np.inf)
    way = np.minimum(times, region.walls(x, v))
    far = x + (FAR * way)[:, None] * v
    hit, gone = watch(region, features, trails, owner, far)
    lost = np.flatnonzero(~hit)
    near = x[lost] + (NEAR[:, None] * way[lost])[:, :, None] * v[lost]
    t = len(NEAR)
    seen, not_seen = (
        part.reshape(t, len(lost))
        for part in watch(
            region, features, trails, np.tile(owner[lost], t), near.reshape(t * len(lost), x.shape[1])
        )
    )
    ends = np.where(hit[:, None], far, x)
    for i in np.flatnonzero(hit):
        trails[owner[i]].rays += 1
    for place, i in enumerate(lost):
        trail = trails[owner[i]]
        if not seen[0, place]:
            trail.dark += bool(not_seen[0, place])
            continue
        trail.rays += 1
        steps = [
            *zip(near[:, place], seen[:, place], not_seen[:, place], strict=True),
            (far[i], False, gone[i]),
        ]
        for there, is_seen, is_gone in steps[1:]:
            if is_gone:
                trail.ends.append((ends[i], there, normal[i]))
                break
            if is_seen:
                ends[i] = there
    return ends


def watch(region: Region, features, trails: list[Trail], owner, x) -> tuple[np.ndarray, np.ndarray]:
    """Whether the trails are seen at the places, and whether they are surely not; rows are sharpened where they are."""
    rows = np.array([trail.trace.row for trail in trails])[owner]
    normal = facets(features, rows, x)
    size = np.maximum(np.linalg.norm(normal, axis=1), 1e-300)
    across = normal / size[:, None]
    width = np.minimum(WIDTH * region.scale, CLEAR * np.minimum(clearance(features, x), region.room(x)))
    use = np.flatnonzero(width > 1e-8 * region.scale)
    hit, gone = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
    seen = look(region.inquiry, x[use], across[use], width[use])
    extended = np.hstack([features.features(x), np.ones((len(x), 1))])
    spread = np.zeros(len(x))
    for j in np.unique(owner):
        mine = np.flatnonzero(owner == j)
        spread[mine] = trails[j].trace.spread(extended[mine]) / size[mine]
    off = SAFETY * seen.error + 5 * spread[use] + PLACE * region.scale
    near = seen.bent & (np.abs(seen.shift) <= off)
    hit[use] = near
    gone[use] = seen.straight | (seen.bent & ~near)
    _learn(features, trails, owner, x, across, use[near], keep(seen, near), size)
    return hit, gone


def keep(seen: Looks, rows: np.ndarray) -> Looks:
    return Looks(*(part[rows] for part in (seen.bent, seen.straight, seen.shift, seen.error, seen.jump)))


def _learn(features, trails: list[Trail], owner, x, across, rows, seen: Looks, size) -> None:
    """Sharpen the traces by where they were seen."""
    if not len(rows):
        return
    there = x[rows] + seen.shift[:, None] * across[rows]
    extended = np.hstack([features.features(there), np.ones((len(there), 1))])
    for i, row in enumerate(rows):
        trail = trails[owner[row]]
        if trail.learnt < MOST_LEARNT:
            trail.learnt += 1
            trail.trace.system = np.vstack([trail.trace.system, extended[i]])
            error = (seen.error[i] + 1e-15 * (1 + np.linalg.norm(there[i]))) * size[row]
            trail.trace.errors = np.append(trail.trace.errors, error)
