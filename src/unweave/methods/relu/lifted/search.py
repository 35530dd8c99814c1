"""The search for two hidden layers: where the answers disagree with the network, more of them are asked.

The network put together from planes and units is compared with every answer and with fresh ones; points and kinks that
contradict it say where the next lines go, parameters that hardly show where the next points lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.certificates.rare_patterns import find_rare_patterns
from unweave.certificates.visible import measure_visible
from unweave.core import clock
from unweave.evidence.precision import Precision
from unweave.methods.relu.beside import points_beside
from unweave.methods.relu.lifted.compare import BEYOND
from unweave.methods.relu.lifted.draw import box_faces, lines_through, spread_out, ways_between
from unweave.methods.relu.lifted.fitting import CORNERS
from unweave.methods.relu.lifted.information import (
    Information,
    can_measure,
    choose_points,
    measure_information,
    without_units,
)
from unweave.methods.relu.lifted.left import with_left_over
from unweave.methods.relu.lifted.mend import Mended
from unweave.methods.relu.lifted.parts import fit_where_rare, put_together
from unweave.methods.relu.lifted.refit import refit
from unweave.methods.relu.lifted.ridge_sum import put_up

MOST_LEFT, BESIDE = 3, 8
"""Units looked for in what is left over, and points asked for each of the first layer's units to tell one."""
GAINING = 0.8
"""Share of a standard error that may be left where points asked for it were of use."""
STRICT = 4.0
"""How many times better than a certificate asks for units are to be known before it."""
KNOWN = 0.01
"""Relative standard error of every unit that a certificate asks for."""
FLAGGED = 0.05
"""Relative standard error above which a unit may be left out."""

FAR_AND_WIDE = 2000
"""Points of the domain, and of its edge, at which a unit put together from parts must not change sign anew."""


