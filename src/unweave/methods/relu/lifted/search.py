"""The search for two hidden layers: lines, planes, facets, units, a network, and again where the answers disagree.

Kinks are looked at line after line until planes and units explain what further lines show; the network put together
from them is fitted to every answer, and points or kinks that contradict it say where the next lines go.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.lifted.assemble import Assembly, assemble
from unweave.methods.relu.lifted.draw import fair_lines, lines_through
from unweave.methods.relu.lifted.groups import find_units
from unweave.methods.relu.lifted.information import (
    Information,
    can_measure,
    choose_points,
    measure_information,
    without_units,
)
from unweave.methods.relu.lifted.planes import Planes, add_planes, explained, find_planes
from unweave.methods.relu.lifted.refit import DENSE, WORK, refit
from unweave.methods.relu.lifted.shallow import assemble_one
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings
from unweave.methods.relu.lifted.units import Facets, Unit
from unweave.methods.relu.lifted.walk import walk_lines
from unweave.probes.inquiry import Inquiry

MOST_FACETS = 400
"""Unexplained kinks that are looked at in one go."""
BEYOND = 8.0
"""No answer may lie farther from the network than this many of its error bars."""
FLAGGED = 0.05
"""Relative standard error above which a unit may be left out."""
POOR = 1e-6
"""Typical relative miss of an assembled network above which its sides are in doubt."""
ORDINARY = 0.7
"""Root mean square of deviations in error bars where these are measured well."""
FLOPS = 2e10
"""Work of one step of least squares, which bounds the rows it looks at."""


@dataclass
class Search:
    """What is known so far."""

    inquiry: Inquiry
    rng: np.random.Generator
    deadline: float
    say: object = print
    planes: Planes = field(init=False)
    units: list[Unit] = field(default_factory=list)
    assembly: Assembly | None = None
    network: Network | None = None
    wrong: float = 1.0
    """Share of all answers beyond their error bars."""
    information: Information | None = None
    roughness: float = 1.0
    """By how much the fit has shown the answers to be rougher than measured before."""

    def __post_init__(self):
        self.sightings = Sightings(self.inquiry, self.rng)
        self.planes = Planes.none(self.inquiry.input_size)
        self._walked: set[tuple[bytes, int]] = set()

    @property
    def domain(self):
        return self.inquiry.meter.domain

    def draw(self, num_lines: int) -> None:
        s = self.sightings
        gradients = s.facet[s.measured][:, :-1]
        with self.inquiry.meter.stage("lines"):
            s.add_lines(fair_lines(self.domain, num_lines, self.inquiry.input_size, self.rng, gradients))

    def find_planes(self) -> None:
        with self.inquiry.meter.stage("first layer"):
            before = len(self.planes)
            self.planes = find_planes(self.sightings, self.planes)
        if len(self.planes) != before:  # units are sums over the planes
            self.units = []

    def open_kinks(self) -> np.ndarray:
        """Kinks that no plane explains."""
        return np.flatnonzero(~explained(self.sightings, self.planes))

    @property
    def is_shallow(self) -> bool:
        """Whether planes of one layer explain every kink, but for a few that were misread."""
        return len(self.planes) > 0 and len(self.open_kinks()) <= 0.02 * len(self.sightings) + 1

    def find_units(self, *, quiet: int = 1) -> None:
        """Facets at unexplained kinks, line after line, until lines hardly show anything new; then at all the rest."""
        s, silent = self.sightings, 0
        if not self.units:
            self.regroup()
        known = self.known_kinks()
        for line in range(len(s.scans)):
            if time.monotonic() > self.deadline or silent > quiet:
                break
            fresh = np.flatnonzero((s.line == line) & ~known & ~s.tried)
            if not len(fresh):
                continue
            silent += len(fresh) <= 0.05 * np.sum(s.line == line)
            if self._look_at(fresh) or line % 2 or line < 2:
                self.regroup()
                known = self.known_kinks()
        self.regroup()
        fresh = np.flatnonzero(~self.known_kinks() & ~s.tried)
        if len(fresh):
            self._look_at(fresh[self.rng.permutation(len(fresh))[:MOST_FACETS]])
            self.regroup()

    def _look_at(self, kinks: np.ndarray) -> bool:
        """Measure the facets at kinks; whether planes of the first layer turn up among them."""
        before = len(self.planes)
        with self.inquiry.meter.stage("second layer"):
            self.sightings.measure(kinks)
        self.planes = add_planes(self.sightings, self.planes, kinks)
        return len(self.planes) != before

    def walk(self, max_rounds: int = 6) -> None:
        """Follow the units across planes that lie between no two of their facets yet."""
        s = self.sightings
        for _ in range(max_rounds):
            if time.monotonic() > self.deadline:
                break
            lines = walk_lines(
                self.planes, self.units, s.x, s.facet, self.domain, self.rng, done=self._walked
            )
            if lines is None:
                break
            with self.inquiry.meter.stage("second layer"):
                kinks = s.add_lines(lines, fair=False, num_nodes=7)
            kinks = kinks[~self.known_kinks()[kinks]]
            before = sum(int(u.told.sum()) for u in self.units), len(self.units)
            self._look_at(kinks)
            self.regroup()
            after = sum(int(u.told.sum()) for u in self.units), len(self.units)
            self.say(
                f"    walk: {len(lines)} lines, {len(kinks)} kinks, weights and units {before} -> {after}"
            )
            if after == before:
                break

    def regroup(self) -> None:
        numbers = self.open_kinks()
        numbers = numbers[self.sightings.measured[numbers]]
        self.units = find_units(Facets(self.sightings, self.planes, numbers)) if len(numbers) >= 3 else []

    def known_kinks(self) -> np.ndarray:
        """Kinks that planes or units explain."""
        s = self.sightings
        known = explained(s, self.planes)
        if not len(s):
            return known
        heights = self.planes.heights(s.x)
        signs = np.where(heights > 0, 1.0, -1.0)
        extended = np.hstack([s.x, np.ones((len(s), 1))])
        for unit in self.units:
            beta = np.where(unit.shown, unit.beta, 0.0)
            facet = unit.gamma + (signs * beta) @ np.hstack(
                [self.planes.normals, self.planes.offsets[:, None]]
            )
            size = np.linalg.norm(facet[:, :-1], axis=1)
            rate = np.abs(np.einsum("nd,nd->n", facet[:, :-1], s.across))
            members = unit.members
            spread = float(np.median(s.facet_error[members] / np.maximum(s.size[members], 1e-300)))
            reach = 1 + np.linalg.norm(s.x, axis=1)
            allowed = DEVIATIONS * (
                s.error * rate + (spread + 1e-9) * size * reach / np.sqrt(len(members)) * 2
            )
            inside = np.all(unit.shown | (signs == unit.signs), axis=1)
            known |= inside & (np.abs(np.einsum("ni,ni->n", facet, extended)) <= allowed)
        return known

    def fit(self) -> None:
        """Put the network together and fit it to the answers; ``wrong`` says how it does on all of them."""
        x, y, bars = self._answers()
        few = self.rng.permutation(len(x))[:3000]
        if self.is_shallow:
            rough = 1e4 * self.inquiry.relative
            self.assembly = assemble_one(self.planes, x[few], y[few], bars[few], self.domain, rough=rough)
        elif self.units:
            self.assembly = assemble(self.planes, self.units, x[few], y[few], bars[few], self.domain)
            if (
                not np.isinf(self.domain.reach(x.shape[1]))
                and self._typical(self.assembly) > POOR / self.inquiry.relative
            ):
                loose = assemble(self.planes, self.units, x[few], y[few], bars[few], self.domain, free=True)
                self.say(f"  free form: {self._typical(self.assembly):.1e} -> {self._typical(loose):.1e}")
                if self._typical(loose) < 0.1 * self._typical(self.assembly):
                    self.assembly = loose
        else:
            return
        network = self.assembly.network
        misses = self._misses(network, x, y, bars)
        self.say(
            f"  assembled {network.hidden}, affine {self.assembly.num_affine}, miss {np.median(misses):.1e}"
        )
        self.network, self.wrong = network, float(np.mean(misses > BEYOND))
        self.sharpen()

    def _typical(self, assembly: Assembly) -> float:
        return float(np.median(self._misses(assembly.network, *self._answers())))

    def sharpen(self, max_passes: int = 5) -> None:
        """Fit the network to the answers, the worst of them first; what makes it worse is not kept."""
        rows = np.zeros(0, dtype=int)
        for turn in range(max_passes):
            assert self.network is not None
            x, y, bars = self._answers()
            misses = self._misses(self.network, x, y, bars)
            self.wrong = float(np.mean(misses > BEYOND))
            if (self.wrong == 0 and (turn or not self.inquiry.coarse)) or time.monotonic() > self.deadline:
                return
            if turn < 2:
                rows = self._choose_rows(misses, y.shape[1], turn + (self.wrong < 0.1))
            else:  # what the last fit did not see and misses
                rows = np.union1d(rows, np.argsort(-misses)[: max(20, len(rows) // 8)])
            result = refit(self.network, x[rows], y[rows], bars[rows], deadline=self.deadline)
            misses = self._misses(result.network, x, y, bars)
            wrong = float(np.mean(misses > BEYOND))
            self.say(
                f"    refit {len(rows)} rows rms {result.rms:.1e} steps {result.num_steps} wrong {wrong:.4f}"
            )
            if wrong > self.wrong and turn != 1:
                return
            worth = wrong < 0.9 * self.wrong or wrong == 0
            self.network, self.wrong = result.network, wrong
            if wrong < 0.1 and ORDINARY < result.rms < 2.5:  # the answers are rougher than they seemed
                self._roughen(result.rms / ORDINARY)
            if not worth or wrong > 0.6:
                return

    def _roughen(self, factor: float) -> None:
        factor = min(factor, 4 / self.roughness)
        self.roughness *= factor
        inquiry = self.inquiry
        self.inquiry = replace(inquiry, relative=inquiry.relative * factor, noise=inquiry.noise * factor)

    def _choose_rows(self, misses: np.ndarray, num_outputs: int, turn: int) -> np.ndarray:
        """Rows for a fit: more of them the later, a third of them the worst so far."""
        assert self.network is not None
        size = self.network.num_parameters
        count = int(np.clip(FLOPS / size**2, 4 * size, 8 * size)) * 6**turn
        if size <= DENSE:  # as many as exact steps can take
            count = min(count, int(max(WORK / size**2, 4 * size)))
        count = count // num_outputs + 50
        if len(misses) <= count:
            return np.arange(len(misses))
        worst = np.argsort(-misses)[: count // 3] if self.wrong < 0.5 else np.zeros(0, dtype=int)
        return np.union1d(self.rng.permutation(len(misses))[: count - len(worst)], worst)

    def _answers(self):
        x, y = self.inquiry.meter.transcript()
        return x, y, self.inquiry.bars(x, y)

    @staticmethod
    def _misses(network: Network, x, y, bars) -> np.ndarray:
        return np.max(np.abs(network(x) - y), axis=1) / bars

    def ask_fresh(self, num_points: int) -> float:
        """The share of fresh points that contradict the network."""
        assert self.network is not None
        x = self.candidates(num_points)
        with self.inquiry.meter.stage("fresh points"):
            y = self.inquiry.meter.ask(x)
        x = self.inquiry.meter.snap(x)
        return float(np.mean(self._misses(self.network, x, y, self.inquiry.bars(x, y)) > BEYOND))

    def candidates(self, num_points: int) -> np.ndarray:
        """Points from all over the domain, its edge, and at several scales where it has no end."""
        d, third = self.inquiry.input_size, num_points // 3
        x = [self.domain.sample(num_points - third, d, self.rng), self.domain.edge(third, d, self.rng)]
        if np.isinf(self.domain.reach(d)):
            spread = np.exp(self.rng.uniform(-1, 4, (third, 1)))
            x.append(spread * self.rng.standard_normal((third, d)))
        return np.concatenate(x)

    def inform(self, goal: float, *, num_points: int = 120, max_rounds: int = 5) -> Information | None:
        """Ask where the parameters that are still open show most, and fit again."""
        information = None
        for turn in range(max_rounds):
            assert self.network is not None
            if not can_measure(self.network) or time.monotonic() > self.deadline:
                break
            x, y, bars = self._answers()
            rows = self._choose_rows(np.zeros(len(x)), y.shape[1], 2)
            rows = np.union1d(rows, np.arange(max(0, len(x) - turn * num_points - 500), len(x)))
            information = measure_information(self.network, x[rows], bars[rows], goal=goal)
            self.say(f"  inform {turn}: worst {information.worst:.1e} weak {information.weak.shape[1]}")
            if information.worst < goal or not information.weak.shape[1] or turn == max_rounds - 1:
                break
            near = x[self.rng.integers(len(x), size=1000)]
            near = near + 0.1 * np.std(x, axis=0) * self.rng.standard_normal(near.shape)
            pool = np.concatenate([self.candidates(3000), near[self.domain.contains(near)]])
            chosen = choose_points(information, pool, self.inquiry.bars, num_points)
            with self.inquiry.meter.stage("informative points"):
                self.inquiry.meter.ask(chosen)
            self.sharpen()
            if self.wrong > 0:
                break
        return information

    def drop_flagged(self, information: Information, max_tries: int = 12) -> bool:
        """Leave out units whose weights no answer determines, worst first, if the answers do not need them."""
        assert self.network is not None
        flagged = [
            (float(e), layer, unit)
            for layer, errors in enumerate(information.units[:-1])
            for unit, e in enumerate(errors)
            if e > FLAGGED
        ]
        network = self.network
        kept = [np.ones(len(errors), dtype=bool) for errors in information.units[:-1]]
        dropped = False
        for _, layer, unit in sorted(flagged, reverse=True)[:max_tries]:
            if time.monotonic() > self.deadline or kept[layer].sum() == 1:
                break
            kept[layer][unit] = False
            before = self.network, self.wrong
            self.network = without_units(network, [np.flatnonzero(k) for k in kept])
            self.sharpen()
            if self.wrong > 0:
                kept[layer][unit] = True
                self.network, self.wrong = before
            else:
                dropped = True
        if flagged:
            self.say(f"  of {len(flagged)} flagged units: {self.network.hidden} are left")
        return dropped

    def draw_towards(self, num_lines: int) -> None:
        """Lines through answers and kinks that the network does not explain."""
        s, d = self.sightings, self.inquiry.input_size
        points = [s.x[~self.known_kinks()]]
        if self.network is not None and self.wrong < 0.5:
            x, y, bars = self._answers()
            points.append(x[self._misses(self.network, x, y, bars) > BEYOND])
        where = np.concatenate(points)
        where = where[np.linalg.norm(where, axis=1) < 100 * (1 + np.median(np.linalg.norm(s.x, axis=1)))]
        if not len(where):
            return self.draw(num_lines)
        starts = where[self.rng.integers(len(where), size=num_lines)]
        near = (
            s.x[self.rng.integers(len(s), size=num_lines)]
            if len(s)
            else self.domain.sample(num_lines, d, self.rng)
        )
        with self.inquiry.meter.stage("lines"):
            s.add_lines(lines_through(self.domain, starts, near), fair=False)
        return None
