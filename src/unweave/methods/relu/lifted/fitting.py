"""The network that planes and units make up, fitted to the answers with their error bars.

In a bounded domain everything is fitted together (``joint``) and put together with what is linear there left as it is
(``compose``); elsewhere the sides of units follow from sums over planes (``assemble``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core import clock
from unweave.methods.relu.lifted.assemble import Assembly, assemble, orient_first
from unweave.methods.relu.lifted.compare import BEYOND, ORDINARY, Compared
from unweave.methods.relu.lifted.compose import compose
from unweave.methods.relu.lifted.corners import cross_corners
from unweave.methods.relu.lifted.held import fit_some
from unweave.methods.relu.lifted.joint import fit_jointly
from unweave.methods.relu.lifted.missing import add_unit, as_traces, forget
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.refit import DENSE, WORK, refit
from unweave.methods.relu.lifted.repair import repair
from unweave.methods.relu.lifted.ridge_sum import RidgeSum, put_up
from unweave.methods.relu.lifted.shallow import assemble_one
from unweave.methods.relu.lifted.traces import Traces

CORNERS = 0.02
"""Share of wrong answers that may come from corners of the domain, all else being right."""
IDLE, LESS, MORE = 0.3, 0.6, 1.6
"""Share of the bend at its kink that a trace which crossed next to nothing must have in all answers together, and
bounds between which the shares of most traces lie where the others are no units."""
HOPELESS = 300.0
"""Median deviation in error bars from which on a fit of everything takes a few steps only."""
ROWS, ROUND = 3.0, 5e9
"""Residuals a parameter in a fit of everything, and work of a step that allows more of them."""
WORSE = 3.0
"""Factor by which wrong answers may become more while zero sets are followed farther."""
MOST_MISSING, LEAVING, BETTER = 8, 0.96, 0.9
"""Units looked for in what the others leave over, share of its squares that one may leave, and of wrong answers."""
MISSING, MOST_HELD = 5e-4, 4000
"""Share of wrong answers that one is looked for in, and answers that new units are fitted to while others are held."""
CLOSER = 12
"""Wrong answers for each weight of a unit that are asked for where there are fewer."""
FEWEST = 200
"""Wrong answers that a fit looks at, at least."""
RANKS = 1e-9, 1e-12
"""What counts as nothing of the affine rests, relative to the largest: weights known to fewer digits leave more."""
FLOPS = 2e10
"""Work of one step of least squares, which bounds the rows it looks at."""


@dataclass
class Fitted(Compared):
    """And the network put together from them."""

    assembly: Assembly | None = None
    wrong: float = 1.0
    """Share of all answers beyond their error bars."""
    telling: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    """Numbers of answers that were asked because they tell what others do not: every fit of everything sees them."""
    extras: Traces | None = None
    """Units that no line shows, found in what the others leave over of the answers."""
    point: RidgeSum | None = None
    """In a bounded domain: the sum that the network was put together from."""

    @property
    def is_composed(self) -> bool:
        """Whether the network is put together to the last digit, so that no fit to answers could better it."""
        return self.is_bounded and not self.is_shallow

    def fit(self) -> None:
        """Put the network together and fit it to the answers; ``wrong`` says how it does on all of them."""
        x, y, bars = self._answers()
        few, meter = self.rng.permutation(len(x))[:4000], self.inquiry.meter
        if self.is_shallow:
            rough = 1e4 * self.inquiry.relative
            self.assembly = assemble_one(self.planes, x[few], y[few], bars[few], meter.domain, rough=rough)
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
        if not self.is_bounded:
            return assemble(self.planes, self.follower.units(), x, y, bars, self.inquiry.meter.domain)
        if self.inquiry.coarse:
            point = self._repaired(self._better_sum(self.point, self.fit_jointly()))
        else:
            point = put_up(self.follower.traces, self.follower.faces, x, y, bars)
        units = self.follower.units()
        plain = assemble(self.planes, units, x, y, bars, self.domain)
        self.point: RidgeSum | None = point
        free = self._compose(x, y)
        misses = [self._misses(a.network, x, y, bars) for a in (plain, free)]
        wrong = [
            (float(np.mean(m > BEYOND)), float(np.median(m)) > BEYOND, float(np.median(m))) for m in misses
        ]
        self.say("  plain, free form: " + ", ".join(f"wrong {w[0]:.4f} miss {w[2]:.1e}" for w in wrong))
        return plain if wrong[0][:2] < wrong[1][:2] or wrong[0] <= wrong[1] else free

    def _better_sum(self, before: RidgeSum | None, fresh: RidgeSum) -> RidgeSum:
        """The sum of the round before, which was mended, where it explains more answers than a fresh one."""
        before = None if before is None else before.over(fresh.rows)
        if before is None:
            return fresh
        wrong = [self._amiss(point, *self._answers())[0] for point in (before, fresh)]
        self.say(f"  before: wrong {wrong[0]:.5f}, afresh {wrong[1]:.5f}")
        return before if wrong[0] < wrong[1] else fresh

    def _repaired(self, point: RidgeSum) -> RidgeSum:
        """The sum, what it has wrong set right unit by unit where answers agree on it."""
        return repair(point, *self._answers(), self.rng, self.deadline, self.say)

    def _compose(self, x, y) -> Assembly:
        """The network of the sum, of the least rank that explains the answers to these points, if one does."""
        assert self.follower is not None
        assert self.point is not None
        ratios, *_ = orient_first(self.planes, self.follower.units())
        sides, found = np.where(ratios < 0, -1.0, 1.0), []
        for least in RANKS:
            found.append(compose(self.point, sides, x, y, self.domain, least=least))
            misses = self._misses(found[-1].network, x, y, self.inquiry.bars(x, y))
            if self.inquiry.coarse or np.max(misses) <= BEYOND:
                return found[-1]
        return found[0]

    def fit_jointly(self, max_turns: int = 4) -> RidgeSum:
        """All answers together tell planes and units better than each is told alone, and then these go farther."""
        assert self.follower is not None
        follower, turn, best = self.follower, 0, None
        sums = list[RidgeSum]()
        while True:
            follower.drop_parts()
            if self.wrong >= CORNERS:  # otherwise they may be what is missing
                follower.drop_islets()
            x, y, bars = self._answers()
            self._drop_linear(x)
            some = self.rng.permutation(len(x))[:4000]
            point = put_up(self._all_traces(), follower.faces, x[some], y[some], bars[some])
            sizes = np.linalg.norm(point.output, axis=1)[: len(follower.traces)]
            if follower.drop_idle(sizes < IDLE, (sizes < LESS) | (sizes > MORE)):
                point = put_up(self._all_traces(), follower.faces, x[some], y[some], bars[some])
            known = int(follower.traces.known.sum()), len(self._all_traces())
            # what is missing would pull at all that is known
            traces, point = self._find_missing(self._all_traces(alone=True), point)
            sums.append(point)
            traces, point = self._fit_all(traces, point)
            sums.append(point)
            count = len(follower.traces)
            self.extras = follower.others = traces.take(np.arange(count, len(traces)))
            traces = traces.take(np.arange(count))
            x, y, bars = self._answers()
            misses = np.max(np.abs(point(x) - y), axis=1) / bars
            if np.mean(misses > BEYOND) < CORNERS:
                self._roughen_locally(np.abs(point(x) - y), bars)
                bars = self._answers()[2]
                misses = np.max(np.abs(point(x) - y), axis=1) / bars
            typical, wrong = np.sqrt(np.mean(np.minimum(misses, BEYOND) ** 2)), np.mean(misses > BEYOND)
            self.say(
                f"  joint fit {turn}: {known[0]} weights, {len(self.extras)} units more, "
                f"typical miss {typical:.2f}, wrong {wrong:.4f}"
            )
            turn += 1
            if best is not None and wrong > WORSE * best[0]:  # what was followed since is not right
                follower.settle(best[1])
                self.extras = follower.others = best[2]
                return self._best_sum(sums)
            best = wrong, traces, self.extras
            if typical > 0.5 * BEYOND or wrong == 0 or turn == max_turns or clock.now() > self.deadline:
                return self._best_sum(sums)
            far = np.flatnonzero(misses > BEYOND)
            if wrong < CORNERS:
                corners = cross_corners(traces, point, x[far], y[far] - point(x[far]), bars[far])
                self.say(f"  {corners} weights from corners")
            follower.settle(traces)
            self.planes: Planes = traces.planes
            with self.inquiry.meter.stage("second layer"):
                follower.follow(self.open_kinks())
            if (int(follower.traces.known.sum()), len(self._all_traces())) == known:
                return self._best_sum(sums)

    def _best_sum(self, sums: list[RidgeSum]) -> RidgeSum:
        """The one that explains most answers: what is wrong elsewhere spoils fits of everything."""
        x, y, bars = self._answers()
        return min(sums, key=lambda point: self._amiss(point, x, y, bars)[::2])

    def _all_traces(self, *, alone: bool = False) -> Traces:
        """The traces and the units that no line shows; ``alone``: as each for itself is told."""
        assert self.follower is not None
        traces = self.follower.traces
        if alone:
            traces = replace(traces, covariance=self.follower.alone())
        if self.extras is None or self.extras.beta.shape[1] != len(traces.planes):
            return traces
        return traces.join(forget(self.extras, self._answers()[0]) if alone else self.extras)

    def _drop_linear(self, x: np.ndarray) -> None:
        """Drop units found in what others leave over that are on, or off, wherever was asked."""
        extras = self.extras
        if extras is not None and len(extras) and extras.beta.shape[1] == len(extras.planes):
            on = extras.values(x, extras.planes.heights(x)) > 0
            self.extras = extras.take(np.flatnonzero(on.any(axis=0) & ~on.all(axis=0)))

    def _fit_all(self, traces: Traces, point: RidgeSum, max_steps: int = 12) -> tuple[Traces, RidgeSum]:
        """Fitted to a share of the answers, then to those as well that it misses most."""
        x, y, bars = self._answers()
        prior = traces
        size = len(point.flat())
        count = int(max(ROWS * size, ROUND / size**2) / y.shape[1])
        rows = np.union1d(self.rng.permutation(len(x))[:count], self.telling)
        for _ in range(2):
            # where something is wrong that no fit mends a few steps tell
            steps = max_steps if np.median(np.abs(point(x) - y) / bars[:, None]) < HOPELESS else 3
            traces, point = fit_jointly(prior, point, x[rows], y[rows], bars[rows], max_steps=steps)
            misses = np.max(np.abs(point(x) - y), axis=1) / bars
            if np.median(misses) > BEYOND:
                break
            gross = misses > 100 if np.mean(misses > BEYOND) > CORNERS else np.zeros(len(x), dtype=bool)
            rows = np.union1d(rows, np.argsort(-np.where(gross, 0.0, misses))[: len(rows) // 2])
        return traces, point

    def _find_missing(self, traces: Traces, point: RidgeSum) -> tuple[Traces, RidgeSum]:
        """With units that no line shows, as long as each explains much of what the others, which are held, leave."""
        x, y, bars = self._answers()
        before, count = self._amiss(point, x, y, bars), 0
        loose = np.flatnonzero(traces.seed < 0)
        while before[0] > MISSING and clock.now() < self.deadline:
            x, y, bars = self._look_closer(point)
            before = self._amiss(point, x, y, bars)
            rows = self._wrong_and_right(point, x, y, bars, int(MOST_HELD / y.shape[1] ** 0.5))
            if len(loose):
                point, before = self._better(point, loose, rows, before)
            if count == MOST_MISSING or before[0] <= MISSING:
                break
            grown, left = add_unit(point, x[rows], y[rows], bars[rows], self.rng)
            loose = np.append(loose, len(traces) + count)
            grown, after = self._better(grown, loose, rows, (1.0, np.inf, np.inf))
            self.say(
                f"  one unit more: {before[0]:.4f} -> {after[0]:.4f} wrong, {before[1]:.1f} -> {after[1]:.1f}, "
                f"{before[2]:.1e} -> {after[2]:.1e}, left {left:.2f}"
            )
            if left > LEAVING or np.all(np.array(after) > BETTER * np.array(before)):
                break
            point, before, count = grown, after, count + 1
        if not count:
            return traces, point
        return traces.join(as_traces(point, count, traces.planes, self._answers()[0])), point

    def _look_closer(self, point: RidgeSum, least: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All answers, where few are wrong with more of them from beside these: as many as tell a unit there.

        ``least``: how often is asked at least.
        """
        enough = CLOSER * (len(point.rows) + len(self.box[0]) + 1)
        for turn in range(CLOSER):
            x, y, bars = self._answers()
            wrong = np.flatnonzero(np.max(np.abs(point(x) - y), axis=1) / bars > BEYOND)
            if not len(wrong) or (turn >= least and len(wrong) >= enough):
                break
            self.ask_around(point, x[wrong])
        return self._answers()

    def _better(
        self, point: RidgeSum, which: np.ndarray, rows: np.ndarray, before: tuple[float, ...]
    ) -> tuple[RidgeSum, tuple[float, ...]]:
        """The sum with the numbered units fitted, if that leaves less than ``before``, and what it leaves."""
        x, y, bars = self._answers()
        trial = fit_some(
            point, which, x[rows], y[rows], bars[rows], typical=self._amiss(point, x, y, bars)[1]
        )
        after = self._amiss(trial, x, y, bars)
        return (trial, after) if after[2] < before[2] else (point, before)

    def _wrong_and_right(self, point: RidgeSum, x, y, bars, count: int) -> np.ndarray:
        """Rows of answers, up to half of them such as ``point`` misses."""
        misses = np.max(np.abs(point(x) - y), axis=1) / bars
        order = self.rng.permutation(len(x))
        wrong = order[misses[order] > BEYOND][: max(count // 2, FEWEST)]
        return np.union1d(wrong, order[: max(count - len(wrong), 0)])

    @staticmethod
    def _amiss(point: RidgeSum, x, y, bars) -> tuple[float, ...]:
        """Share of answers that are wrong, the median deviation in error bars, and how far the others are off."""
        misses = np.max(np.abs(point(x) - y), axis=1) / bars
        typical = float(np.median(misses))
        limit = BEYOND * max(BEYOND, typical)
        return float(np.mean(misses > BEYOND)), typical, float(np.mean(np.minimum(misses, limit) ** 2))

    def sharpen(self, max_passes: int = 5) -> None:
        """Fit the network to the answers, the worst of them first; what makes it worse is not kept."""
        rows = np.zeros(0, dtype=int)
        for turn in range(max_passes):
            assert self.network is not None
            x, y, bars = self._answers()
            misses = self._misses(self.network, x, y, bars)
            self.wrong = float(np.mean(misses > BEYOND))
            if (self.wrong == 0 and (turn or not self.inquiry.coarse)) or clock.now() > self.deadline:
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
