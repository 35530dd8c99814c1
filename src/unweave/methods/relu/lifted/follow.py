"""Second-layer units from one kink each: their zero sets followed from plane to plane through the whole domain.

A trace begins at a kink that no plane explains and knows its facet there. Particles find where the zero set meets the
next planes (no question), a few questions tell the weight of each (``crossing``), and so on until every plane that the
zero set meets in the domain is crossed. Kinks of the lines drawn before that lie on a trace belong to it: they sharpen
it by least squares, and two traces that own the same kink, or share weights, are one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.methods.relu.lifted.crossing import measure_crossings
from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.wander import Particles, pick_best, wander

PARTICLES = 16
"""Particles a unit."""
MOST_SEEDS = 64
"""Traces begun in one round."""
MOST_FAILURES = 4
"""Meetings of a unit and a plane that are asked at in vain."""


@dataclass
class Follower:
    """The traces over fixed planes, and what they own."""

    sightings: Sightings
    planes: Planes
    low: np.ndarray
    high: np.ndarray
    rng: np.random.Generator
    say: Callable[[str], None] = print
    traces: Traces = field(init=False)
    failures: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self):
        self.traces = Traces.none(self.planes, self.sightings.inquiry.output_size)
        self.faces = Faces.draw(self.planes, self.low, self.high, self.rng)
        self.started: set[int] = set()
        self.owned = np.zeros((0, 0), dtype=bool)

    def follow(self, kinks: np.ndarray, max_rounds: int = 40) -> None:
        """Follow the units of the numbered kinks until everything they meet is crossed."""
        for turn in range(max_rounds):
            self.own(kinks)
            self.refit()
            self.own(kinks)
            self.drop_twins()
            added = self.begin(kinks)
            if added:
                self.own(kinks)
            particles = self.place(kinks)
            meetings = wander(self.traces, particles, self.low, self.high, self.rng)
            meetings = meetings.join(self.faces.meetings(self.traces, self.low, self.high, self.rng))
            meetings = pick_best(meetings, self.traces) if len(meetings) else meetings
            tries = [self.failures.get((int(self.traces.seed[u]), int(p)), 0) for u, p in zip(meetings.unit, meetings.plane, strict=True)]
            meetings = meetings.take(np.flatnonzero(np.array(tries, dtype=int) < MOST_FAILURES))
            before = self.sightings.inquiry.meter.ledger.total
            crossed = measure_crossings(self.sightings.inquiry, self.traces, meetings) if len(meetings) else np.zeros(0, dtype=bool)
            for row in np.flatnonzero(~crossed):
                key = int(self.traces.seed[meetings.unit[row]]), int(meetings.plane[row])
                self.failures[key] = self.failures.get(key, 0) + 1
            self.say(
                f"  follow {turn}: {len(self.traces)} traces (+{added}), {len(meetings)} meetings, {crossed.sum()} crossed, "
                f"known {self.traces.known.mean() if len(self.traces) else 0:.3f}, kinks owned {self.owned.any(axis=1).sum()} of {len(kinks)}, "
                f"queries {self.sightings.inquiry.meter.ledger.total - before}"
            )
            if not len(meetings) and not added:
                break
        self.own(kinks)
        self.refit()
        self.own(kinks)

    def begin(self, kinks: np.ndarray) -> int:
        """Traces at kinks with a facet that no trace owns; how many."""
        s = self.sightings
        free = kinks[~self.owned.any(axis=1)] if len(self.traces) else kinks
        free = np.array([m for m in free if s.measured[m] and int(m) not in self.started], dtype=int)
        if not len(free):
            return 0
        # the kinks of one line belong to different units, but for a few
        lines, counts = np.unique(s.line[free], return_counts=True)
        chosen = free[s.line[free] == lines[np.argmax(counts)]][:MOST_SEEDS]
        self.started.update(int(m) for m in chosen)
        rate = np.abs(np.einsum("nd,nd->n", s.facet[chosen][:, :-1], s.across[chosen]))
        self.traces = self.traces.begin(
            s.x[chosen], s.facet[chosen], s.output[chosen], s.facet_error[chosen], rate * s.error[chosen], chosen
        )
        return len(chosen)

    def own(self, kinks: np.ndarray) -> None:
        """Which of the kinks lie on which traces: place, direction among the outputs and size of the jump agree."""
        s, traces = self.sightings, self.traces
        self.kinks = kinks
        x, across = s.x[kinks], s.across[kinks]
        heights = self.planes.heights(x)
        signs = np.where(heights > 0, 1.0, -1.0)
        values, holds = traces.values(x, heights), traces.holds(signs)
        self.owned = np.zeros(holds.shape, dtype=bool)
        reach = 1 + np.linalg.norm(x, axis=1)
        for j in range(len(traces)):
            rows = np.flatnonzero(holds[:, j])
            facet = traces.facets(np.full(len(rows), j), signs[rows])
            rate = np.abs(np.einsum("nd,nd->n", facet[:, :-1], across[rows]))
            size = np.linalg.norm(facet[:, :-1], axis=1)
            numbers = kinks[rows]
            blur = traces.spread(np.full(len(rows), j), x[rows], heights[rows])
            near = np.abs(values[rows, j]) <= DEVIATIONS * (s.error[numbers] * rate + blur) + 1e-14 * size * reach[rows]
            slack = DEVIATIONS * (s.jump_error[numbers] + traces.turn[j] * rate) + 1e-6 * size
            near &= np.max(np.abs(s.jump[numbers] - rate[:, None] * traces.output[j]), axis=1) <= slack
            self.owned[rows[near], j] = True

    def refit(self) -> None:
        """Least squares for every trace from its own kinks and crossings."""
        for j in range(len(self.traces)):
            self._refit_one(j)

    def _refit_one(self, j: int) -> None:
        s, traces = self.sightings, self.traces
        known = np.flatnonzero(traces.known[j])
        seed = int(traces.seed[j])
        numbers = np.union1d(self.kinks[self.owned[:, j]], [seed]).astype(int)
        x, d = s.x[numbers], s.x.shape[1]
        heights = self.planes.heights(x)
        signs = np.where(heights > 0, 1.0, -1.0)
        facet = traces.facets(np.full(len(numbers), j), signs)
        rate = np.einsum("nd,nd->n", facet[:, :-1], s.across[numbers])
        size = np.linalg.norm(facet[:, :-1], axis=1)
        ridges = traces.ridges[known]
        extended = np.hstack([x, np.ones((len(x), 1))])
        rows, right = [], []

        def add(matrix, target, error):
            rows.append(matrix / error[:, None])
            right.append(target / error)

        # on the zero set
        error = s.error[numbers] * np.abs(rate) + 1e-15 * size * (1 + np.linalg.norm(x, axis=1))
        add(np.hstack([extended, np.abs(heights[:, known])]), np.zeros(len(x)), error)
        # the jump along the line
        across = np.hstack([s.across[numbers], np.zeros((len(x), 1))])
        jump = np.einsum("nk,k->n", s.jump[numbers], traces.output[j]) * np.where(rate < 0, -1.0, 1.0)
        slopes = (s.across[numbers] @ self.planes.normals[known].T) * signs[:, known]
        add(np.hstack([across, slopes]), jump, s.jump_error[numbers] + 1e-14 * size)
        # facets
        for number, sign, own in zip(numbers, signs, facet, strict=True):
            if not np.isfinite(s.facet_error[number]):
                continue
            turn = 1.0 if s.facet[number, :-1] @ own[:-1] > 0 else -1.0
            block = np.hstack([np.eye(d), np.zeros((d, 1)), (sign[known, None] * ridges[:, :d]).T])
            add(block, turn * s.facet[number, :-1], np.full(d, s.facet_error[number] + 1e-14 * np.linalg.norm(own[:-1])))
        # crossings
        eye = np.hstack([np.zeros((len(known), d + 1)), np.eye(len(known))])
        add(eye, traces.beta[j, known], traces.beta_error[j, known] + 1e-14)
        a, b = np.vstack(rows), np.concatenate(right)
        weight, scale = np.ones(len(b)), np.linalg.norm(a, axis=0) + 1e-300
        start = np.concatenate([traces.gamma[j], traces.beta[j, known]])
        b = b - a @ start
        solution = np.zeros(a.shape[1])
        vt = values = misses = np.zeros(0)
        for _ in range(3):
            u, values, vt = np.linalg.svd(a / scale * weight[:, None], full_matrices=False)
            solution = vt.T @ ((u.T @ (b * weight)) / np.maximum(values, 1e-15 * values[0])) / scale
            misses = np.abs(a @ solution - b)
            weight = 1 / np.sqrt(np.maximum(1.0, misses / max(3 * float(np.median(misses)), 3.0)))
        start = start + solution
        traces.gamma[j], traces.beta[j, known] = start[: d + 1], start[d + 1 :]
        root = (vt / np.maximum(values, 1e-15 * values[0])[:, None]) / scale
        rough = max(1.0, float(np.sqrt(np.mean((misses * weight) ** 2))))
        places = np.append(np.arange(d + 1), d + 1 + known)
        traces.covariance[j] = 0.0
        traces.covariance[j][np.ix_(places, places)] = rough**2 * root.T @ root

    def drop_twins(self) -> None:
        """Of traces that own each other's first kink the one that knows more is kept; equal weights join."""
        traces = self.traces
        if not len(traces):
            return
        order = np.argsort(-traces.known.sum(axis=1), kind="stable")
        place = {int(m): row for row, m in enumerate(self.kinks)}
        gone = np.zeros(len(traces), dtype=bool)
        for rank, j in enumerate(order):
            if gone[j]:
                continue
            for other in order[rank + 1 :]:
                row = place.get(int(traces.seed[other]))
                if not gone[other] and row is not None and self.owned[row, j]:
                    gone[other] = True
                elif not gone[other] and self._alike(j, other):
                    self._join(j, other)
                    gone[other] = True
        if gone.any():
            self.traces = traces.take(~gone)
            self.own(self.kinks)

    def _alike(self, one: int, two: int) -> float:
        """1 or -1 where weights of planes that both crossed agree, with that sign; else 0."""
        t = self.traces
        shared = t.known[one] & t.known[two]
        if shared.sum() < 3 or np.linalg.norm(t.output[one] - t.output[two]) > 1e-3:
            return 0.0
        a, b = t.beta[one, shared], t.beta[two, shared]
        allowed = DEVIATIONS * np.hypot(t.beta_error[one, shared], t.beta_error[two, shared]) + 1e-9 * np.abs(a)
        # nothing is told by weights that drown in their errors
        clear = np.abs(a) > 30 * allowed
        if clear.sum() < 3:
            return 0.0
        for sign in (1.0, -1.0):
            if np.all(np.abs(a - sign * b) <= allowed):
                return sign
        return 0.0

    def _join(self, one: int, two: int) -> None:
        t, sign = self.traces, self._alike(one, two)
        for plane in np.flatnonzero(t.known[two] & ~t.known[one]):
            t.cross(one, int(plane), sign * t.beta[two, plane], t.beta_error[two, plane])
        apart = np.flatnonzero(~t.known[one] & (t.sides[one] != t.sides[two]))
        if not 0 < len(apart) <= t.gamma.shape[1] - 1:
            return
        # what lies between the two parts
        left = sign * t.gamma[two] - t.gamma[one]
        matrix = (-2 * t.sides[one, apart, None] * t.ridges[apart]).T
        found, *_ = np.linalg.lstsq(matrix, left, rcond=None)
        if np.linalg.norm(matrix @ found - left) <= 1e-6 * np.linalg.norm(t.gamma[one]):
            for plane, beta in zip(apart, found, strict=True):
                t.cross(one, int(plane), float(beta), 1e-7 * float(np.linalg.norm(t.gamma[one])))

    def place(self, kinks: np.ndarray) -> Particles:
        """Particles on kinks that the traces own."""
        s, units, where = self.sightings, [], []
        for j in range(len(self.traces)):
            own = np.append(kinks[self.owned[:, j]], self.traces.seed[j]).astype(int)
            picked = self.rng.choice(own, size=PARTICLES)
            units.append(np.full(PARTICLES, j))
            where.append(s.x[picked])
        if not units:
            return Particles.at(self.traces, np.zeros(0, dtype=int), np.zeros((0, len(self.low))))
        return Particles.at(self.traces, np.concatenate(units), np.concatenate(where))
