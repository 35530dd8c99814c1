"""A sum of ridges: an affine function plus one bend across each of a set of hyperplanes.

``f(x) = gradient x + constant + sum_i jumps_i |n_i . x + b_i| / 2`` is what a network with one hidden layer of
(leaky) relu units looks like to an observer: which side of its plane a unit is active on only shows in the affine
part. Bends add up, so a wrong ridge is corrected by adding the bends of what the sum does not explain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.probes.cells import Pieces, measure_pieces
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.planes import Planes, jump_planes


@dataclass(frozen=True)
class RidgeSum:
    """An affine function and the planes across which its gradient jumps."""

    planes: Planes
    gradient: np.ndarray
    constant: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        heights = np.abs(x @ self.planes.normals.T + self.planes.offsets)
        return x @ self.gradient.T + self.constant + heights @ (self.planes.jumps / 2)

    @property
    def bends(self) -> np.ndarray:
        """Each plane's jump of the gradient, (m, k, d)."""
        return self.planes.jumps[:, :, None] * self.planes.normals[:, None, :]

    def error(self, x: np.ndarray) -> np.ndarray:
        """The error to expect of the sum at the rows of ``x``, from the errors of its planes."""
        size = self.planes.errors * np.max(np.abs(self.planes.normals), axis=1, initial=0.0)
        slopes = np.linalg.norm(self.planes.jumps, axis=1) * size
        near = np.linalg.norm(slopes * (1 + np.linalg.norm(self.planes.points, axis=1)))
        return near + np.linalg.norm(slopes) * np.linalg.norm(x, axis=1)


def fit_affine_part(planes: Planes, pieces: Pieces) -> RidgeSum:
    """The ridge sum with these planes whose affine part agrees with the best-measured of ``pieces``."""
    k, d = pieces.gradients.shape[1:]
    rank = pieces.errors * (1 + np.linalg.norm(pieces.centres, axis=1))
    best = int(np.argmin(np.where(pieces.valid, rank, np.inf)))
    centre = pieces.centres[best]
    bare = RidgeSum(planes, np.zeros((k, d)), np.zeros(k))
    sides = np.sign(planes.normals @ centre + planes.offsets)
    gradient = pieces.gradients[best] - np.einsum("m,mkd->kd", sides / 2, bare.bends)
    constant = pieces.values[best] - gradient @ centre - bare(centre[None])[0]
    return replace(bare, gradient=gradient, constant=constant)


def add_planes(planes: Planes, more: Planes) -> Planes:
    """Both sets of bends; bends across the same plane are added, and what cancels is dropped."""
    for i in range(len(more)):
        one = more.take([i])
        same = same_plane(planes, one)
        if same is None:
            planes = planes.join(one)
            continue
        old, new = planes.jumps[same], one.jumps[0]
        total = old + new
        if np.linalg.norm(total) <= 1e-6 * max(np.linalg.norm(old), np.linalg.norm(new)):
            planes = planes.take(np.arange(len(planes)) != same)
            continue
        jumps = planes.jumps.copy()
        jumps[same] = total
        planes = replace(planes, jumps=jumps)
    return planes


def distinct_planes(planes: Planes) -> Planes:
    """Each plane once, in its best measurement."""
    kept: list[int] = []
    for i in np.argsort(plane_errors(planes)):
        if same_plane(planes.take(kept), planes.take([i])) is None:
            kept.append(int(i))
    return planes.take(kept)


def same_plane(planes: Planes, one: Planes) -> int | None:
    if not len(planes):
        return None
    tolerance = 1e-7 + SAFETY * (planes.errors + one.errors[0])
    reach = 1 + np.linalg.norm(planes.points, axis=1) + np.linalg.norm(one.points[0])
    for orientation in (1.0, -1.0):
        apart = np.max(np.abs(planes.normals - orientation * one.normals[0]), axis=1)
        shift = np.abs(planes.offsets - orientation * one.offsets[0])
        close = np.flatnonzero((apart <= tolerance) & (shift <= tolerance * reach))
        if len(close):
            return int(close[np.argmin(apart[close])])
    return None


