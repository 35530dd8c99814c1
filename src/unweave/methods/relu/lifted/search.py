"""The search for two hidden layers: lines, planes, units, a network, and again where the answers disagree.

Kinks on lines give the planes of the first layer and the places where units of the second begin; these are followed
through the domain. The network put together from them is compared with every answer, and points or kinks that
contradict it say where the next lines go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.methods.relu.lifted.assemble import Assembly, assemble, orient_first
from unweave.methods.relu.lifted.compose import compose, evaluation_error
from unweave.methods.relu.lifted.draw import box_faces, edge_lines, fair_lines, lines_through, spread_out
from unweave.methods.relu.lifted.follow import Follower
from unweave.methods.relu.lifted.information import (
    Information,
    can_measure,
    choose_points,
    measure_information,
    without_units,
)
from unweave.methods.relu.lifted.planes import Planes, add_planes, drop_facets, explained, find_planes
from unweave.methods.relu.lifted.refit import DENSE, WORK, refit
from unweave.methods.relu.lifted.shallow import assemble_one
from unweave.methods.relu.lifted.sharpen import sharpen_planes
from unweave.methods.relu.lifted.sightings import Sightings
from unweave.probes.inquiry import Inquiry

MOST_FACETS = 400
"""Unexplained kinks that are looked at in one go."""
BEYOND = 8.0
"""No answer may lie farther from the network than this many of its error bars."""
FLAGGED = 0.05
"""Relative standard error above which a unit may be left out."""
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
    say: Callable[[str], None] = print
    planes: Planes = field(init=False)
    follower: Follower | None = None
    assembly: Assembly | None = None
    network: Network | None = None
    wrong: float = 1.0
    """Share of all answers beyond their error bars."""
    information: Information | None = None
    suspects: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Points (n, d) at which an earlier network was wrong."""
    roughness: float = 1.0
    """By how much the fit has shown the answers to be rougher than measured before."""

    def __post_init__(self):
        self.sightings = Sightings(self.inquiry, self.rng)
        self.planes = Planes.none(self.inquiry.input_size)
        self.suspects = self.suspects.reshape(-1, self.inquiry.input_size)

    @property
    def domain(self):
        return self.inquiry.meter.domain

    @property
    def is_bounded(self) -> bool:
        return not np.isinf(self.domain.reach(self.inquiry.input_size))

    @property
    def is_composed(self) -> bool:
        """Whether the network is put together to the last digit, so that no fit to answers could better it."""
        return self.is_bounded and not self.inquiry.coarse and not self.is_shallow

    @property
    def num_units(self) -> int:
        return 0 if self.follower is None else len(self.follower.traces)

    def draw(self, num_lines: int) -> None:
        s = self.sightings
        gradients = s.facet[s.measured][:, :-1]
        with self.inquiry.meter.stage("lines"):
            s.add_lines(fair_lines(self.domain, num_lines, self.inquiry.input_size, self.rng, gradients))

    def draw_edges(self, num_lines: int) -> None:
        """Lines along edges of a box, where units show that are active in its corners only."""
        if isinstance(self.domain, Box):
            with self.inquiry.meter.stage("lines"):
                self.sightings.add_lines(edge_lines(self.domain, *self.box, num_lines, self.rng), fair=False)

    def find_planes(self) -> None:
        with self.inquiry.meter.stage("first layer"):
            self._grow(find_planes(self.sightings, self.planes))

    def _grow(self, planes: Planes) -> np.ndarray:
        """More planes than before, brought to the accuracy of the answers; which of the new ones hold."""
        before = len(self.planes)
        fresh = np.arange(before, len(planes))
        if not len(fresh):
            return fresh
        low, high = self.box
        holds = np.ones(len(planes), dtype=bool)
        for _ in range(2 if self.inquiry.coarse else 1):
            planes, holds = sharpen_planes(self.inquiry, planes, fresh, low, high, self.rng)
        holds[:before] = True
        self.planes = planes.take(holds)
        if self.follower is not None and len(self.planes) > before:
            if self.inquiry.coarse:  # rough answers do not always show a bend that was not reckoned with
                self.follower.restart(self.planes)
            else:
                self.follower.extend(self.planes)
        return np.flatnonzero(holds[before:])

    def _promote(self) -> bool:
        """Whether traces that nothing bends are planes of the first layer; these are added."""
        assert self.follower is not None
        numbers, planes = self.follower.straight()
        traces = self.follower.traces
        holding = self._grow(self.planes.join(planes))
        if not self.inquiry.coarse or self.follower.traces is traces:
            self.follower.drop(numbers[holding])
        return len(holding) > 0

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """A box in which zero sets are followed: the domain's own, or around most of the kinks."""
        d = self.inquiry.input_size
        if self.is_bounded:
            points = np.concatenate(
                [self.domain.sample(200, d, self.rng), self.domain.edge(400, d, self.rng)]
            )
            return points.min(axis=0), points.max(axis=0)
        reach = float(np.quantile(np.abs(self.sightings.x), 0.9)) if len(self.sightings) else 1.0
        return np.full(d, -reach), np.full(d, reach)

    def open_kinks(self) -> np.ndarray:
        """Kinks that no plane explains."""
        return np.flatnonzero(~explained(self.sightings, self.planes))

    def unknown_kinks(self) -> np.ndarray:
        """Kinks that neither planes nor units explain."""
        kinks = self.open_kinks()
        if self.follower is None or not len(self.follower.traces):
            return kinks
        self.follower.own(kinks)
        return kinks[~self.follower.owned.any(axis=1)]

    @property
    def is_shallow(self) -> bool:
        """Whether planes of one layer explain every kink, but for a few that were misread."""
        return len(self.planes) > 0 and len(self.open_kinks()) <= 0.02 * len(self.sightings) + 1

    def explain(self, max_rounds: int = 4) -> None:
        """Planes and units behind the kinks that are not explained yet."""
        s = self.sightings
        for _ in range(max_rounds):
            unknown = self.unknown_kinks()
            fresh = unknown[~s.tried[unknown]][:MOST_FACETS]
            with self.inquiry.meter.stage("second layer"):
                s.measure(fresh)
                self._grow(drop_facets(s, add_planes(s, self.planes, fresh), len(self.planes)))
                if not len(self.planes):
                    return
                if self.follower is None:
                    self.follower = Follower(s, self.planes, *self.box, self.rng, self.say)
                self.follower.follow(self.open_kinks())
                if self.inquiry.coarse:  # what is known better goes farther
                    self.follower.sharpen(self.open_kinks())
                    self.follower.failures.clear()
                    self.follower.follow(self.open_kinks())
                if not self._promote():
                    break

    def fit(self) -> None:
        """Put the network together and fit it to the answers; ``wrong`` says how it does on all of them."""
        x, y, bars = self._answers()
        few = self.rng.permutation(len(x))[:4000]
        if self.is_shallow:
            rough = 1e4 * self.inquiry.relative
            self.assembly = assemble_one(self.planes, x[few], y[few], bars[few], self.domain, rough=rough)
        elif self.num_units:
            self.assembly = self._put_together(x[few], y[few], bars[few])
        else:
            return
        network = self.assembly.network
        misses = self._misses(network, x, y, bars)
        self.say(
            f"  assembled {network.hidden}, affine {self.assembly.num_affine}, miss {np.median(misses):.1e}"
        )
        self.network, self.wrong = network, float(np.mean(misses > BEYOND))
        if not self.is_composed:
            self.sharpen()

    def _put_together(self, x, y, bars) -> Assembly:
        """By the sides that the planes' sums tell, or, in a bounded domain, with what is affine there left as it is."""
        assert self.follower is not None
        with self.inquiry.meter.stage("second layer"):
            for _ in range(2):
                self.follower.sharpen(self.open_kinks())
        units = self.follower.units()
        plain = assemble(self.planes, units, x, y, bars, self.domain)
        if not self.is_bounded:
            return plain
        ratios, *_ = orient_first(self.planes, units)
        sides = np.where(ratios < 0, -1.0, 1.0)
        free = compose(self.planes, self.follower.traces, sides, x, y, bars, self.domain, self.follower.faces)
        misses = [self._misses(a.network, x, y, bars) for a in (plain, free)]
        wrong = [
            (float(np.mean(m > BEYOND)), float(np.median(m)) > BEYOND, float(np.median(m))) for m in misses
        ]
        self.say("  plain, free form: " + ", ".join(f"wrong {w[0]:.4f} miss {w[2]:.1e}" for w in wrong))
        return plain if wrong[0][:2] < wrong[1][:2] or wrong[0] <= wrong[1] else free

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
        """Deviations in error bars, the rounding of the network's own sums among them."""
        return np.max(np.abs(network(x) - y), axis=1) / (bars + evaluation_error(network, x))

    def error_bars(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of answers against the network found."""
        assert self.network is not None
        return self.inquiry.bars(x, y) + evaluation_error(self.network, x)

    def ask_fresh(self, num_points: int) -> float:
        """The share of fresh points that contradict the network."""
        assert self.network is not None
        x = self.candidates(num_points)
        with self.inquiry.meter.stage("fresh points"):
            y = self.inquiry.meter.ask(x)
        x = self.inquiry.meter.snap(x)
        return float(np.mean(self._misses(self.network, x, y, self.inquiry.bars(x, y)) > BEYOND))

    def candidates(self, num_points: int) -> np.ndarray:
        """Points from all over the domain, its edge and corners, and at several scales where it has no end."""
        d, third = self.inquiry.input_size, num_points // 3
        x = [self.domain.sample(num_points - third, d, self.rng), self.domain.edge(third, d, self.rng)]
        if not self.is_bounded:
            spread = np.exp(self.rng.uniform(-1, 4, (third, 1)))
            x.append(spread * self.rng.standard_normal((third, d)))
        else:
            low, high = self.box
            x.append(self.domain.nearest(box_faces(low, high, 2 * third, self.rng)))
            if d <= 8:
                bits = np.array(np.meshgrid(*[[0.0, 1.0]] * d)).reshape(d, -1).T
                x.append(self.domain.nearest(low + (high - low) * bits))
        return np.concatenate([*x, self.suspects])

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

    def draw_towards(self, least: int, most: int) -> None:
        """Lines through answers and kinks that the network does not explain, half of them to right answers near by."""
        s, d = self.sightings, self.inquiry.input_size
        points, right = [s.x[self.unknown_kinks()]], np.zeros((0, d))
        if self.network is not None and self.wrong < 0.5:
            x, y, bars = self._answers()
            misses = self._misses(self.network, x, y, bars)
            points.append(x[misses > BEYOND])
            right = x[misses <= BEYOND]
        where = np.concatenate(points)
        if len(where):
            typical = float(np.median(np.linalg.norm(s.x, axis=1))) if len(s.x) else 1.0
            where = where[np.linalg.norm(where, axis=1) < 100 * (1 + typical)]
        num_lines = int(np.clip(len(where) // 2, least, most))
        if not len(where):
            return self.draw(num_lines)
        starts = where[spread_out(where / (np.std(where, axis=0) + 1e-300), num_lines, self.rng)]
        num_lines = len(starts)
        goals = self.domain.sample(num_lines, d, self.rng)
        for row in range(0, num_lines, 2):
            if len(right) > 40:
                near = np.argsort(np.linalg.norm(right - starts[row], axis=1))[:40]
                goals[row] = right[self.rng.choice(near)]
                # never along a plane that both lie on
                goals[row] += 0.1 * np.linalg.norm(goals[row] - starts[row]) * self.rng.standard_normal(d)
        with self.inquiry.meter.stage("lines"):
            s.add_lines(lines_through(self.domain, starts, goals), fair=False)
        return None
