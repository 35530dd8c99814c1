"""What a second-layer unit's weight on a plane is, from rough answers on a half disc beyond the plane.

Where its zero set meets a plane of the first layer it goes on beyond, into a half disc on which nothing else bends.
There the answers are affine plus ``output * relu(z + b h)``, with ``z`` the unit as it is known before the plane and
``h`` the height beyond it. All is linear but ``b``, and in ``b`` piecewise: least squares for each set of points at
which the unit may be on. One set alone must explain all answers. No sharp bend spoils that: a weight may be many
times the unit's slope. Where the unit is not known well enough a half disc before the plane tells its value first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.wander import Meetings
from unweave.probes.inquiry import Inquiry

ANGLES = np.pi * np.array([0.01, 0.045, 0.12, 0.28, 0.5, 0.72, 0.88, 0.955, 0.99])
"""Where on the half circle is asked at first."""
WEDGE = ((0.3, 1.0), (0.6, 1.0), (0.85, 1.0), (0.4, 0.6), (0.7, 0.6), (1.3, 1.0))
"""Then between the plane and the zero set where few answers came from: shares of the angle, and of the radius."""
ENOUGH = 3
"""Answers on either side of the zero set that tell."""
RADII = (0.8, 0.25)
"""Radii that are tried, relative to the room around a meeting."""
VAGUE, SURE = 2.0, 24.0
"""Standard errors of a unit's value at a meeting below its rise over the disc, for the meeting to be looked for at all,
and for it to be sure enough as it is."""
ROUGH = 0.05
"""A weight whose error is larger than this share of the facet is not read."""
CLEAR = 1.5
"""How many times what counts as agreement a second choice must miss by."""


@dataclass(frozen=True)
class _Told:
    """What answers on half discs say."""

    good: np.ndarray
    """Where a weight explains all answers."""
    sole: np.ndarray
    """Where no other does."""
    weight: np.ndarray
    other: np.ndarray
    """The second best weight."""
    error: np.ndarray
    on: np.ndarray
    """(n, points): where the unit is on."""

    @property
    def fewest(self) -> np.ndarray:
        """Answers on that side of the zero set that has fewer."""
        return np.minimum(self.on.sum(axis=1), (~self.on).sum(axis=1))


def cross_half_discs(
    inquiry: Inquiry, traces: Traces, meetings: Meetings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which weights the answers tell, twice these weights, and their errors."""
    done = np.zeros(len(meetings), dtype=bool)
    weight, error = np.zeros(len(meetings)), np.full(len(meetings), np.inf)
    for share in RADII:
        rows = np.flatnonzero(~done)
        rows = rows[_has_room(inquiry, traces, meetings.take(rows), share)]
        if not len(rows):
            break
        told = _look(inquiry, traces, meetings.take(rows), share)
        done[rows] = told.good
        weight[rows], error[rows] = told.weight, told.error
    return done, weight, error


def _has_room(inquiry: Inquiry, traces: Traces, m: Meetings, share: float) -> np.ndarray:
    """Where the unit rises above what it is not known to, and far enough above the errors of answers."""
    _, steep = _along(traces, m)
    rise = share * m.room * steep
    blur = traces.spread(m.unit, m.x, traces.planes.heights(m.x))
    return (VAGUE * blur < rise) & (DEVIATIONS * inquiry.bars(m.x, np.zeros((len(m), 1))) < 0.5 * rise)


def _along(traces: Traces, m: Meetings) -> tuple[np.ndarray, np.ndarray]:
    """Within the plane, the way on which the unit rises, and its slope."""
    normal, across = traces.planes.normals[m.plane], m.facet[:, :-1]
    flat = across - np.einsum("nd,nd->n", across, normal)[:, None] * normal
    steep = np.maximum(np.linalg.norm(flat, axis=1), 1e-300)
    return flat / steep[:, None], steep


def _look(inquiry: Inquiry, traces: Traces, m: Meetings, share: float) -> _Told:
    n = len(m)
    m, anchor = _move(inquiry, traces, m, share)
    angles, radii = np.tile(ANGLES, (n, 1)), np.tile(share * m.room[:, None], (1, len(ANGLES)))
    disc = _Disc.ask(inquiry, traces, m, angles, radii, anchor)
    told = disc.solve(disc.height)
    again = np.flatnonzero(told.good & ~(told.sole & (told.fewest >= ENOUGH) & disc.is_sharp(told)))
    told.good[again] = False
    if len(again):
        part, old = m.take(again), anchor.take(again)
        _, steep = _along(traces, part)
        # the zero set beyond, or where else it might be: on which side of it the few answers are, as an angle
        weight = np.where(told.sole, told.weight, told.other)[again]
        angle = np.arctan2(steep, -np.einsum("nd,nd->n", part.facet[:, :-1], _far(traces, part)) - weight)
        thin = angle < np.pi / 2
        shares, lengths = np.array(WEDGE).T
        angles = np.where(thin[:, None], angle[:, None] * shares, np.pi - (np.pi - angle)[:, None] * shares)
        more = _Disc.ask(inquiry, traces, part, angles, share * part.room[:, None] * lengths, old)
        disc = disc.take(again).join(more)
        second = disc.solve(disc.height)
        told.good[again] = second.good & second.sole & (second.fewest >= ENOUGH) & disc.is_sharp(second)
        told.weight[again], told.error[again] = second.weight, second.error
    return told


