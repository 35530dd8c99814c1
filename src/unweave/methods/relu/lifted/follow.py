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
import scipy.linalg

from unweave.methods.relu.lifted.crossing import measure_crossings
from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.refine import choose_places, measure_places, offer_places
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.units import Unit
from unweave.methods.relu.lifted.wander import Particles, pick_best, wander

PARTICLES = 16
"""Particles a unit."""
MOST_SEEDS = 64
"""Traces begun in one round."""
STRAIGHT, CLEAR = 3, 0.01
"""Planes that a facet crosses without a bend, larger than this share of it, to be surely a plane itself."""
QUIET = 3
"""Rounds in a row without a crossing after which nothing more is to be had."""
CHANCE = 1e-6
"""Chance of an accident up to which agreement is none."""
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
        self.places: dict[int, tuple[np.ndarray, ...]] = {}
        self.compared: dict[tuple[int, int], tuple[int, int]] = {}
        self.fitted: dict[int, tuple[int, ...]] = {}
        self.started: set[int] = set()
        self.owned = np.zeros((0, 0), dtype=bool)

    def follow(self, kinks: np.ndarray, max_rounds: int = 40) -> None:
        """Follow the units of the numbered kinks until everything they meet is crossed."""
        idle, deepened = 0, False
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
            tries = [
                self.failures.get((int(self.traces.seed[u]), int(p)), 0)
                for u, p in zip(meetings.unit, meetings.plane, strict=True)
            ]
            meetings = meetings.take(np.flatnonzero(np.array(tries, dtype=int) < MOST_FAILURES))
            crossed = (
                measure_crossings(self.sightings.inquiry, self.traces, meetings)
                if len(meetings)
                else np.zeros(0, dtype=bool)
            )
            for row in np.flatnonzero(~crossed):
                key = int(self.traces.seed[meetings.unit[row]]), int(meetings.plane[row])
                self.failures[key] = self.failures.get(key, 0) + 1
            self.say(
                f"  follow {turn}: {len(self.traces)} traces, {added} new, {crossed.sum()} of {len(meetings)} crossed, "
                f"{self.owned.any(axis=1).sum()} of {len(kinks)} kinks"
            )
            self.drop_misread()
            idle = 0 if crossed.any() or added else idle + 1
            if (not len(meetings) and not added) or idle >= QUIET:
                if deepened:
                    break
                self.faces = self.faces.deepen(self.traces, self.low, self.high, self.rng)
                idle, deepened = 0, True
        self.own(kinks)
        self.refit()
        self.own(kinks)

    def extend(self, planes: Planes) -> None:
        """More planes, the first of which are the ones known before."""
        self.traces = self.traces.over(planes, self.sightings.x[self.traces.seed])
        self.planes, self.failures = planes, {}
        self.faces = Faces.draw(planes, self.low, self.high, self.rng)

    def restart(self, planes: Planes) -> None:
        """Begin anew over these planes."""
        self.planes, self.failures = planes, {}
        self.__post_init__()

    def straight(self) -> tuple[np.ndarray, Planes]:
        """Traces that nothing bends, and the planes of the first layer they may be.

        ``shares`` is 1 for those that cross enough planes to be sure, 0 for those that may be facets short of a bend.
        """
        t = self.traces
        size = t.gamma.shape[1]
        errors = np.sqrt(np.maximum(np.einsum("mpp->mp", t.covariance)[:, size:], 0.0))
        steep = np.linalg.norm(t.gamma[:, :-1], axis=1)
        bent = t.known & (np.abs(t.beta) > DEVIATIONS * errors + 1e-9 * steep[:, None])
        clear = t.known & (DEVIATIONS * errors < CLEAR * steep[:, None])
        failed = {seed for (seed, _), count in self.failures.items() if count}
        whole = np.array([int(seed) not in failed for seed in t.seed], dtype=bool)
        # in a network of one layer nothing bends at all
        sure = (clear.sum(axis=1) >= STRAIGHT) | ~bent.any()
        numbers = np.flatnonzero(~bent.any(axis=1) & (sure | whole))
        numbers = numbers[~self._repeated(numbers)[numbers]]
        length = steep[numbers]
        planes = Planes(
            t.gamma[numbers, :-1] / length[:, None],
            t.gamma[numbers, -1] / length,
            t.covariance[numbers][:, :size, :size] / length[:, None, None] ** 2,
            sure[numbers].astype(float),
        )
        return numbers, planes

    def drop(self, numbers: np.ndarray) -> None:
        """Without the numbered traces and those on the same facets, which are no units."""
        kept = np.ones(len(self.traces), dtype=bool)
        kept[numbers] = False
        for j in np.flatnonzero(kept):
            kept[j] = not any(self._repeated(np.array([i, j]))[j] for i in numbers)
        self.traces = self.traces.take(kept)

    def drop_misread(self) -> None:
        """Drop traces that could cross nothing: two bends closer than the scan could tell show a facet that is none."""
        failed = {seed for (seed, _), count in self.failures.items() if count}
        crossed = self.traces.known.sum(axis=1)
        kept = [crossed[j] > 0 or int(seed) not in failed for j, seed in enumerate(self.traces.seed)]
        self.traces = self.traces.take(np.array(kept, dtype=bool))
        self.own(self.kinks)

    def _repeated(self, numbers: np.ndarray) -> np.ndarray:
        """Which of the numbered traces lie on the same facet as an earlier one."""
        t, repeated = self.traces, np.zeros(len(self.traces), dtype=bool)
        rows = t.gamma / np.linalg.norm(t.gamma[:, :-1], axis=1, keepdims=True)
        for rank, j in enumerate(numbers):
            for other in numbers[:rank]:
                apart = min(np.linalg.norm(rows[j] - rows[other]), np.linalg.norm(rows[j] + rows[other]))
                repeated[j] |= apart < 1e-4 * np.linalg.norm(rows[j])
        return repeated

    def sharpen(self, kinks: np.ndarray, most: int = 90) -> int:
        """Ask at places of the zero sets that tell most about the units, and fit these again; how many."""
        traces, inquiry = self.traces, self.sightings.inquiry
        if not len(traces):
            return 0
        self.own(kinks)
        offers = offer_places(traces, self.place(kinks), self.low, self.high, self.rng)
        rows = choose_places(traces, *offers, inquiry, most)
        if not len(rows):
            return 0
        unit, x, facet, room = (part[rows] for part in offers)
        good, x, error, jump, jump_error = measure_places(inquiry, traces, unit, x, facet, room)
        for j in range(len(traces)):
            mine = good & (unit == j)
            places = (x[mine], error[mine], facet[mine], jump[mine], jump_error[mine])
            seed = int(traces.seed[j])
            if seed in self.places:
                places = tuple(np.concatenate(pair) for pair in zip(self.places[seed], places, strict=True))
            self.places[seed] = places
        self.refit()
        return int(good.sum())

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
            s.x[chosen],
            s.facet[chosen],
            s.output[chosen],
            s.facet_error[chosen],
            rate * s.error[chosen],
            chosen,
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
            near = (
                np.abs(values[rows, j])
                <= DEVIATIONS * (s.error[numbers] * rate + blur) + 1e-14 * size * reach[rows]
            )
            slack = DEVIATIONS * (s.jump_error[numbers] + traces.turn[j] * rate) + 1e-6 * size
            near &= np.max(np.abs(s.jump[numbers] - rate[:, None] * traces.output[j]), axis=1) <= slack
            self.owned[rows[near], j] = True

    def refit(self) -> None:
        """Least squares for every trace from its own kinks and crossings."""
        for j in range(len(self.traces)):
            seed = int(self.traces.seed[j])
            places = len(self.places[seed][0]) if seed in self.places else 0
            news = int(self.traces.known[j].sum()), int(self.owned[:, j].sum()), places, len(self.planes)
            if self.fitted.get(seed) != news:
                self.fitted[seed] = news
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
        if seed in self.places:
            where, errors, facets, jumps, jump_errors = self.places[seed]
            high = self.planes.heights(where)
            own = np.where(high > 0, 1.0, -1.0)
            grid = np.hstack([where, np.ones((len(where), 1)), np.abs(high[:, known])])
            add(grid, np.zeros(len(where)), errors + 1e-16 * np.linalg.norm(facets, axis=1))
            normals = facets[:, :-1] / np.linalg.norm(facets[:, :-1], axis=1, keepdims=True)
            steep = np.hstack(
                [normals, np.zeros((len(where), 1)), (normals @ self.planes.normals[known].T) * own[:, known]]
            )
            turn = np.where(
                np.einsum("np,p->n", steep, np.append(traces.gamma[j], traces.beta[j, known])) < 0, -1.0, 1.0
            )
            add(steep, turn * jumps, jump_errors)
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
            add(
                block,
                turn * s.facet[number, :-1],
                np.full(d, s.facet_error[number] + 1e-14 * np.linalg.norm(own[:-1])),
            )
        # crossings
        eye = np.hstack([np.zeros((len(known), d + 1)), np.eye(len(known))])
        add(eye, traces.beta[j, known], traces.beta_error[j, known] + 1e-14)
        a, b = np.vstack(rows), np.concatenate(right)
        weight, scale = np.ones(len(b)), np.linalg.norm(a, axis=0) + 1e-300
        start = np.concatenate([traces.gamma[j], traces.beta[j, known]])
        b = b - a @ start
        solution = np.zeros(a.shape[1])
        factor = misses = np.zeros(0)
        for _ in range(2):
            q, factor = np.linalg.qr(a / scale * weight[:, None])
            solution = scipy.linalg.solve_triangular(factor, q.T @ (b * weight), check_finite=False) / scale
            misses = np.abs(a @ solution - b)
            weight = 1 / np.sqrt(np.maximum(1.0, misses / max(3 * float(np.median(misses)), 3.0)))
        start = start + solution
        traces.gamma[j], traces.beta[j, known] = start[: d + 1], start[d + 1 :]
        root = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), check_finite=False).T / scale
        rough = max(1.0, float(np.sqrt(np.mean((misses * weight) ** 2))))
        places = np.append(np.arange(d + 1), d + 1 + known)
        traces.covariance[j] = 0.0
        traces.covariance[j][np.ix_(places, places)] = rough**2 * root.T @ root

    def drop_twins(self) -> None:
        """Of traces that own each other's first kink the one that knows more is kept; parts of one unit are joined."""
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
                if gone[other]:
                    continue
                row = place.get(int(traces.seed[other]))
                if row is not None and self.owned[row, j]:
                    gone[other] = True
                    continue
                gone[other] = self._unite(int(j), int(other))
        if gone.any():
            self.traces = traces.take(~gone)
            self.own(self.kinks)

    def _unite(self, one: int, two: int) -> bool:
        """Whether two traces are parts of one unit whose zero set is not connected; ``one`` learns what ``two`` knows.

        Their facets differ by the planes between them: with fewer of these than inputs that is a test. Parts that
        more planes separate are told by weights that both have crossed; they share these, and stay two.
        """
        t = self.traces
        key = int(t.seed[one]), int(t.seed[two])
        news = int(t.known[one].sum()), int(t.known[two].sum())
        if self.compared.get(key) == news:
            return False
        self.compared[key] = news
        if np.linalg.norm(t.output[one] - t.output[two]) > DEVIATIONS * (t.turn[one] + t.turn[two]) + 1e-9:
            return False
        size = t.gamma.shape[1]
        apart = np.flatnonzero(~t.known[one] & ~t.known[two] & (t.sides[one] != t.sides[two]))
        blur = np.sqrt(sum(np.trace(t.covariance[j][:size, :size]) for j in (one, two)))
        slack = DEVIATIONS * blur + 1e-12 * np.linalg.norm(t.gamma[one])
        chance = min(1.0, slack / np.linalg.norm(t.gamma[two, :-1])) ** max(size - len(apart), 0) * len(t)
        alike = self._alike(one, two)
        if chance > CHANCE and not alike:
            return False
        matrix = (-2 * t.sides[one, apart, None] * t.ridges[apart]).T
        for sign in (alike,) if alike else (1.0, -1.0):
            left = sign * self._seen_from(two, one, sign) - self._seen_from(one, two, sign)
            found = np.linalg.lstsq(matrix, left, rcond=None)[0] if len(apart) else np.zeros(0)
            fits = len(apart) < size and np.linalg.norm(matrix @ found - left) <= slack
            if not (fits and (alike or self._agree(one, two, sign))):
                continue
            self._share(one, two, sign)
            error = blur * np.linalg.norm(np.linalg.pinv(matrix), 2) if len(apart) else 0.0
            for plane, beta in zip(apart, found, strict=True):
                t.cross(one, int(plane), float(beta), float(error))
            return True
        if alike:
            self._share(one, two, alike)
        return False

    def _seen_from(self, one: int, two: int, sign: float) -> np.ndarray:
        """The affine part of a trace once it knows the weights that another one has crossed."""
        t = self.traces
        more = t.known[two] & ~t.known[one]
        return t.gamma[one] - sign * (t.beta[two, more] * t.sides[one, more]) @ t.ridges[more]

    def _agree(self, one: int, two: int, sign: float) -> bool:
        """Whether no weight that both have crossed contradicts that they are one unit."""
        t = self.traces
        shared = t.known[one] & t.known[two]
        return bool(
            np.all(np.abs(t.beta[one] - sign * t.beta[two])[shared] <= self._allowed(one, two, shared))
        )

    def _allowed(self, one: int, two: int, planes: np.ndarray) -> np.ndarray:
        t = self.traces
        places = t.gamma.shape[1] + np.flatnonzero(planes)
        variances = [np.diagonal(t.covariance[j])[places] for j in (one, two)]
        return DEVIATIONS * np.sqrt(variances[0] + variances[1]) + 1e-12 * np.abs(t.beta[one, planes])

    def _alike(self, one: int, two: int) -> float:
        """1 or -1 where weights of planes that both crossed agree, with that sign, and not by accident; else 0."""
        t = self.traces
        shared = t.known[one] & t.known[two]
        if not shared.any():
            return 0.0
        typical = max(float(np.median(np.abs(t.beta[one, shared]))), 1e-300)
        luck = np.minimum(1.0, 4 * self._allowed(one, two, shared) / typical)
        if float(np.prod(luck)) * len(t) > CHANCE:
            return 0.0
        return next((sign for sign in (1.0, -1.0) if self._agree(one, two, sign)), 0.0)

    def _share(self, one: int, two: int, sign: float) -> None:
        """Each of two parts of a unit learns the weights that the other has crossed."""
        t = self.traces
        size = t.gamma.shape[1]
        for to, of in ((one, two), (two, one)):
            for plane in np.flatnonzero(t.known[of] & ~t.known[to]):
                error = np.sqrt(t.covariance[of][size + plane, size + plane])
                t.cross(to, int(plane), sign * t.beta[of, plane], float(error))

    def units(self) -> list[Unit]:
        """In the form that networks are put together from."""
        return self.traces.units([self.kinks[own] for own in self.owned.T])

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
