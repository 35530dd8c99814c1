"""A sum that is right but for a few answers, brought to explain all of them, with no unit more than they need.

How its units were found no longer counts: the whole sum is fitted to answers from everywhere and to all that were ever
wrong, and questions are asked beside these, until none is. Then units are left out that no answer needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core import clock
from unweave.methods.relu.lifted.compare import BEYOND, ORDINARY
from unweave.methods.relu.lifted.fitting import (
    BETTER,
    FEWEST,
    LEAVING,
    MOST_HELD,
    ROUND,
    ROWS,
    Fitted,
)
from unweave.methods.relu.lifted.free import fit_freely
from unweave.methods.relu.lifted.missing import add_unit
from unweave.methods.relu.lifted.regions import telling_places
from unweave.methods.relu.lifted.repair import on_rarely
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.unsure import least_certain

EXACT = 1e-12
"""Damping of steps where the sum is right to the last few digits."""
HARDLY = 0.01
"""Share of the domain on which a unit is on that may have been told in part only, or as parts."""
RARE, RARELY = 0.05, 2000
"""Share of the domain on which a unit is on, or off, that few answers come from, and points that show it."""
FOR_EACH = 3
"""Answers on either side of a unit, for each of its weights, that a fit of everything sees."""
MOST_UNSURE, SURE = 400, 0.5
"""Points asked at a time where the sum is not certain, and the standard error in error bars up to which it is."""
MORE = 2
"""How often is asked around wrong answers in each turn, at least."""
PATIENCE, HALVED, NEARLY = 3, 0.5, 5e-3
"""Turns in a row that leave no fewer wrong answers, after which others are no use; the share of them that a fit of
everything may leave for all that is known to be moved; and the share of wrong answers from which on a turn must halve
it."""


@dataclass
class Mended(Fitted):
    """The network, and what is done where it is nearly right."""

    def mend(self, max_turns: int = 12) -> None:
        """Where few answers are wrong: fit the whole sum; what that leaves wrong is asked around and set right."""
        assert self.point is not None
        point, seen, idle, fits, typical = self.point, self.telling, 0, True, np.inf
        for turn in range(max_turns):
            x, y, bars = self._look_closer(point, MORE) if turn else self._answers()
            before = self._amiss(point, x, y, bars)
            # what was wrong once is fitted ever after
            seen = np.union1d(seen, self._wrong_and_right(point, x, y, bars, 0))
            seen = np.union1d(seen, self._all_sides(point, x, y.shape[1])) if turn == 0 else seen
            after = before
            if fits:
                fitted = fit_freely(point, x[seen], y[seen], bars[seen])
                whole = self._amiss(fitted, x, y, bars)
                # what is missing pulls at all that is known
                fewer, closer = (whole[i] <= HALVED * after[i] for i in (0, 1))
                fits = whole[2] < after[2] and (fewer or (closer and whole[0] <= after[0]))
                point, after = (fitted, whole) if fits else (point, after)
                typical = min(typical, after[1])
            if turn and after[0] > 0:
                offers = [self._repaired(p) for p in (point, self._without_rare(point))]
                left = [(self._amiss(p, x, y, bars)[0], len(p.gamma)) for p in offers]
                point = offers[left.index(min(left))]
                after = self._amiss(point, x, y, bars)
                fits = fits or after[0] * len(x) < FEWEST or after[1] > typical / HALVED
            if idle and after[0] > HALVED * before[0]:
                rows = self._wrong_and_right(point, x, y, bars, int(MOST_HELD / y.shape[1] ** 0.5))
                grown, left = add_unit(point, x[rows], y[rows], bars[rows], self.rng)
                grown, whole = self._better(grown, np.array([len(point.gamma)]), rows, after)
                if left < LEAVING and whole[2] < BETTER * after[2]:
                    point, after = grown, whole
            self.say(
                f"  mended {turn}: {len(point.gamma)} units, wrong {before[0]:.5f} -> {after[0]:.5f}, "
                f"typical {after[1]:.2f}"
            )
            idle = idle + 1 if turn and after[0] > BETTER * before[0] else 0
            if not after[0] or idle >= PATIENCE or clock.now() > self.deadline:
                break
            if turn and after[0] > max(NEARLY, HALVED * before[0]):  # only more lines help
                break
        self.point = point
        self._recompose()

    def _all_sides(self, point: RidgeSum, x: np.ndarray, num_outputs: int) -> np.ndarray:
        """Rows for a fit of everything: every unit is on, and off, in more of them than it has weights, if possible."""
        size, own = len(point.flat()), FOR_EACH * (point.gamma.shape[1] + point.beta.shape[1])
        order = self.rng.permutation(len(x))
        rows, rest = np.split(order, [int(max(ROWS * size, ROUND / size**2) / num_outputs)])
        on, more = point.on(x), [rows]
        for sides in (on, ~on):
            lacking = own - sides[rows].sum(axis=0)
            more += [rest[sides[rest, j]][: lacking[j]] for j in np.flatnonzero(lacking > 0)]
        return np.unique(np.concatenate(more))

    def _without_rare(self, point: RidgeSum) -> RidgeSum:
        """Without the units that are hardly ever on: answers from around them tell them anew, all parts together."""
        x = self.domain.sample(RARELY, len(self.box[0]), self.rng)
        turned = on_rarely(point, point.forward(np.hstack([x, np.ones((len(x), 1))]))[2])
        return turned.take(np.flatnonzero(np.mean(turned.on(x), axis=0) > HARDLY))

    def drop_needless(self, max_needed: int = 4) -> None:
        """Without units, those first that add least, that no answer needs, until so many in a row are needed."""
        assert self.point is not None
        x, y, bars = self._answers()
        z = self.point.forward(np.hstack([x, np.ones((len(x), 1))]))[2]
        # what a unit adds beyond what is linear: the lesser of its two sides
        sizes = np.minimum(np.mean(np.maximum(z, 0.0) ** 2, axis=0), np.mean(np.minimum(z, 0.0) ** 2, axis=0))
        order = np.argsort(sizes * np.sum(self.point.output**2, axis=1))
        kept, needed = np.arange(len(sizes)), 0
        for unit in order:
            if needed == max_needed or clock.now() > self.deadline:
                break
            fewer = self._fit_worst(self.point.take(kept != unit), x, y, bars)
            if fewer is not None:
                self.point, kept, needed = fewer, kept[kept != unit], 0
            else:
                needed += 1
        self.say(f"  {len(kept)} of {len(sizes)} units are needed")
        self._recompose()

    def _fit_worst(self, point: RidgeSum, x, y, bars, max_turns: int = 4) -> RidgeSum | None:
        """The sum fitted to some of the answers and to those that it misses, until it misses none; None if it does."""
        rows = np.union1d(self.telling, self._all_sides(point, x, y.shape[1]))
        first = 1.0
        for turn in range(max_turns + 1):
            misses = np.max(np.abs(point(x) - y), axis=1) / bars
            wrong = float(np.mean(misses > BEYOND))
            if not wrong:
                return point
            if turn == max_turns or (turn and wrong > HALVED * first):
                break
            first = wrong
            rows = np.union1d(rows, np.argsort(-misses)[: max(len(rows) // 4, FEWEST)])
            point = fit_freely(point, x[rows], y[rows], bars[rows])
        return None

    def polish(self) -> None:
        """The sum of exact answers fitted once more to some of them and the worst: each unit was told for itself."""
        if self.point is None or self.network is None:
            return
        x, y, bars = self._answers()
        before = self.assembly, self.network, self.wrong, self.point
        misses = self._misses(self.network, x, y, bars)
        count = int(max(ROWS * len(self.point.flat()), ROUND / len(self.point.flat()) ** 2) / y.shape[1])
        rows = np.union1d(np.argsort(-misses)[: count // 2], self.rng.permutation(len(x))[:count])
        self.point = fit_freely(self.point, x[rows], y[rows], bars[rows], damping=EXACT)
        self._recompose()
        after = self._misses(self.network, x, y, bars)
        self.say(f"  polished: worst {np.max(misses):.2f} -> {np.max(after):.2f}")
        if np.max(after) >= np.max(misses):
            self.assembly, self.network, self.wrong, self.point = before

    def _recompose(self) -> None:
        """The network of the sum as it is now, and what it does on all answers."""
        x, y, bars = self._answers()
        some = self.rng.permutation(len(x))[:4000]
        self.assembly = self._compose(x[some], y[some])
        self.network = self.assembly.network
        self.wrong = float(np.mean(self._misses(self.network, x, y, bars) > BEYOND))

    def ask_unsure(self, max_turns: int = 4) -> None:
        """Ask where the sum is least certain, in the regions where units are hardly ever on or off among others."""
        for _ in range(max_turns):
            assert self.point is not None
            point, (x, y, bars) = self.point, self._answers()
            count = int(max(ROWS * len(point.flat()), ROUND / len(point.flat()) ** 2) / y.shape[1])
            rows = np.union1d(self.telling, self.rng.permutation(len(x))[:count])
            even = self.domain.edge(RARELY // 2, len(self.box[0]), self.rng)
            pool = np.concatenate(
                [self.rare_places(), self.domain.sample(RARELY // 2, len(self.box[0]), self.rng), even]
            )
            chosen, worst = least_certain(
                point,
                x[rows],
                bars[rows],
                pool,
                self.inquiry.bars(pool, point(pool)),
                MOST_UNSURE,
                enough=SURE,
            )
            self.say(f"  {len(chosen)} of {len(pool)} points are not certain, {worst:.1e} error bars at most")
            if not len(chosen) or clock.now() > self.deadline:
                return
            with self.inquiry.meter.stage("informative points"):
                self.inquiry.meter.ask(pool[chosen])
            x, y, bars = self._answers()
            self.telling = np.union1d(self.telling, np.arange(len(x) - len(chosen), len(x)))
            wrong = self._amiss(point, x, y, bars)[0]
            self.mend()
            if self.wrong > 0 or wrong == 0:
                return

    def rare_places(self) -> np.ndarray:
        """Points that tell the weights of each unit that is hardly ever on, or off, where it is."""
        assert self.point is not None
        point, (low, high) = self.point, self.box
        x, even = self._answers()[0], self.domain.sample(RARELY, len(self.box[0]), self.rng)
        on, shares = point.on(x), np.mean(point.on(even), axis=0)
        places = [x[:0]]
        for unit in np.flatnonzero(np.minimum(shares, 1 - shares) < RARE):
            rarer = bool(shares[unit] < 0.5)
            starts = x[on[:, unit] == rarer]
            if len(starts):
                places.append(telling_places(point, int(unit), rarer, starts, low, high, self.rng))
        return self.domain.nearest(np.concatenate(places))

    def tighten(self) -> None:
        """Error bars as small as what the network leaves of all answers, none of which is wrong."""
        assert self.network is not None
        misses = self._misses(self.network, *self._answers())
        factor = max(float(np.sqrt(np.mean(misses**2))) / ORDINARY, 2 * float(np.max(misses)) / BEYOND)
        if 0 < factor < 1:
            old = self.inquiry
            self.inquiry = replace(old, relative=old.relative * factor, noise=old.noise * factor)
            self.roughness *= factor
