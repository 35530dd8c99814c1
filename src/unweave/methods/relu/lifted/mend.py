"""A sum that is right but for a few answers, brought to explain all of them, with no unit more than they need.

How its units were found no longer counts: the whole sum is fitted to answers from everywhere and to all that were ever
wrong, and questions are asked beside these, until none is. Then units are left out that no answer needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core import clock
from unweave.methods.relu.lifted.fitting import (
    BETTER,
    BEYOND,
    LEAVING,
    MISSING,
    MOST_HELD,
    ORDINARY,
    ROUND,
    ROWS,
    Fitted,
)
from unweave.methods.relu.lifted.free import fit_freely
from unweave.methods.relu.lifted.missing import add_unit

PATIENCE = 2
"""Fits in a row that leave no fewer wrong answers after which others are no use."""
BESIDE, MOST_BESIDE = 2, 200
"""Points asked beside each wrong answer, and altogether."""


@dataclass
class Mended(Fitted):
    """The network, and what is done where it is nearly right."""

    def mend(self, max_turns: int = 8) -> None:
        """Where few answers are wrong: ask beside them, and fit the whole sum, without regard to how it was found."""
        assert self.point is not None
        point, seen, shares = self.point, self.telling, list[float]()
        for turn in range(max_turns):
            x, y, bars = self._answers()
            size = len(point.flat())
            count = int(max(ROWS * size, ROUND / size**2) / y.shape[1]) if turn == 0 else 0
            # what was wrong once is fitted ever after
            seen = np.union1d(seen, self._wrong_and_right(point, x, y, bars, count))
            fitted = fit_freely(point, x[seen], y[seen], bars[seen])
            before, after = (self._amiss(p, x, y, bars) for p in (point, fitted))
            point, before = (fitted, after) if after[2] < before[2] else (point, before)
            if turn % 3 == 1 and before[0] > MISSING:
                rows = self._wrong_and_right(point, x, y, bars, int(MOST_HELD / y.shape[1] ** 0.5))
                grown, left = add_unit(point, x[rows], y[rows], bars[rows], self.rng)
                grown, after = self._better(grown, np.array([len(point.gamma)]), rows, before)
                if left < LEAVING and after[2] < BETTER * before[2]:
                    point, before = grown, after
            self.say(
                f"  mended {turn}: {len(point.gamma)} units, wrong {before[0]:.5f}, typical {before[1]:.2f}"
            )
            wrong = np.max(np.abs(point(x) - y), axis=1) / bars > BEYOND
            shares.append(before[0])
            if not wrong.any() or clock.now() > self.deadline:
                break
            if turn >= PATIENCE and min(shares[-PATIENCE:]) >= min(shares[:-PATIENCE]):
                break
            if turn < max_turns - 1:
                self._ask_beside(x[wrong])
        self.point = point
        self._recompose()

    def drop_needless(self, max_tries: int = 8) -> None:
        """Without units, those first that add least, that no answer needs."""
        assert self.point is not None
        x, y, bars = self._answers()
        z = self.point.forward(np.hstack([x, np.ones((len(x), 1))]))[2]
        # what a unit adds beyond what is linear: the lesser of its two sides
        sizes = np.minimum(np.mean(np.maximum(z, 0.0) ** 2, axis=0), np.mean(np.minimum(z, 0.0) ** 2, axis=0))
        order = np.argsort(sizes * np.sum(self.point.output**2, axis=1))[:max_tries]
        count = int(max(ROWS * len(self.point.flat()), ROUND / len(self.point.flat()) ** 2) / y.shape[1])
        rows = np.union1d(self._wrong_and_right(self.point, x, y, bars, count), self.telling)
        kept = np.arange(len(sizes))
        for unit in order:
            if clock.now() > self.deadline:
                break
            fewer = self.point.take(kept != unit)
            fewer = fit_freely(fewer, x[rows], y[rows], bars[rows])
            if self._amiss(fewer, x, y, bars)[0] == 0:
                self.point, kept = fewer, kept[kept != unit]
        self.say(f"  {len(kept)} of {len(sizes)} units are needed")
        self._recompose()

    def _recompose(self) -> None:
        """The network of the sum as it is now, and what it does on all answers."""
        x, y, bars = self._answers()
        some = self.rng.permutation(len(x))[:4000]
        self.assembly = self._compose(x[some], y[some])
        self.network = self.assembly.network
        self.wrong = float(np.mean(self._misses(self.network, x, y, bars) > BEYOND))

    def _ask_beside(self, x: np.ndarray) -> None:
        """Ask at points of the domain near these."""
        low, high = self.box
        x = x[self.rng.integers(len(x), size=int(np.clip(BESIDE * len(x), 40, MOST_BESIDE)))]
        reach = np.exp(self.rng.uniform(np.log(0.003), np.log(0.1), size=(len(x), 1)))
        with self.inquiry.meter.stage("points"):
            near = self.domain.nearest(x + reach * (high - low) * self.rng.standard_normal(x.shape))
            self.inquiry.meter.ask(near)

    def tighten(self) -> None:
        """Error bars as small as what the network leaves of all answers, none of which is wrong."""
        assert self.network is not None
        misses = self._misses(self.network, *self._answers())
        factor = max(float(np.sqrt(np.mean(misses**2))) / ORDINARY, 2 * float(np.max(misses)) / BEYOND)
        if 0 < factor < 1:
            old = self.inquiry
            self.inquiry = replace(old, relative=old.relative * factor, noise=old.noise * factor)
            self.roughness *= factor
