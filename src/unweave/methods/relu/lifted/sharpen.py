"""Planes of the first layer to the accuracy of the answers, from places of each that lie far apart.

Across a plane, where nothing else bends near by, two questions on either side give two straight lines and their
meeting point, and a fifth whether they do meet there. As many such places as the plane has unknowns, spread over the
domain, fix it better than the facets of the small cells in which it was first seen.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.faces import points_on
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.probes.inquiry import Inquiry

HOLDING = 0.6
"""Share of the places with a bend at which a plane must bend itself."""
BENDING = 0.7
"""The same of the places where a bend would stand out, for rough answers, which show slight bends of a facet less."""
LEAST, STRICT = 2, 0.9
"""Such places that a new plane must have; one without any votes (``shares`` 0) bends nearly everywhere."""
PLAIN = 0.005
"""Error of a jump, relative to those elsewhere on the plane, below which a place without one speaks against it."""
PLACES = 60
"""Places on a plane among which the roomiest are asked at."""


def sharpen_planes(
    inquiry: Inquiry,
    planes: Planes,
    numbers: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Planes, np.ndarray]:
    """The planes, the numbered ones fitted again to d + 3 places each, and which of all hold there.

    A facet of a deeper unit that looks like a plane bends somewhat, and then the answers do beside the plane.
    """
    n, d = planes.normals.shape
    which, x = [], []
    for i in numbers:
        places = spread_places(planes, i, low, high, rng, max(d + 3, 9) if inquiry.coarse else d + 3)
        which.append(np.full(len(places), i))
        x.append(places)
    which, x = np.concatenate(which), np.concatenate(x)
    if not len(which):
        return planes, ~np.isin(np.arange(n), numbers)
    heights = np.abs(planes.heights(x))
    heights[np.arange(len(x)), which] = np.inf
    room = np.minimum(heights.min(axis=1), np.minimum(x - low, high - x).min(axis=1))
    blur = planes.deviations(x)[np.arange(len(x)), which]
    step = 0.25 * room
    usable = 40 * blur < step
    which, x, step, blur = which[usable], x[usable], step[usable], blur[usable]
    normal = planes.normals[which]
    good, shift, error = np.zeros(len(x), dtype=bool), np.zeros(len(x)), np.full(len(x), np.inf)
    seen, jump, clear = good.copy(), np.zeros(len(x)), np.full(len(x), np.inf)
    for _ in range(3):
        rows = np.flatnonzero(~good)
        if not len(rows):
            break
        good[rows], shift[rows], error[rows], jumps, bars = meet_lines(
            inquiry, x[rows], normal[rows], step[rows]
        )
        jump[rows] = np.linalg.norm(jumps, axis=1)
        clear[rows] = np.minimum(clear[rows], bars)
        seen |= good
        # another unit's bend may lie closer to the middle than the plane's own
        good &= np.abs(shift) <= DEVIATIONS * (blur + error)
        step[~good] *= 0.2
    found = [
        _fit(planes, i, x[own], shift[own], error[own]) for i in range(n) for own in [(which == i) & good]
    ]
    normals, offsets, covariances = (np.array(parts) for parts in zip(*found, strict=True))
    num_good, num_seen = (np.bincount(which[rows], minlength=n) for rows in (good, seen))
    least = np.where(np.isin(np.arange(n), numbers), LEAST, 0)
    # where a bend as large as elsewhere on the plane would stand out, there must be one
    owns = [(which == i) & good for i in range(n)]
    typical = np.array([np.median(jump[own]) if own.any() else np.inf for own in owns])
    telling = np.bincount(which[good | (clear < PLAIN * typical[which])], minlength=n)
    holds = num_good >= np.maximum(HOLDING * num_seen, least)
    if inquiry.coarse:
        holds &= num_good > BENDING * telling - 1e-9
    unsure = planes.shares == 0
    holds[unsure] &= (num_good >= STRICT * np.bincount(which, minlength=n))[unsure] & (num_good >= 2 * LEAST)[
        unsure
    ]
    return Planes(normals, offsets, covariances, planes.shares), holds


def spread_places(
    planes: Planes, plane: int, low: np.ndarray, high: np.ndarray, rng: np.random.Generator, count: int
) -> np.ndarray:
    """Places of a plane inside a box: of many, roomy ones that lie apart."""
    x = points_on(planes, plane, low, high, rng, PLACES)
    if not len(x):
        return x
    others = np.abs(planes.heights(x))
    others[:, plane] = np.inf
    room = np.minimum(others.min(axis=1), np.minimum(x - low, high - x).min(axis=1))
    x, room = x[np.argsort(-room)], np.sort(room)[::-1]
    x = x[: max(count, int(np.sum(room > 0.2 * room[0])))]
    chosen = [0]
    apart = np.linalg.norm(x - x[0], axis=1)
    for _ in range(min(count, len(x)) - 1):
        chosen.append(int(np.argmax(apart)))
        apart = np.minimum(apart, np.linalg.norm(x - x[chosen[-1]], axis=1))
    return x[chosen]


def meet_lines(
    inquiry: Inquiry, x: np.ndarray, normal: np.ndarray, step: np.ndarray, roughest: float = 0.02
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Whether two straight lines meet near each place along its normal, where, and the jump of slope (n, k).

    Places and jumps with errors; those of places are to be below ``roughest`` of the step.
    """
    nearest, d = inquiry.meter.domain.nearest, x.shape[1]
    ticks = np.array([-1.0, -0.3, 0.3, 1.0])
    points = nearest((x + (ticks[:, None] * step)[:, :, None] * normal).reshape(-1, d))
    answers, bars = inquiry.ask(points)
    f, bar = answers.reshape(4, len(x), -1), bars.reshape(4, len(x)).max(axis=0)
    left, right = (f[1] - f[0]) / 0.7, (f[3] - f[2]) / 0.7
    jump = right - left
    size = np.einsum("nk,nk->n", jump, jump)
    gap = (f[1] + 0.3 * left) - (f[2] - 0.3 * right)
    where = np.clip(np.einsum("nk,nk->n", gap, jump) / np.maximum(size, 1e-300), -0.3, 0.3)
    error = 3 * bar / np.maximum(np.sqrt(size), 1e-300)
    # the corner itself: two kinks between would cut it off
    corner, _ = inquiry.ask(nearest(x + (where * step)[:, None] * normal))
    off = np.maximum(
        np.max(np.abs(f[1] + (where + 0.3)[:, None] * left - corner), axis=1),
        np.max(np.abs(f[2] + (where - 0.3)[:, None] * right - corner), axis=1),
    )
    good = (off <= DEVIATIONS * 2 * bar) & (np.abs(where) < 0.25) & (error < roughest)
    return good, where * step, error * step, jump / step[:, None], 3 * bar / step


