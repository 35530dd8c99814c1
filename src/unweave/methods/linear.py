"""No hidden layer at all: an affine function from rough answers (float32, rounded, noisy).

Segments across the domain are straight to the error of the answers, and a least-squares fit on a few points a
coefficient explains fresh ones. Exact answers need no method of their own: there relu-lines finds no kink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import PIECEWISE_LINEAR, Finding, Problem, Serves, Traits

NUM_SEGMENTS, NUM_STEPS = 4, 9
WIDE = 3.0
"""Standard deviation of the points asked where the domain has no end."""
MOST_BARS = 8.0
BENT = "the answers bend: the model is not linear"


@dataclass(frozen=True)
class Linear:
    """``method="linear"``."""

    name: str = "linear"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, PIECEWISE_LINEAR)
    answers_a_coefficient: int = 4

    def suits(self, traits: Traits) -> str | None:
        rough = not traits.exact and not traits.hidden
        return traits.why_kinked() if rough and traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The affine function, or nothing where the answers bend."""
        rng, noise = problem.rng("linear"), problem.precision.noise
        with meter.stage("straightness"):
            ends = _points(meter, 2 * NUM_SEGMENTS, rng).reshape(2, NUM_SEGMENTS, 1, -1)
            shares = np.linspace(0, 1, NUM_STEPS)[:, None]
            x = meter.snap((ends[0] + shares * (ends[1] - ends[0])).reshape(-1, meter.input_size))
            if not _explained(x, meter.ask(x), noise, NUM_SEGMENTS):
                return Finding(None, BENT)
        with meter.stage("coefficients"):
            count = self.answers_a_coefficient * (meter.input_size + 1)
            x = meter.snap(_points(meter, count, rng))
            y = meter.ask(x)
        design = np.column_stack([x, np.ones(len(x))])
        found = np.linalg.lstsq(design, y, rcond=None)[0]
        if np.any(np.abs(design @ found - y) > MOST_BARS * _bars(x, y, noise)):
            return Finding(None, BENT)
        return Finding(Network([found[:-1].T], [found[-1]], ["identity"]))


def _points(meter: Meter, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points all over the domain, around the origin where it has no end."""
    if np.isinf(meter.domain.reach(meter.input_size)):
        return WIDE * rng.standard_normal((count, meter.input_size))
    return meter.domain.sample(count, meter.input_size, rng)


def _bars(x: np.ndarray, y: np.ndarray, noise: float) -> np.ndarray:
    """Error bars (n, 1) that grow with the inputs, as rounding does, and are never below it."""
    far = np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(x.shape[1])
    return noise * (1 + far) + 2.0**-50 * np.max(np.abs(y))


def _explained(x: np.ndarray, y: np.ndarray, noise: float, num_segments: int) -> bool:
    """Whether the answers along each segment lie on a straight line."""
    for rows in np.split(np.arange(len(x)), num_segments):
        along = np.linalg.norm(x[rows] - x[rows[0]], axis=1)
        design = np.column_stack([along, np.ones(len(rows))])
        off = y[rows] - design @ np.linalg.lstsq(design, y[rows], rcond=None)[0]
        if np.any(np.abs(off) > MOST_BARS * _bars(x[rows], y, noise)):
            return False
    return True
