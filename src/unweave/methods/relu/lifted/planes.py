"""The hyperplanes of the first hidden layer, by the votes of random lines.

The facet at a kink is a candidate. A unit of the first layer bends the answers wherever a line crosses its plane; a
facet of a deeper unit ends at the next plane of the first layer. So the candidate is kept that finds a kink where it
predicts one on most random lines, to the error bars of both, and it is fitted again to all its kinks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.columns import Columns
from unweave.core.domains import Box
from unweave.methods.relu.lifted.facets import facet_plane, pool_facets, spread_over
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings

LUCK = 1e-6
"""Chance of hits by accident below which they are none."""
SEPARATED = 6
"""Known planes between the kinks of a plane that show it does not bend at them."""
SHARE, ROUGH_SHARE, LEAST = 0.8, 0.6, 4
"""A plane must explain this share of the lines that cross it, exact answers or rough, and so many of them."""


CLEAR, CROWDED = 0.02, 0.15
"""How well a plane must be known where a line crosses it, relative to the distance of kinks: for one line to tell, and
for many to vote."""
FEW = 5
"""Lines that must be able to tell whether a facet is part of a plane."""


@dataclass(frozen=True)
class Planes(Columns):
    """``normals . x + offsets = 0``, each with the covariance of (normal, offset)."""

    normals: np.ndarray
    offsets: np.ndarray
    covariances: np.ndarray
    shares: np.ndarray

    def heights(self, x: np.ndarray) -> np.ndarray:
        return x @ self.normals.T + self.offsets

    def deviations(self, x: np.ndarray) -> np.ndarray:
        """Standard errors (n, m) of the heights."""
        return (
            np.stack([spread_over(x, c) for c in self.covariances], axis=1)
            if len(self)
            else np.zeros((len(x), 0))
        )

    @staticmethod
    def none(d: int) -> Planes:
        return Planes(np.zeros((0, d)), np.zeros(0), np.zeros((0, d + 1, d + 1)), np.zeros(0))


@dataclass(frozen=True)
class _Candidate:
    normal: np.ndarray
    offset: float
    covariance: np.ndarray
    kinks: np.ndarray
    """Kinks it explains."""
    seen: int
    hits: int


def find_planes(sightings: Sightings, planes: Planes, *, max_lines: int = 12, quiet: int = 2) -> Planes:
    """Measure the unexplained kinks of line after line until ``quiet`` of them in a row show no new plane."""
    assert sightings.fair is not None
    silent, num_old = 0, len(planes)
    for line in np.flatnonzero(sightings.fair)[:max_lines]:
        fresh = np.flatnonzero((sightings.line == line) & ~sightings.tried)
        fresh = fresh[~explained(sightings, planes)[fresh]]
        if not len(fresh):
            continue
        sightings.measure(fresh)
        grown = add_planes(sightings, planes, fresh)
        silent = silent + 1 if len(grown) == len(planes) else 0
        planes = grown
        if silent >= quiet:
            break
    return drop_facets(sightings, planes, num_old)


def sharpen_by_kinks(sightings: Sightings, planes: Planes, first: int, num_passes: int = 3) -> Planes:
    """The planes, each fitted to those of the kinks from number ``first`` on that it explains, as well as before."""
    normals, offsets, covariances = planes.normals.copy(), planes.offsets.copy(), planes.covariances.copy()
    everywhere = np.ones(len(sightings.scans), dtype=bool)
    for i in range(len(planes)):
        used = np.zeros(0, dtype=int)
        for turn in range(num_passes):  # what is known better is told from other kinks on more lines
            crowded = CROWDED if turn else CLEAR
            kinks, *_ = _vote(sightings, normals[i], offsets[i], covariances[i], everywhere, crowded)
            kinks = np.setdiff1d(kinks[kinks >= first], used)
            if not len(kinks):
                break
            normals[i], offsets[i], covariances[i] = _refit(
                sightings, normals[i], float(offsets[i]), covariances[i], kinks
            )
            used = np.union1d(used, kinks)
    return Planes(normals, offsets, covariances, planes.shares)


def outvoted(sightings: Sightings, planes: Planes) -> np.ndarray:
    """Which planes most random lines cross without a kink: facets of deeper units, seen on few lines before."""
    found = np.zeros(len(planes), dtype=bool)
    for i in range(len(planes)):
        vote = _vote(
            sightings, planes.normals[i], float(planes.offsets[i]), planes.covariances[i], crowded=CROWDED
        )
        found[i] = vote[1] >= 2 * FEW and vote[2] < ROUGH_SHARE * vote[1]
    return found


def drop_facets(sightings: Sightings, planes: Planes, num_old: int) -> Planes:
    """Without those from ``num_old`` on whose kinks no other planes separate: they may be long facets of deeper units.

    What is dropped is followed like such a unit, and comes back as a plane if nothing bends it.
    """
    while len(planes) > num_old:
        between = np.full(len(planes), len(planes))
        for i in range(num_old, len(planes)):
            own = explained(sightings, planes.take([i]))
            between[i] = _between(planes.take(np.arange(len(planes)) != i), sightings.x[own])
        worst = int(np.argmin(between))
        if between[worst] >= min(SEPARATED, max(1, len(planes) // 4)):
            break
        planes = planes.take(np.arange(len(planes)) != worst)
    return planes


def add_planes(sightings: Sightings, planes: Planes, kinks: np.ndarray) -> Planes:
    """The planes with those of the numbered kinks' facets that the lines confirm."""
    kinks = kinks[sightings.measured[kinks]]
    order = np.argsort(sightings.facet_error[kinks] / np.maximum(sightings.size[kinks], 1e-300))
    done = explained(sightings, planes)
    bounded = not np.isinf(sightings.inquiry.meter.domain.reach(sightings.inquiry.input_size))
    for m in kinks[order]:
        sightings.inquiry.meter.check_time()
        if done[m]:
            continue
        one, told = _confirm(sightings, int(m), planes)
        if one is None and not told and bounded:
            one = _probe(sightings, int(m), planes)
        if one is None or np.mean(done[one.kinks]) > 0.4:
            continue
        share = one.hits / max(one.seen, 1)
        planes = Planes(
            np.vstack([planes.normals, one.normal]),
            np.append(planes.offsets, one.offset),
            np.concatenate([planes.covariances, one.covariance[None]]),
            np.append(planes.shares, share),
        )
        done |= explained(sightings, planes.take([-1]))
    return planes


