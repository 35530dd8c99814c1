"""Second-layer units from one kink each: their zero sets followed from plane to plane through the whole domain.

A trace begins at a kink that no plane explains and knows its facet there. Particles find where the zero set meets the
next planes (no question), a few questions tell the weight of each (``crossing``), and so on until every plane that the
zero set meets in the domain is crossed. Kinks of the lines drawn before that lie on a trace belong to it: they sharpen
it by least squares, and two traces that own the same kink, or share weights, are one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.methods.relu.lifted.crossing import measure_crossings
from unweave.methods.relu.lifted.depth import Meetings
from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.fit_trace import Places, Prior, fit_trace
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.reach import add_extremes, look_beyond
from unweave.methods.relu.lifted.refine import choose_places, measure_places, offer_places
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings
from unweave.methods.relu.lifted.straight import find_straight, repeated
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.unite import are_alike, unite
from unweave.methods.relu.lifted.units import Unit
from unweave.methods.relu.lifted.votes import cross_by_votes
from unweave.methods.relu.lifted.wander import Particles, pick_best, wander

PARTICLES = 16
"""Particles a unit."""
MOST_SEEDS = 64
"""Traces begun in one round."""
QUIET = 3
"""Rounds in a row without a crossing after which nothing more is to be had."""
ISLET = 3
"""Planes that a part of a unit in a corner may have crossed."""
FEW_ODD = 0.3
"""Share of traces below which those that all answers together do not bear out are no units."""
BEGINNING, FIRST_PLACES = 2, 6
"""Rough answers: how often a new trace is told better before it is followed, and at how many places at a time."""
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
    others: Traces | None = None
    """Units that no trace stands for: their kinks begin none."""
    trusting: bool = False
    """Whether traces that could cross nothing are kept: where little is missing a fit tells what they are worth."""

    def __post_init__(self) -> None:
        self.traces = Traces.none(self.planes, self.sightings.inquiry.output_size)
        self.faces = Faces.draw(self.planes, self.low, self.high, self.rng)
        self.places: dict[int, Places] = {}
        self.priors: dict[int, Prior] = {}
        self.compared: dict[tuple[int, int], tuple[int, int]] = {}
        self.fitted: dict[int, tuple[int, ...]] = {}
        self.started: set[int] = set()
        self.met = Meetings(exact=not self.sightings.inquiry.coarse)
        self.owned = np.zeros((0, 0), dtype=bool)
        self.taken = np.zeros(0, dtype=bool)

    def follow(self, kinks: np.ndarray, max_rounds: int = 40) -> None:
        """Follow the units of the numbered kinks until everything they meet is crossed."""
        idle, fruitless, crossed = 0, False, np.zeros(0, dtype=bool)
        for turn in range(max_rounds):
            self.sightings.inquiry.meter.check_time()
            self.own(kinks)
            self.refit()
            self.own(kinks)
            self.drop_twins()
            added = self.begin(kinks)
            if added:
                self.own(kinks)
            if self.sightings.inquiry.coarse and (added or crossed.any()):
                # cells may be too small to tell where a zero set leaves them
                for _ in range(BEGINNING if added else 1):
                    self.sharpen(kinks, most=FIRST_PLACES)
            particles = self.place(kinks)
            meetings = wander(self.traces, particles, self.low, self.high, self.rng)
            meetings = meetings.join(self.faces.meetings(self.traces, self.low, self.high, self.rng))
            meetings = pick_best(meetings, self.traces) if len(meetings) else meetings
            tries = [
                self.failures.get((int(self.traces.seed[u]), int(p)), 0)
                for u, p in zip(meetings.unit, meetings.plane, strict=True)
            ]
            meetings = meetings.take(np.flatnonzero(np.array(tries, dtype=int) < MOST_FAILURES))
            crossed, places = (
                measure_crossings(self.sightings.inquiry, self.traces, meetings)
                if len(meetings)
                else (np.zeros(0, dtype=bool), [])
            )
            self.met.count(crossed)
            for unit, place in places:
                self._keep(unit, place)
            for row in np.flatnonzero(~crossed):
                key = int(self.traces.seed[meetings.unit[row]]), int(meetings.plane[row])
                self.failures[key] = self.failures.get(key, 0) + 1
            self.say(
                f"  follow {turn}: {len(self.traces)} traces, {added} new, {crossed.sum()} of {len(meetings)} crossed, "
                f"{self.owned.any(axis=1).sum()} of {len(kinks)} kinks"
            )
            if self.met.tell_of_deeper_units:
                break
            voted = 0
            if self.sightings.inquiry.coarse and not crossed.any():
                voted = cross_by_votes(self.sightings, self.traces, kinks[~np.any(self.owned, axis=1)])
                self.say(f"  {voted} weights by votes")
            self.drop_misread()
            gained = bool(crossed.any() or added or voted)
            idle, fruitless = (0, False) if gained else (idle + 1, fruitless)
            if (not len(meetings) and not added and not voted) or idle >= QUIET:
                if fruitless:
                    break
                self.faces = add_extremes(
                    self.faces, self.traces, self.sightings.x[self.traces.seed], self.low, self.high, self.rng
                )
                idle, fruitless = 0, True
        self.own(kinks)
        self.refit()
        self.own(kinks)

    def beyond(self) -> np.ndarray:
        """Points beyond planes never met where units may have parts that no trace leads to."""
        starts = self.sightings.x[self.traces.seed]
        return look_beyond(self.faces, self.traces, starts, self.low, self.high)

    def extend(self, planes: Planes) -> None:
        """More planes, the first of which are the ones known before."""
        self.traces = self.traces.over(planes, self.sightings.x[self.traces.seed])
        self.planes, self.failures = planes, {}
        self.faces: Faces = Faces.draw(planes, self.low, self.high, self.rng)

    def replace_planes(self, planes: Planes) -> None:
        """The same planes, known better."""
        self.traces, self.planes = replace(self.traces, planes=planes), planes

    def replace_traces(self, traces: Traces) -> None:
        """Others over the same planes."""
        self.traces = traces
        self.own(self.kinks)

    def restart(self, planes: Planes) -> None:
        """Begin anew over these planes."""
        self.planes, self.failures = planes, {}
        self.__post_init__()

    def straight(self) -> tuple[np.ndarray, Planes]:
        """Traces that nothing bends, and the planes of the first layer they may be."""
        failed = {seed for (seed, _), count in self.failures.items() if count}
        return find_straight(self.traces, failed)

    def drop(self, numbers: np.ndarray) -> None:
        """Without the numbered traces and those on the same facets, which are no units."""
        kept = np.ones(len(self.traces), dtype=bool)
        kept[numbers] = False
        for j in np.flatnonzero(kept):
            kept[j] = not any(repeated(self.traces, np.array([i, j]))[j] for i in numbers)
        self.traces = self.traces.take(kept)

    def drop_misread(self) -> None:
        """Drop traces that could cross nothing: two bends closer than the scan could tell show a facet that is none."""
        if self.trusting:
            return
        failed = {seed for (seed, _), count in self.failures.items() if count}
        misread = [int(seed) in failed for seed in self.traces.seed]
        self.traces = self.traces.take(self.traces.known.any(axis=1) | ~np.array(misread, dtype=bool))
        self.own(self.kinks)

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
            self._keep(j, (x[mine], error[mine], facet[mine], jump[mine], jump_error[mine]))
        self.refit()
        return int(good.sum())

    def _keep(self, unit: int, places: Places) -> None:
        """More places of a trace's zero set."""
        seed = int(self.traces.seed[unit])
        if seed in self.places:
            places = tuple(np.concatenate(pair) for pair in zip(self.places[seed], places, strict=True))
        self.places[seed] = places

    def drop_parts(self) -> None:
        """Drop traces that share the weights of one that owns more kinks: a unit counts once."""
        t, kept = self.traces, np.ones(len(self.traces), dtype=bool)
        order = np.argsort(-self.owned.sum(axis=0), kind="stable")
        for rank, j in enumerate(order):
            for other in order[rank + 1 :]:
                kept[other] &= not (kept[j] and kept[other] and are_alike(t, int(j), int(other)))
        self.traces = t.take(kept)
        self.own(self.kinks)

    def drop_islets(self) -> None:
        """Drop traces that crossed next to nothing and share the output of one that did: they are parts of it."""
        t = self.traces
        crossed, kept = t.known.sum(axis=1), np.ones(len(t), dtype=bool)
        for j in np.flatnonzero(crossed <= ISLET) if t.output.shape[1] > 1 else ():
            apart = np.linalg.norm(t.output - np.sign(t.output @ t.output[j])[:, None] * t.output[j], axis=1)
            kept[j] = not np.any((apart < DEVIATIONS * (t.turn + t.turn[j])) & (crossed > 2 * ISLET))
        self.traces = t.take(kept)
        self.own(self.kinks)

    def drop_idle(self, idle: np.ndarray, odd: np.ndarray) -> bool:
        """Drop the ``idle`` traces that crossed next to nothing, and ``odd`` ones where most are not; whether any."""
        gone = idle & (self.traces.known.sum(axis=1) <= ISLET)
        if np.mean(odd) < FEW_ODD:
            gone |= odd
        if gone.any():
            self.traces = self.traces.take(~gone)
            self.own(self.kinks)
        return bool(gone.any())

    def alone(self) -> np.ndarray:
        """Covariances of the traces as their own kinks, crossings and places tell them, each for itself."""
        traces = replace(self.traces, gamma=self.traces.gamma.copy(), beta=self.traces.beta.copy())
        traces.covariance = self.traces.covariance.copy()
        for j, seed in enumerate(traces.seed):
            fit_trace(self.sightings, traces, j, self.kinks[self.owned[:, j]], self.places.get(int(seed)))
        return traces.covariance

    def settle(self, traces: Traces) -> None:
        """Go on from traces, and planes below them, that were fitted to all answers together."""
        self.traces, self.planes, self.failures = traces, traces.planes, {}
        width = traces.gamma.shape[1]
        for j, seed in enumerate(traces.seed):
            rows = np.append(np.arange(width), width + np.flatnonzero(traces.known[j]))
            values = np.append(traces.gamma[j], traces.beta[j])[rows]
            self.priors[int(seed)] = Prior(
                traces.known[j].copy(), values, traces.covariance[j][np.ix_(rows, rows)]
            )
        self.own(self.kinks)

    def begin(self, kinks: np.ndarray) -> int:
        """Traces at kinks with a facet that no trace owns; how many."""
        s = self.sightings
        free = kinks[~(self.owned.any(axis=1) | self.taken)] if len(self.owned) else kinks
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
        self.kinks = kinks
        self.owned: np.ndarray = self._own(self.traces)
        self.taken: np.ndarray = np.zeros(len(kinks), dtype=bool)
        if self.others is not None and self.others.beta.shape[1] == len(self.planes):
            self.taken = np.asarray(self._own(self.others).any(axis=1))

    def _own(self, traces: Traces) -> np.ndarray:
        s, kinks = self.sightings, self.kinks
        x, across = s.x[kinks], s.across[kinks]
        heights = self.planes.heights(x)
        signs = np.where(heights > 0, 1.0, -1.0)
        values, holds = traces.values(x, heights), traces.holds(signs)
        owned = np.zeros(holds.shape, dtype=bool)
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
            owned[rows[near], j] = True
        return owned

    def refit(self) -> None:
        """Least squares for every trace from its own kinks and crossings."""
        for j in range(len(self.traces)):
            seed = int(self.traces.seed[j])
            places = len(self.places[seed][0]) if seed in self.places else 0
            news = int(self.traces.known[j].sum()), int(self.owned[:, j].sum()), places, len(self.planes)
            if self.fitted.get(seed) != news:
                self.fitted[seed] = news
                own = self.kinks[self.owned[:, j]]
                fit_trace(self.sightings, self.traces, j, own, self.places.get(seed), self.priors.get(seed))

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
                key = int(traces.seed[j]), int(traces.seed[other])
                news = int(traces.known[j].sum()), int(traces.known[other].sum())
                if self.compared.get(key) != news:
                    self.compared[key] = news
                    gone[other] = unite(traces, int(j), int(other))
        if gone.any():
            self.traces = traces.take(~gone)
            self.own(self.kinks)

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