def _move(inquiry: Inquiry, traces: Traces, m: Meetings, share: float) -> tuple[Meetings, _Anchor]:
    """Meetings where answers before the plane have them, if it is not known well enough where they are."""
    _, steep = _along(traces, m)
    anchor = _Anchor.none(m.x)
    blur = traces.spread(m.unit, m.x, traces.planes.heights(m.x))
    vague = np.flatnonzero(SURE * blur > share * m.room * steep)
    if not len(vague):
        return m, anchor
    part = m.take(vague)
    angles = np.tile(-ANGLES, (len(vague), 1))
    radii = np.tile(share * part.room[:, None], (1, len(ANGLES)))
    disc = _Disc.ask(
        inquiry, traces, part, angles, radii, _Anchor(part.x, np.zeros(len(vague)), np.zeros(len(vague)))
    )
    told = disc.solve(np.ones_like(disc.height))
    way, steep = _along(traces, part)
    found = told.good & told.sole & (np.abs(told.weight) < 0.7 * share * part.room * steep)
    rows = vague[found]
    anchor.x[rows], anchor.shift[rows], anchor.error[rows] = m.x[rows], told.weight[found], told.error[found]
    x = m.x.copy()
    x[rows] -= (told.weight / steep)[found, None] * way[found]
    room = m.room.copy()
    room[rows] -= np.abs(told.weight / steep)[found]
    return replace(m, x=x, room=room), anchor


def _side(m: Meetings) -> np.ndarray:
    return m.signs[np.arange(len(m)), m.plane]


def _far(traces: Traces, m: Meetings) -> np.ndarray:
    """Normals that point beyond the planes."""
    return -_side(m)[:, None] * traces.planes.normals[m.plane]