def plane_errors(planes: Planes) -> np.ndarray:
    """Expected relative error of each plane's parameters, its offset included."""
    largest = np.max(np.abs(planes.normals), axis=1)
    far = np.linalg.norm(planes.points, axis=1) * largest / np.maximum(largest, np.abs(planes.offsets))
    return planes.errors * np.maximum(1.0, far)


def remeasure(
    inquiry: Inquiry, model: RidgeSum, which: np.ndarray, rng: np.random.Generator, num_candidates: int = 96
) -> tuple[Planes, Pieces]:
    """Measure the planes numbered ``which`` again, each where the other planes leave it most room."""
    planes = model.planes
    chosen, centres, steps = [], [], []
    for i in which:
        place = _roomy_place(inquiry, model, int(i), rng, num_candidates)
        if place is None:
            continue
        x, step, lift = place
        chosen.append(x)
        centres += [x - lift * planes.normals[i], x + lift * planes.normals[i]]
        steps += [step, step]
    pieces = measure_pieces(inquiry, np.array(centres).reshape(-1, inquiry.input_size), np.array(steps), rng)
    left = np.arange(0, len(centres), 2)
    return jump_planes(pieces, left, left + 1, np.array(chosen).reshape(len(left), -1)), pieces


def _roomy_place(inquiry: Inquiry, model: RidgeSum, i: int, rng, num_candidates: int):
    """A point on plane ``i``, a step and a height above the plane that keep clear of all other planes."""
    planes, d = model.planes, inquiry.input_size
    num_candidates = max(24, num_candidates * 100 // (100 + d))
    normal, offset = planes.normals[i], planes.offsets[i]
    x = inquiry.meter.domain.sample(num_candidates, d, rng)
    if np.isinf(inquiry.meter.domain.reach(d)):
        typical = np.median(np.abs(planes.offsets)) * np.sqrt(d) + 1.0
        radii = typical * 10 ** rng.uniform(-1, 1.5, size=(num_candidates, 1))
        x = radii * rng.standard_normal((num_candidates, d)) / np.sqrt(d)
    x = x - np.outer(x @ normal + offset, normal)
    x = x[inquiry.meter.domain.contains(x)]
    if not len(x):
        return None
    others = np.arange(len(planes)) != i
    heights = np.abs(x @ planes.normals[others].T + planes.offsets[others])
    largest = np.max(np.abs(planes.normals[others]), axis=1)
    own = np.max(np.abs(normal))
    lift = 2 * own + 4 / np.sqrt(d)
    spread = 6 / np.sqrt(d)
    room = np.min(heights / (1.2 * (lift + largest + spread)), axis=1, initial=np.inf)
    room = np.minimum(room, 1 + np.linalg.norm(x, axis=1))
    for _ in range(40):
        reach = (lift + 3) * room[:, None] * normal
        outside = ~(inquiry.meter.domain.contains(x + reach) & inquiry.meter.domain.contains(x - reach))
        if not outside.any():
            break
        room = np.where(outside, room / 2, room)
    bars = inquiry.bars(x, model(x))
    far = np.linalg.norm(x, axis=1) * own / max(own, abs(offset))
    error = bars / np.maximum(room, 1e-300) * np.maximum(1.0, far)
    best = int(np.argmin(error))
    return x[best], room[best], lift * room[best]


def roomy_height(
    inquiry: Inquiry, planes: Planes, i: int, rng: np.random.Generator
) -> tuple[np.ndarray, float] | None:
    """A point on plane ``i`` and the height above it that keeps clear of the other planes, twice over."""
    k, d = planes.jumps.shape[1], planes.normals.shape[1]
    place = _roomy_place(inquiry, RidgeSum(planes, np.zeros((k, d)), np.zeros(k)), i, rng, 48)
    return None if place is None else (place[0], place[2] / 3)
