"""The hyperplanes of the first hidden layer, by the votes of random lines.

The facet at a kink is a candidate. A unit of the first layer bends the answers wherever a line crosses its plane; a
facet of a deeper unit ends at the next plane of the first layer. So the candidate is kept that finds a kink where it
predicts one on most random lines, to the error bars of both, and it is fitted again to all its kinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings

SHARE, ROUGH_SHARE, LEAST = 0.8, 0.6, 4
"""A plane must explain this share of the lines that cross it, exact answers or rough, and so many of them."""


@dataclass(frozen=True)
class Planes:
    """``normals . x + offsets = 0``, each with the covariance of (normal, offset)."""

    normals: np.ndarray
    offsets: np.ndarray
    covariances: np.ndarray
    shares: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    def heights(self, x: np.ndarray) -> np.ndarray:
        return x @ self.normals.T + self.offsets

    def deviations(self, x: np.ndarray) -> np.ndarray:
        """Standard errors (n, m) of the heights."""
        return (
            np.stack([_spread(x, c) for c in self.covariances], axis=1)
            if len(self)
            else np.zeros((len(x), 0))
        )

    def take(self, rows) -> Planes:
        return Planes(self.normals[rows], self.offsets[rows], self.covariances[rows], self.shares[rows])

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
    silent = 0
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
    return planes


def add_planes(sightings: Sightings, planes: Planes, kinks: np.ndarray) -> Planes:
    """The planes with those of the numbered kinks' facets that the lines confirm."""
    kinks = kinks[sightings.measured[kinks]]
    order = np.argsort(sightings.facet_error[kinks] / np.maximum(sightings.size[kinks], 1e-300))
    done = explained(sightings, planes)
    for m in kinks[order]:
        if done[m]:
            continue
        one = _confirm(sightings, int(m))
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


def _confirm(sightings: Sightings, m: int) -> _Candidate | None:
    """The plane behind kink ``m``, fitted to all kinks it explains on random lines, if it explains enough of them."""
    d = sightings.x.shape[1]
    size = sightings.size[m]
    normal, offset = sightings.facet[m, :-1] / size, sightings.facet[m, -1] / size
    spread = sightings.facet_error[m] / size
    here = np.append(sightings.x[m], 1.0)
    # the plane passes through its kink: deviations grow with the distance from it
    project = np.eye(d + 1)
    project[-1, :] = -here
    project[-1, -1] = 0.0
    prior = spread**2 * project @ project.T
    prior[-1, -1] += (sightings.error[m] * abs(sightings.across[m] @ normal)) ** 2
    covariance = prior
    candidate = None
    for _ in range(4):
        kinks, seen, hits = _vote(sightings, normal, offset, covariance)
        if hits < min(3, LEAST):
            return None
        normal, offset, covariance = _refit(sightings, normal, offset, prior, kinks)
        candidate = _Candidate(normal, offset, covariance, kinks, seen, hits)
    assert candidate is not None
    kinks, seen, hits = _vote(sightings, normal, offset, covariance)
    share = ROUGH_SHARE if sightings.inquiry.coarse else SHARE
    if seen < 5 or hits < max(share * seen, LEAST):
        return None
    return replace(candidate, kinks=kinks, seen=seen, hits=hits)


def _vote(sightings: Sightings, normal, offset: float, covariance) -> tuple[np.ndarray, int, int]:
    """Kinks that the plane explains on random lines; how many lines could tell, and how many do."""
    lines, fair = sightings.lines, sightings.fair
    assert lines is not None
    assert fair is not None
    rates = lines.directions @ normal
    t = -(lines.origins @ normal + offset) / np.where(rates == 0, 1e-300, rates)
    within = fair & (t > lines.low) & (t < lines.high)
    kinks, seen = [], 0
    rows = np.flatnonzero(within)
    spread = _spread(lines.points(rows, t[rows]), covariance) / np.maximum(np.abs(rates[rows]), 1e-12)
    starts = np.searchsorted(sightings.line, np.arange(len(lines) + 1))
    for line, deviation in zip(rows, spread, strict=True):
        mine = slice(starts[line], starts[line + 1])
        places = sightings.t[mine]
        slack = DEVIATIONS * deviation
        if slack > 0.02 * max(np.ptp(places) / max(len(places), 1) if len(places) > 1 else 1.0, 1e-12):
            continue
        gaps = sightings.scans[line].gaps
        if gaps is not None and np.any((gaps[:, 0] - slack <= t[line]) & (t[line] <= gaps[:, 1] + slack)):
            continue
        seen += 1
        if len(places):
            nearest = int(np.argmin(np.abs(places - t[line])))
            number = starts[line] + nearest
            if abs(places[nearest] - t[line]) <= slack + DEVIATIONS * sightings.error[number]:
                kinks.append(number)
    return np.array(kinks, dtype=int), seen, len(kinks)


def _spread(x: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Standard error of ``normal . x + offset`` at the rows of ``x``."""
    extended = np.hstack([x, np.ones((len(x), 1))])
    return np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", extended, covariance, extended, optimize=True), 0.0))


def _refit(sightings: Sightings, normal, offset: float, prior, kinks):
    """Least squares for the plane: its kinks lie on it, to their error bars; the facet it came from is one more witness."""
    x = np.hstack([sightings.x[kinks], np.ones((len(kinks), 1))])
    rates = np.abs(sightings.across[kinks] @ normal)
    sigma = sightings.error[kinks] * rates + 1e-14 * (1 + np.linalg.norm(sightings.x[kinks], axis=1))
    start = np.append(normal, offset)
    # gain form of the update: as many unknowns as kinks, not as inputs
    middle = prior @ x.T
    weight = np.ones(len(kinks))
    for _ in range(4):
        system = x @ middle + np.diag((sigma / weight) ** 2)
        change = middle @ np.linalg.solve(system, -(x @ start))
        misses = np.abs(x @ (start + change)) / sigma
        weight = 1 / np.sqrt(np.maximum(1.0, misses / 4))
    factor = max(1.0, float(np.median(misses)) / 0.67)
    covariance = (prior - middle @ np.linalg.solve(system, middle.T)) * factor**2
    found = start + change
    length = np.linalg.norm(found[:-1])
    return found[:-1] / length, float(found[-1] / length), (covariance + covariance.T) / 2