@dataclass(frozen=True)
class _Anchor:
    """What was read of units beside meetings: their values at places ``x`` are ``shift`` more than was known."""

    x: np.ndarray
    shift: np.ndarray
    error: np.ndarray
    """Infinite where nothing was."""

    @staticmethod
    def none(x: np.ndarray) -> _Anchor:
        return _Anchor(x.copy(), np.zeros(len(x)), np.full(len(x), np.inf))

    def take(self, rows: np.ndarray) -> _Anchor:
        return _Anchor(self.x[rows], self.shift[rows], self.error[rows])

    def correct(self, traces: Traces, unit: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What that adds to the values of the units at points (n, p, d), and the standard errors left there."""
        added, blur = np.zeros(points.shape[:2]), np.zeros(points.shape[:2])
        for j in np.unique(unit):
            rows = np.flatnonzero(unit == j)
            there, here = _features(traces, points[rows]), _features(traces, self.x[rows, None])
            spread = traces.covariance[j]
            variance = np.einsum("npf,npf->np", there @ spread, there)
            shared = np.einsum("npf,nqf->np", there @ spread, here)
            own = np.einsum("nqf,nqf->n", here @ spread, here) + self.error[rows] ** 2
            share = shared / np.maximum(own, 1e-300)[:, None]
            added[rows] = share * self.shift[rows, None]
            blur[rows] = np.sqrt(np.maximum(variance - share * shared, 0.0))
        return added, blur


def _features(traces: Traces, points: np.ndarray) -> np.ndarray:
    heights = np.abs(points @ traces.planes.normals.T + traces.planes.offsets)
    return np.concatenate([points, np.ones((*points.shape[:2], 1)), heights], axis=2)


@dataclass(frozen=True)
class _Disc:
    """Answers on half discs, (n, points) each."""

    along: np.ndarray
    height: np.ndarray
    known: np.ndarray
    """The unit as it is before the plane."""
    blur: np.ndarray
    answers: np.ndarray
    """(n, points, k)"""
    bars: np.ndarray
    output: np.ndarray
    """(n, k)"""
    facet: np.ndarray
    """(n, 2): slopes of the unit before the plane, along and beyond it."""

    @staticmethod
    def ask(
        inquiry: Inquiry,
        traces: Traces,
        m: Meetings,
        angles: np.ndarray,
        radii: np.ndarray,
        anchor: _Anchor,
    ) -> _Disc:
        (n, count), (way, steep), far = angles.shape, _along(traces, m), _far(traces, m)
        # onto the plane, exactly as far as it is known
        x = m.x - traces.planes.heights(m.x)[np.arange(n), m.plane][:, None] * traces.planes.normals[m.plane]
        points = x[:, None] + radii[:, :, None] * (
            np.cos(angles)[:, :, None] * way[:, None] + np.sin(angles)[:, :, None] * far[:, None]
        )
        points = inquiry.meter.domain.nearest(points.reshape(n * count, -1))
        answers, bars = inquiry.ask(points)
        points = inquiry.meter.snap(points)
        points = points.reshape(n, count, -1)
        added, blur = anchor.correct(traces, m.unit, points)
        offset = points - x[:, None]
        return _Disc(
            np.einsum("npd,nd->np", offset, way),
            np.einsum("npd,nd->np", offset, far),
            np.einsum("npd,nd->np", points, m.facet[:, :-1]) + m.facet[:, -1:] + added,
            blur,
            answers.reshape(n, count, -1),
            bars.reshape(n, count),
            traces.output[m.unit],
            np.stack([steep, np.einsum("nd,nd->n", m.facet[:, :-1], far)], axis=1),
        )

    def take(self, rows: np.ndarray) -> _Disc:
        return _Disc(*(part[rows] for part in self._parts))

    def join(self, other: _Disc) -> _Disc:
        pairs = list(zip(self._parts, other._parts, strict=True))
        return _Disc(*(np.concatenate(pair, axis=1) for pair in pairs[:-2]), *(a for a, _ in pairs[-2:]))

    @property
    def _parts(self) -> tuple[np.ndarray, ...]:
        return (
            self.along,
            self.height,
            self.known,
            self.blur,
            self.answers,
            self.bars,
            self.output,
            self.facet,
        )

    def is_sharp(self, told: _Told) -> np.ndarray:
        """Whether the weights are known well enough to go on beyond."""
        beyond = np.hypot(self.facet[:, 0], self.facet[:, 1] + told.weight)
        return told.error <= ROUGH * beyond

    def solve(self, lever: np.ndarray) -> _Told:
        """By how many times ``lever`` more the unit explains all answers, if that is told."""
        n, count = self.along.shape
        scale = np.max(np.abs(self.along), axis=1, keepdims=True)
        design = np.stack([np.ones((n, count)), self.along / scale, self.height / scale], axis=2)
        basis = np.linalg.qr(design)[0]

        def rest(values: np.ndarray) -> np.ndarray:
            """What no affine function explains of (n, sets, points)."""
            return values - np.einsum("npq,nsq->nsp", basis, np.einsum("npq,nsp->nsq", basis, values))

        along = np.einsum("npk,nk->np", self.answers, self.output)
        aside = self.answers - along[:, :, None] * self.output[:, None]
        aside = np.max(np.abs(rest(np.swapaxes(aside, 1, 2))), axis=1)
        turns = np.sort(-self.known / lever, axis=1)
        low, high = np.hstack([turns[:, :1] - np.inf, turns]), np.hstack([turns, turns[:, :1] + np.inf])
        on = (-self.known / lever)[:, None, :] <= low[:, :, None]
        slopes = rest(on * lever[:, None])
        target = rest(along[:, None] - on * self.known[:, None])
        size = np.einsum("nsp,nsp->ns", slopes, slopes)
        told = size > 1e-12 * np.sum(lever**2, axis=1, keepdims=True)
        size = np.where(told, size, 1.0)
        weight = np.einsum("nsp,nsp->ns", slopes, target) / size
        weight = np.clip(np.where(told, weight, 0.0), low, high)
        blur = on * self.blur[:, None]
        missed = np.abs(target - weight[:, :, None] * slopes) / (self.bars[:, None] + blur)
        cost = np.where(np.isfinite(weight), np.max(missed, axis=2), np.inf)
        bar = np.max(self.bars, axis=1)[:, None]
        error = np.hypot(bar / np.sqrt(size), np.einsum("nsp,nsp->ns", np.abs(slopes), blur) / size)
        rows, best = np.arange(n), np.argmin(np.where(told, cost, np.inf), axis=1)
        weight_best, error_best = weight[rows, best], error[rows, best]
        # beside the best one only minima of their own count: sets next to it meet it where one point changes sides
        own = told & (weight > low) & (weight < high)
        own[rows, best] = False
        other = np.argmin(np.where(own, cost, np.inf), axis=1)
        sole = ~own[rows, other] | (cost[rows, other] > CLEAR * DEVIATIONS)
        good = told[rows, best] & (cost[rows, best] <= DEVIATIONS)
        good &= np.all(aside <= DEVIATIONS * self.bars + 1e-12, axis=1)
        return _Told(good, sole, weight_best, weight[rows, other], error_best, on[rows, best])
