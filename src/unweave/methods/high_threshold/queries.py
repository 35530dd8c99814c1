"""The faces of a convex region from yes/no answers: bisection on rays and a plane through the crossings.

The region is an intersection of halfspaces with a known inner point (the complement of an OR of step units, say). A ray
from that point leaves the region once, through one face; bisection finds the crossing to rounding. Crossings of a few
rays close together give the plane of the face roughly; then rays spread as far over the face as it reaches give it to
rounding, each bisected inside the short bracket the rough plane predicts. Planes are checked on crossings that did not
determine them, so a curved boundary is noticed. A face costs ``80 d`` to ``110 d`` questions.

New faces are looked for on random rays, on rays that avoid the faces known so far, and at random points: two questions
tell whether a known face explains a ray.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.methods.high_threshold.union import Union

Inside = Callable[[np.ndarray], np.ndarray]
"""Which rows (n, d) lie in the region; every row is one question."""
FLAT = 1e-6
"""Relative distance of a check crossing from its plane above which the boundary counts as curved."""
SLACK = 2e-5
"""Relative distance from a rough plane within which it is crossed, several times its error."""
SPARE = 2
"""Crossings a face beyond the d that determine its plane."""


@dataclass
class Faces:
    """What was found so far, around ``centre``: ``normals.(x - centre) <= offsets``, with offsets positive."""

    centre: np.ndarray
    normals: np.ndarray
    offsets: np.ndarray
    errors: np.ndarray
    """Largest distance of a crossing from its plane, for each face, relative to the crossing's."""
    num_curved: int = 0
    """Places where the crossings did not lie on a plane."""
    notes: list[str] = field(default_factory=list)

    def union(self) -> Union:
        """The outside as a union of halfspaces in the original inputs."""
        return Union(self.normals, self.offsets + self.normals @ self.centre)

    def first_crossing(self, directions: np.ndarray) -> np.ndarray:
        """Distance along each ray to the nearest known face; infinite where there is none."""
        if not len(self.normals):
            return np.full(len(directions), np.inf)
        rates = directions @ self.normals.T
        with np.errstate(divide="ignore"):
            return np.min(np.where(rates > 0, self.offsets / rates, np.inf), axis=1)

    def add(self, normal: np.ndarray, offset: float, error: float) -> None:
        self.normals = np.vstack([self.normals, normal])
        self.offsets = np.append(self.offsets, offset)
        self.errors = np.append(self.errors, error)


def find_faces(
    inside: Inside,
    centre: np.ndarray,
    rng: np.random.Generator,
    *,
    reach: float = 1e3,
    max_faces: int | None = None,
    max_rounds: int = 12,
) -> Faces:
    """The faces of the region around ``centre`` within distance ``reach``; at most ``max_faces`` (10 d + 20)."""
    d = len(centre)
    most = 10 * d + 20 if max_faces is None else max_faces
    faces = Faces(centre, np.zeros((0, d)), np.zeros(0), np.zeros(0))
    probe = _Probe(inside, centre)
    quiet = 0
    for _ in range(max_rounds):
        rays = _unit(
            np.concatenate([rng.standard_normal((2 * d + 10, d)), _avoiding(faces, 2 * d + 10, rng)])
        )
        before = len(faces.normals)
        _explore(probe, faces, rays, reach, most, rng)
        quiet = quiet + 1 if len(faces.normals) == before else 0
        if quiet == 2 or len(faces.normals) >= most or faces.num_curved > 2 + len(faces.normals):
            break
    if len(faces.normals) >= most:
        faces.notes.append(f"the search ended at {most} faces; there may be more")
    return faces


