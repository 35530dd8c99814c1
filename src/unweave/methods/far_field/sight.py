"""How a model is looked at from far out: how far, and which changes of the answers count.

Rounding of the input, ``unit |x| |a|``, blurs the argument of a unit that is being read. With float64 questions a
radius of 1e7 is harmless; answers of float32 arithmetic (*coarse* ones) want a hundredth of a per cent of that, where
transitions are still narrow against the gaps between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.activations import Activation
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

RADIUS = 1e7
FARTHEST = 1e9
BLUR = 3e-3
"""Of the argument, in coarse arithmetic, at the radius of the circle."""


@dataclass(frozen=True)
class Sight:
    """One look from afar: the meter, what is known of its answers, the activation assumed, the randomness."""

    meter: Meter
    precision: Precision
    activation: Activation
    rng: np.random.Generator
    reach: float
    """Of the domain."""

    @property
    def coarse(self) -> bool:
        """Whether the answers are worse than float64 rounding."""
        return self.precision.kind != "float64"

    @property
    def radius(self) -> float:
        return min(RADIUS, 0.9 * self.reach, max(BLUR / self.precision.unit, 1e4))

    @property
    def farthest(self) -> float:
        return min(FARTHEST, 0.9 * self.reach, max(10 * BLUR / self.precision.unit, 1e4))

    @property
    def noise(self) -> float:
        return self.precision.noise

    @property
    def tolerance(self) -> float:
        """The smallest change of an answer that counts."""
        return max(1e-9 * max(self.precision.scale, 1e-300), 40 * self.noise)

    @property
    def accept(self) -> float:
        """Relative residual that counts as exact."""
        return max(1e-11, (20 if not self.coarse else 4) * self.precision.relative)

    def steps(self, radii: np.ndarray, deep: bool) -> np.ndarray:
        """How far to step, in units of the argument: longer where rounding is worse, short where T is unknown."""
        blur = self.precision.unit * radii
        if not deep:
            return np.full(len(radii), (0.2 if self.coarse else 0.12) * self.activation.scale)
        if self.coarse:
            return np.clip(2 * blur ** (1 / 3), 0.05, 0.3)
        noise = max(self.precision.relative, 1e-16)
        return np.clip(np.maximum(5e-6 * radii, 10 * noise ** (1 / 3)), 0.02, 0.1)

    def slack(self, deep: bool) -> float:
        """How far the answer may move in the orthogonal test, relative to the change along the circle."""
        if self.coarse:
            return 0.1
        return max(0.02 if deep else 1e-5, 1e4 * self.precision.relative)