def explained(sightings: Sightings, planes: Planes) -> np.ndarray:
    """Which kinks lie on one of the planes, to the error bars of both."""
    if not len(planes) or not len(sightings):
        return np.zeros(len(sightings), dtype=bool)
    heights = np.abs(planes.heights(sightings.x))
    rates = np.abs(sightings.across @ planes.normals.T)
    allowed = DEVIATIONS * (planes.deviations(sightings.x) + sightings.error[:, None] * rates)
    return np.any(heights <= allowed + 1e-12 * (1 + np.abs(planes.offsets)), axis=1)


def _confirm(sightings: Sightings, m: int, planes: Planes) -> tuple[_Candidate | None, bool]:
    """The plane behind kink ``m``, fitted to all kinks it explains on random lines, if it explains enough of them.

    And whether enough lines cross it to tell.
    """
    normal, offset, prior = facet_plane(sightings, m)
    if sightings.inquiry.coarse and _vote(sightings, normal, offset, prior)[1] < FEW:
        normal, offset, prior = pool_facets(sightings, m)
    covariance, kinks, seen, hits, luck = prior, np.zeros(0, dtype=int), 0, 0, None
    for _ in range(5):
        kinks, seen, hits, chance = _vote(sightings, normal, offset, covariance)
        luck = chance if luck is None else luck  # as the facet alone would have it
        if hits < 2:
            break
        normal, offset, covariance = _refit(sightings, normal, offset, prior, kinks)
    share = ROUGH_SHARE if sightings.inquiry.coarse else SHARE
    assert luck is not None
    if min(luck, 1.0) ** max(hits - 1, 0) < LUCK and _between(planes, sightings.x[kinks]) >= SEPARATED:
        return _Candidate(normal, offset, covariance, kinks, seen, hits), True
    if seen < FEW and hits >= share * seen - 1:
        return None, False
    if seen < FEW or hits < max(share * seen, LEAST):
        return None, True
    return _Candidate(normal, offset, covariance, kinks, seen, hits), True


def _between(planes: Planes, x: np.ndarray) -> int:
    """How many planes lie between some of the points: a facet of a deeper unit does not go on beyond the next one."""
    sides = planes.heights(x) > 0
    return int(np.sum(np.any(sides, axis=0) & ~np.all(sides, axis=0)))


def _probe(sightings: Sightings, m: int, planes: Planes, num_probes: int = 6) -> _Candidate | None:
    """The plane behind kink ``m`` if the answers bend at most of a few random places on it."""
    inquiry, rng = sightings.inquiry, sightings.rng
    normal, offset, covariance = facet_plane(sightings, m)
    places = _places(inquiry.meter.domain, normal, offset, rng, num_probes)
    if len(places) < num_probes:
        return None
    bars = inquiry.bars(places, np.zeros((len(places), 1)))
    step = np.maximum(2 * DEVIATIONS * spread_over(places, covariance), 60 * bars / sightings.size[m])
    if np.any(step > 0.01 * np.linalg.norm(places - sightings.x[m], axis=1)):
        return None
    points = np.concatenate([places, places + step[:, None] * normal, places - step[:, None] * normal])
    if not np.all(inquiry.meter.domain.contains(points)):
        points = _into(inquiry.meter.domain, points)
    answers, bars = inquiry.ask(points)
    middle, above, below = np.split(answers, 3)
    along = np.split(inquiry.meter.snap(points), 3)
    up, down = (np.linalg.norm(p - along[0], axis=1) for p in along[1:])
    share = (down / np.maximum(up + down, 1e-300))[:, None]
    bend = np.max(np.abs(below + share * (above - below) - middle), axis=1)
    hit = bend > 1.5 * DEVIATIONS * np.max(np.split(bars, 3), axis=0)
    hits = int(np.sum(hit))
    if hits < num_probes - 1 or _between(planes, places[hit]) < SEPARATED:
        return None
    return _Candidate(normal, offset, covariance, np.array([m]), num_probes, hits)