def _fit(planes: Planes, i: int, x, shift, error):
    """The plane whose places lie ``shift`` along its normal from ``x``; what it was known to before counts as well."""
    normal, offset, prior = planes.normals[i], planes.offsets[i], planes.covariances[i]
    if not len(x):
        return normal, offset, prior
    extended = np.hstack([x + shift[:, None] * normal, np.ones((len(x), 1))])
    sigma = error + 1e-16 * (1 + np.linalg.norm(x, axis=1))
    start = np.append(normal, offset)
    # units in which what is asked for is of order one
    values, vectors = np.linalg.eigh(prior)
    root = vectors * np.sqrt(np.maximum(values, (1e-17 * np.linalg.norm(start)) ** 2))
    a, b = extended @ root / sigma[:, None], -(extended @ start) / sigma
    weight = np.ones(len(b))
    step = np.zeros(a.shape[1])
    system = np.zeros(0)
    for _ in range(4):
        system = np.vstack([a * weight[:, None], np.eye(a.shape[1])])
        step = np.linalg.lstsq(system, np.append(b * weight, np.zeros(a.shape[1])), rcond=None)[0]
        misses = np.abs(a @ step - b)
        weight = np.where(misses > DEVIATIONS, 1e-3, 1.0)
    found = start + root @ step
    inverse = np.linalg.pinv(system)
    covariance = root @ (inverse @ inverse.T) @ root.T
    length = np.linalg.norm(found[:-1])
    return found[:-1] / length, float(found[-1] / length), covariance