@dataclass(frozen=True)
class _Probe:
    inside: Inside
    centre: np.ndarray

    def at(self, directions: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Which of the points at these distances along the rays are inside."""
        if not len(directions):
            return np.zeros(0, dtype=bool)
        return self.inside(self.centre + directions * distances[:, None])

    def bisect(self, directions, low, high, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Brackets (inside, outside) of the crossings, shrunk to a relative width of ``tolerance``."""
        low, high = low.copy(), high.copy()
        for _ in range(80):
            middle = (low + high) / 2
            wide = (high - low > tolerance * high) & (middle > low) & (middle < high)
            if not wide.any():
                break
            within = self.at(directions[wide], middle[wide])
            low[wide] = np.where(within, middle[wide], low[wide])
            high[wide] = np.where(within, high[wide], middle[wide])
        return low, high


def _explore(probe: _Probe, faces: Faces, rays: np.ndarray, reach: float, most: int, rng) -> None:
    """Faces behind the rays that no known face explains."""
    predicted = faces.first_crossing(rays)
    known = predicted < reach
    fits = np.ones(len(rays), dtype=bool)
    fits[known] = probe.at(rays[known], predicted[known] * (1 - 1e-5))
    clear = ~known
    clear[known] = False
    far = np.full(len(rays), reach)
    blocked = np.zeros(len(rays), dtype=bool)
    blocked[clear] = ~probe.at(rays[clear], far[clear])
    high = np.where(known, predicted, reach)
    waiting = np.flatnonzero((known & ~fits) | blocked)
    for i in waiting:
        if len(faces.normals) >= most or faces.num_curved > 2 + len(faces.normals):
            return
        ray = rays[i : i + 1]
        now = faces.first_crossing(ray)[0]
        if now < high[i] * (1 - 1e-5):
            if probe.at(ray, np.array([now * (1 - 1e-5)]))[0]:
                continue
            high[i] = now
        low, top = probe.bisect(ray, np.zeros(1), high[i : i + 1], 1e-7)
        found = _plane_at(probe, ray[0], float(low[0]), float(top[0]), rng)
        if found is None:
            faces.num_curved += 1
            continue
        faces.add(*found)


def _plane_at(
    probe: _Probe, ray: np.ndarray, low: float, high: float, rng
) -> tuple[np.ndarray, float, float] | None:
    """Normal, offset and error of the face a ray leaves through; None when the crossings fit no plane."""
    distance = (low + high) / 2
    tangents = np.linalg.svd(ray[None])[2][1:]
    for spread in (0.05, 0.01, 0.002):
        rays = _unit(ray + spread * np.vstack([tangents, _unit(rng.standard_normal((1, len(ray))))]))
        slack = min(20 * spread, 0.9) * distance * np.ones(len(rays))
        near, far = distance - slack, distance + slack
        if not probe.at(rays, near).all() or probe.at(rays, far).any():
            continue
        normal, offset = ray, distance
        # Rays that leave through another face are noticed before they are followed to the end.
        for tolerance, allowed in ((2e-3 * spread, 2e-2 * spread), (1e-7, 1e-4 * spread)):
            near, far = probe.bisect(rays, near, far, tolerance)
            crossings = (near + far) / 2
            normal, offset = _plane(np.vstack([distance * ray, rays[:-1] * crossings[:-1, None]]))
            if not abs(float(normal @ rays[-1] * crossings[-1]) - offset) < allowed * offset:
                break
        else:
            return _spread_out(probe, ray, normal, offset, rng)
    return None


def _spread_out(probe: _Probe, ray, normal, offset, rng) -> tuple[np.ndarray, float, float] | None:
    """The plane to rounding, from crossings spread over the face; the last of them check the others."""
    d = len(ray)
    base = ray * (offset / float(ray @ normal))
    sides = _unit(_tangent(rng.standard_normal((d - 1 + SPARE, d)), normal))
    sides = np.vstack([np.zeros(d), sides])
    sizes = np.full(len(sides), float(np.linalg.norm(base)))
    settled = np.zeros(len(sides), dtype=bool)
    targets = base + sizes[:, None] * sides
    for _ in range(8):
        targets = base + sizes[:, None] * sides
        lengths = np.linalg.norm(targets, axis=1)
        open_ = np.flatnonzero(~settled)
        rays = targets[open_] / lengths[open_, None]
        good = probe.at(rays, lengths[open_] * (1 - SLACK))
        good[good] = ~probe.at(rays[good], lengths[open_][good] * (1 + SLACK))
        settled[open_[good]] = True
        if settled.all():
            break
        sizes[~settled] /= 2.5
    if not settled[0] or settled.sum() <= d:
        return None
    lengths = np.linalg.norm(targets[settled], axis=1)
    rays = targets[settled] / lengths[:, None]
    low, high, points = lengths * (1 - SLACK), lengths * (1 + SLACK), targets[settled]
    for tolerance in (1e-3 * FLAT, 1e-16):
        low, high = probe.bisect(rays, low, high, tolerance)
        points = rays * ((low + high) / 2)[:, None]
        if np.linalg.cond(points[:d]) > 1e8:
            return None
        rough_normal, rough_offset = _plane(points[:d])
        if np.max(np.abs(points @ rough_normal - rough_offset)) > FLAT * rough_offset:
            return None
    normal, offset = _plane(points)
    return normal, offset, float(np.max(np.abs(points @ normal - offset)) / offset)


def _plane(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The least-squares plane ``normal.p = offset`` off the origin, with offset positive."""
    solution = np.linalg.lstsq(points, np.ones(len(points)), rcond=None)[0]
    length = float(np.linalg.norm(solution))
    return solution / length, 1 / length


def _avoiding(faces: Faces, count: int, rng) -> np.ndarray:
    """Directions that leave through no known face soon: random ones pushed back from the normals they point along."""
    rays = rng.standard_normal((count, len(faces.centre)))
    if not len(faces.normals):
        return rays
    for _ in range(30):
        ahead = np.maximum(rays @ faces.normals.T, 0.0)
        if not ahead.any():
            break
        rays = rays - ahead @ faces.normals / max(len(faces.normals) ** 0.5, 1.0)
    return rays + 1e-3 * rng.standard_normal(rays.shape)


def _tangent(vectors: np.ndarray, normal: np.ndarray) -> np.ndarray:
    return vectors - np.outer(vectors @ normal, normal)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