def _places(domain, normal: np.ndarray, offset: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """Random points of the domain on a plane: where segments between its two sides cross it."""
    d = len(normal)
    points = np.concatenate([domain.sample(300, d, rng), domain.edge(300, d, rng)])
    if isinstance(domain, Box):
        low, high = np.broadcast_to(domain.low, d), np.broadcast_to(domain.high, d)
        loose = rng.uniform(size=(200, d)) < rng.uniform(0.05, 0.7, size=(200, 1))
        for side in (1.0, -1.0):
            corner = np.where(side * normal > 0, high, low)
            points = np.concatenate([points, np.where(loose, rng.uniform(low, high, size=(200, d)), corner)])
    heights = points @ normal + offset
    up, down = np.flatnonzero(heights > 0), np.flatnonzero(heights < 0)
    if not len(up) or not len(down):
        return np.zeros((0, d))
    a, b = rng.choice(up, size=count), rng.choice(down, size=count)
    share = heights[a] / (heights[a] - heights[b])
    return points[a] + share[:, None] * (points[b] - points[a])


def _into(domain, points: np.ndarray) -> np.ndarray:
    """Points moved back into a box that they left by a little."""
    if isinstance(domain, Box):
        return np.clip(points, domain.low, domain.high)
    return points * (1 - 1e-6)


def _vote(
    sightings: Sightings,
    normal,
    offset: float,
    covariance,
    fair: np.ndarray | None = None,
    crowded: float = CLEAR,
) -> tuple[np.ndarray, int, int, float]:
    """Kinks that the plane explains on random lines; how many lines could tell, how many do, and by luck."""
    lines, fair = sightings.lines, sightings.fair if fair is None else fair
    assert lines is not None
    assert fair is not None
    rates = lines.directions @ normal
    t = -(lines.origins @ normal + offset) / np.where(rates == 0, 1e-300, rates)
    within = fair & (t > lines.low) & (t < lines.high)
    kinks, seen, luck = [], 0, 0.0
    rows = np.flatnonzero(within)
    spread = spread_over(lines.points(rows, t[rows]), covariance) / np.maximum(np.abs(rates[rows]), 1e-12)
    starts = np.searchsorted(sightings.line, np.arange(len(lines) + 1))
    for line, deviation in zip(rows, spread, strict=True):
        mine = slice(starts[line], starts[line + 1])
        places = sightings.t[mine]
        slack = DEVIATIONS * deviation
        if slack > crowded * max(np.ptp(places) / max(len(places), 1) if len(places) > 1 else 1.0, 1e-12):
            continue
        gaps = sightings.scans[line].gaps
        if gaps is not None and np.any((gaps[:, 0] - slack <= t[line]) & (t[line] <= gaps[:, 1] + slack)):
            continue
        seen += 1
        if len(places):
            luck += (
                4
                * (slack + DEVIATIONS * float(np.median(sightings.error[mine])))
                / max(np.ptp(places) / len(places), 1e-300)
            )
            nearest = int(np.argmin(np.abs(places - t[line])))
            number = starts[line] + nearest
            if abs(places[nearest] - t[line]) <= slack + DEVIATIONS * sightings.error[number]:
                kinks.append(number)
    return np.array(kinks, dtype=int), seen, len(kinks), luck


def _refit(sightings: Sightings, normal, offset: float, prior, kinks):
    """Least squares for the plane: its kinks lie on it, to their error bars; its facet is one more witness."""
    x = np.hstack([sightings.x[kinks], np.ones((len(kinks), 1))])
    rates = np.abs(sightings.across[kinks] @ normal)
    sigma = sightings.error[kinks] * rates + 1e-14 * (1 + np.linalg.norm(sightings.x[kinks], axis=1))
    start = np.append(normal, offset)
    # gain form of the update: as many unknowns as kinks, not as inputs
    middle = prior @ x.T
    # far below what was known before the system would be singular
    sigma = np.maximum(sigma, 1e-6 * np.sqrt(np.maximum(np.einsum("nd,dn->n", x, middle), 0.0)))
    weight = np.ones(len(kinks))
    for turn in range(5):
        system = x @ middle + np.diag((sigma / weight) ** 2)
        change = middle @ np.linalg.solve(system, -(x @ start))
        misses = np.abs(x @ (start + change)) / sigma
        if turn == 3:  # kinks may be rougher than their bars say; what was known before is not
            sigma = sigma * max(1.0, float(np.median(misses)) / 0.67)
        weight = 1 / np.sqrt(np.maximum(1.0, misses / 4))
    covariance = prior - middle @ np.linalg.solve(system, middle.T)
    found = start + change
    length = np.linalg.norm(found[:-1])
    return found[:-1] / length, float(found[-1] / length), (covariance + covariance.T) / 2
