"""The network found so far against all answers: their error bars, what lies beyond them, and questions beside that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.lifted.compose import evaluation_error
from unweave.methods.relu.lifted.draw import spread_out
from unweave.methods.relu.lifted.explain import Explained
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.probes.inquiry import Inquiry

BEYOND = 8.0
"""No answer may lie farther from the network than this many of its error bars."""
ORDINARY = 0.7
"""Root mean square of deviations in error bars where these are measured well."""
WALKERS, STEPS = 24, 8
"""Walks through the places where answers are wrong, how many steps each makes."""
SHORTER, LONGER = 0.5, 2.0
"""By how much the reach of a walk changes after a step that left these places, or did not."""


@dataclass
class Compared(Explained):
    """Answers with error bars, and a network that may explain them."""

    network: Network | None = None
    roughness: float = 1.0
    """By how much the fit has shown the answers to be rougher than measured before."""

    def ask_around(self, point: RidgeSum, x: np.ndarray) -> None:
        """Ask all over the regions where a sum is wrong that points ``x`` lie in, and just beyond their borders.

        Walks: from a wrong answer in a random direction, farther after one that is wrong as well, else less far.
        """
        low, high = self.box
        x = x[spread_out(x / (high - low), WALKERS, self.rng)]
        x = np.repeat(x, -(-WALKERS // (2 * len(x))), axis=0)
        reach = np.exp(self.rng.uniform(np.log(0.003), np.log(0.1), size=len(x)))
        for _ in range(STEPS):
            away = self.rng.standard_normal(x.shape)
            step = reach * self.rng.uniform(0.3, 1.0, size=len(x))
            away *= (step / np.linalg.norm(away, axis=1))[:, None]
            trial = self.domain.nearest(x + (high - low) * away)
            with self.inquiry.meter.stage("points"):
                y = self.inquiry.meter.ask(trial)
            bars = self.inquiry.bars(trial, y)
            wrong = np.max(np.abs(point(self.inquiry.meter.snap(trial)) - y), axis=1) > BEYOND * bars
            x = np.where(wrong[:, None], trial, x)
            reach = np.minimum(np.where(wrong, LONGER, SHORTER) * reach, 1.0)

    def _roughen(self, factor: float) -> None:
        factor = min(factor, 4 / self.roughness)
        self.roughness *= factor
        inquiry = self.inquiry
        self.inquiry = replace(inquiry, relative=inquiry.relative * factor, noise=inquiry.noise * factor)

    def _roughen_locally(self, errors: np.ndarray, bars: np.ndarray) -> None:
        """Error bars from what a good fit leaves, (points, k): a factor, and more where they are small."""
        order = np.argsort(bars)
        parts = order[: len(order) // 5], order[len(order) // 2 :]
        low, high = (
            np.sqrt(np.mean(np.minimum(errors[p] / bars[p, None], BEYOND) ** 2)) / ORDINARY for p in parts
        )
        factor = float(np.clip(high, 1.0, 4 / self.roughness))
        self.roughness *= factor
        more = float(np.median(bars[parts[0]])) * max(0.0, float(low) - factor)
        old = self.inquiry
        self.inquiry: Inquiry = replace(old, relative=old.relative * factor, noise=old.noise * factor + more)

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