@dataclass
class Search(Mended):
    """What is known so far."""

    information: Information | None = None
    precision: Precision | None = None
    """Of the answers, as it was measured before."""

    @property
    def can_go_on(self) -> bool:
        """Whether there is a sum that questions elsewhere can mend."""
        return self.is_composed and self.inquiry.coarse and self.point is not None

    def go_on(self, deadline: float, suspects: np.ndarray) -> None:
        """Beside points where the network proved wrong: the sum mended there, not begun anew."""
        self.deadline, self.suspects = deadline, suspects
        with self.inquiry.meter.stage("fresh points"):
            self.inquiry.meter.ask(self.domain.nearest(suspects))
        self.mend()

    def ask_fresh(self, num_points: int) -> float:
        """The share of fresh points that contradict the network.

        In a bounded domain as many again where a rare unit may be on: most of those missed are met there first.
        """
        assert self.network is not None
        x = self.candidates(num_points)
        if self.is_composed:
            x = np.concatenate([x, find_rare_patterns(self.network, num_points, self.domain, None, self.rng)])
        with self.inquiry.meter.stage("fresh points"):
            y = self.inquiry.meter.ask(x)
        x = self.inquiry.meter.snap(x)
        return float(np.mean(self._misses(self.network, x, y, self.inquiry.bars(x, y)) > BEYOND))

    def is_far_off(self) -> bool:
        """Whether more of all answers are wrong than units of corners would spoil."""
        assert self.network is not None
        self.wrong = float(np.mean(self._misses(self.network, *self._answers()) > BEYOND))
        return self.wrong > CORNERS

    def add_left_over(self) -> None:
        """Where a domain has no end and few answers are wrong: units that are rarely on, told by these."""
        for _ in range(MOST_LEFT):
            network = self.network
            if network is None or len(network.hidden) != 2 or network.activations[0] != "relu":
                return
            x, y, bars = self._answers()
            misses = self._misses(network, x, y, bars)
            self.wrong = float(np.mean(misses > BEYOND))
            if not 0 < self.wrong < CORNERS or clock.now() > self.deadline:
                return
            # what is missing pulls at all that is known
            right = self.rng.permutation(np.flatnonzero(misses <= BEYOND))[: 4 * network.num_parameters]
            clean = refit(network, x[right], y[right], bars[right], deadline=self.deadline).network
            points = points_beside(
                x[misses > BEYOND], BESIDE * len(network.weights[0]), self.domain, self.rng
            )
            with self.inquiry.meter.stage("missing units"):
                self.inquiry.meter.ask(points)
            x, y, bars = self._answers()
            grown = with_left_over(clean, x, y, bars, self.rng)
            if grown is None:
                return
            before, after = (float(np.mean(self._misses(n, x, y, bars) > BEYOND)) for n in (clean, grown))
            self.say(f"  one unit from what is left over: wrong {before:.4f} -> {after:.4f}")
            if after > before / 2:
                return
            self.network, self.wrong = grown, after

    def candidates(self, num_points: int) -> np.ndarray:
        """Points from all over the domain, its edge and corners, and at several scales where it has no end."""
        d, third = self.inquiry.input_size, num_points // 3
        x = [self.domain.sample(num_points - third, d, self.rng), self.domain.edge(third, d, self.rng)]
        if not self.is_bounded:
            spread = np.exp(self.rng.uniform(-1, 4, (third, 1)))
            x.append(self.domain.nearest(spread * self.rng.standard_normal((third, d))))
        else:
            low, high = self.box
            x.append(self.domain.nearest(box_faces(low, high, 2 * third, self.rng)))
            if d <= 8:
                bits = np.array(np.meshgrid(*[[0.0, 1.0]] * d)).reshape(d, -1).T
                x.append(self.domain.nearest(low + (high - low) * bits))
        return np.concatenate([*x, self.suspects])

    def inform(self, goal: float, *, num_points: int = 120, max_rounds: int = 5) -> Information | None:
        """Ask where the parameters that are still open show most, and fit again."""
        information, before = None, np.inf
        for turn in range(max_rounds):
            assert self.network is not None
            if not can_measure(self.network) or clock.now() > self.deadline:
                break
            x, y, bars = self._answers()
            rows = self._choose_rows(np.zeros(len(x)), y.shape[1], 2)
            rows = np.union1d(rows, np.arange(max(0, len(x) - turn * num_points - 500), len(x)))
            information = measure_information(self.network, x[rows], bars[rows], goal=goal)
            self.say(f"  inform {turn}: worst {information.worst:.1e} weak {information.weak.shape[1]}")
            if information.worst < goal or not information.weak.shape[1] or turn == max_rounds - 1:
                break
            if information.worst > GAINING * before and information.worst < FLAGGED:  # no question tells more
                break
            before = information.worst
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

    def ask_telling(self, max_rounds: int = 3) -> None:
        """In a bounded domain: ask where what it shows of the parameters is not known yet."""
        before = np.inf
        for _ in range(max_rounds):
            if self.network is None or self.wrong > 0 or clock.now() > self.deadline:
                break
            x, y, bars = self._answers()
            precision = self.precision
            noise = float(np.min(bars)) if precision is None else precision.noise
            unit = self.inquiry.relative if precision is None else precision.unit
            # the certificate looks at other points, and at other answers first
            rare = self.rare_places() if self.point is not None else None
            visible = measure_visible(
                self.network,
                x,
                self.domain,
                noise,
                unit,
                self.rng,
                KNOWN,
                thorough=2,
                strict=STRICT,
                others=rare,
            )
            points = visible.telling
            self.say(f"  {len(points)} points would tell more, worst {np.max(visible.deviations):.1e}")
            worst = float(np.max(visible.deviations))
            if not len(points) or GAINING * before < worst < KNOWN:  # no question tells more
                break
            before = worst
            with self.inquiry.meter.stage("informative points"):
                self.inquiry.meter.ask(points)
            x, y, bars = self._answers()
            if self.inquiry.coarse:
                self.telling = np.append(self.telling, np.arange(len(x) - len(points), len(x)))
                self.mend()
            else:
                self.wrong = float(np.mean(self._misses(self.network, x, y, bars) > BEYOND))

    def ask_beyond(self) -> None:
        """In a bounded domain, exact answers: ask beyond planes where a unit may have a part that no trace leads to."""
        if self.follower is None or self.network is None or not self.is_bounded:
            return
        points = self.domain.nearest(self.follower.beyond())
        if len(points):
            with self.inquiry.meter.stage("rare units"):
                self.inquiry.meter.ask(points)
            self.wrong = float(np.mean(self._misses(self.network, *self._answers()) > BEYOND))
            self.say(f"  {len(points)} points beyond planes: wrong {self.wrong:.5f}")

    def join_parts(self) -> None:
        """In a bounded domain, exact answers: parts of one unit as one, if every answer bears it out."""
        follower = self.follower
        if follower is None or self.network is None:
            return
        x, y, bars = self._answers()
        traces, before = follower.traces, (self.point, self.assembly, self.network, self.wrong)
        d = self.inquiry.input_size
        where = np.concatenate(
            [self.domain.sample(FAR_AND_WIDE, d, self.rng), self.domain.edge(FAR_AND_WIDE, d, self.rng)]
        )
        joined, which = put_together(traces, follower.faces, np.concatenate([x, where]))
        if not which:
            return
        follower.replace_traces(joined)
        some = self.rng.permutation(len(x))[:4000]
        self.point = put_up(joined, follower.faces, x[some], y[some], bars[some])
        for unit in which:
            self.point = fit_where_rare(self.point, unit, x, y, bars)
        self._recompose()
        self.say(f"  {len(traces)} traces are parts of {len(joined)} units: wrong {self.wrong:.5f}")
        if self.wrong > 0:
            follower.replace_traces(traces)
            self.point, self.assembly, self.network, self.wrong = before

    def drop_flagged(self, information: Information, *, least: float = FLAGGED, max_tries: int = 12) -> bool:
        """Leave out units whose weights no answer determines, worst first, if the answers do not need them."""
        assert self.network is not None
        flagged = [
            (float(e), layer, unit)
            for layer, errors in enumerate(information.units[:-1])
            for unit, e in enumerate(errors)
            if e > least
        ]
        network = self.network
        kept = [np.ones(len(errors), dtype=bool) for errors in information.units[:-1]]
        dropped = False
        for _, layer, unit in sorted(flagged, reverse=True)[:max_tries]:
            if clock.now() > self.deadline or kept[layer].sum() == 1:
                break
            kept[layer][unit] = False
            before = self.network, self.wrong
            self.network = without_units(network, [np.flatnonzero(k) for k in kept])
            self.sharpen()
            if self.wrong > 0:
                kept[layer][unit] = True
                self.network = before[0]
                self.wrong: float = before[1]
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
        where = points[-1] if self._is_close and len(points[-1]) else np.concatenate(points)
        if len(where):
            typical = float(np.median(np.linalg.norm(s.x, axis=1))) if len(s.x) else 1.0
            where = where[np.linalg.norm(where, axis=1) < 100 * (1 + typical)]
        num_lines = int(np.clip(len(where) // (1 if self._is_close else 2), least, most))
        if not len(where):
            return self.draw(num_lines)
        starts = where[spread_out(where / (np.std(where, axis=0) + 1e-300), num_lines, self.rng)]
        num_lines = len(starts)
        goals = self.domain.sample(num_lines, d, self.rng)
        for row in range(0, num_lines, 1 if self._is_close else 2):
            if len(right) > 40:
                near = np.argsort(np.linalg.norm(right - starts[row], axis=1))[:40]
                goals[row] = right[self.rng.choice(near)]
                # never along a plane that both lie on
                goals[row] += 0.1 * np.linalg.norm(goals[row] - starts[row]) * self.rng.standard_normal(d)
        if self.follower is not None:
            self.follower.trusting = self._is_close
        through = ways_between if self._is_close else lines_through
        with self.inquiry.meter.stage("lines"):
            s.add_lines(through(self.domain, starts, goals), fair=False)
        return None

    @property
    def _is_close(self) -> bool:
        """Whether all but a few answers are explained, in a bounded domain: what is missing lies where they are not."""
        return self.is_bounded and self.inquiry.coarse and self.network is not None and self.wrong < CORNERS
