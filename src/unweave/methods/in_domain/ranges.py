"""Where inside the domain to ask: a part of it over which the answers bend, but do not look like noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from unweave.core.domains import Ball, Normal
from unweave.evidence.meter import Meter
from unweave.methods.base import Problem
from unweave.solve.fit import spread_of
from unweave.students.nearly_affine import best_affine

LOOK = 4
"""Points asked to choose a range, for each input."""
STEEP = 0.82
"""Deviation from the best affine function, relative to the spread, beyond which answers look like noise."""
SMALL = 0.25
"""Fraction of the first range from which down that range is asked, too."""

Sampler = Callable[[int], np.ndarray]


@dataclass(frozen=True)
class Range:
    """A part of the domain to draw points from, with those that were asked to choose it."""

    within: Callable[[float], Sampler]
    """Points of this range scaled by a factor."""
    x: np.ndarray
    y: np.ndarray
    scale: float
    """Its size, relative to the first range looked at."""

    @property
    def draw(self) -> Sampler:
        return self.within(1.0)


def choose_ranges(meter: Meter, problem: Problem, rng: np.random.Generator) -> list[Range]:
    """Where to ask: a part of the domain over which the answers bend, but not so much that they look like noise.

    Within a small enough ball every smooth network looks affine, over a large one with steep rows like
    noise; both hide its units. So the range is halved or tripled, within the domain, until an affine
    function explains a part of the answers but not all. Over a range much smaller than the first one, exact
    answers of some units are nearly those of others: then the first range is asked too, which takes more points
    until a student fits, and none comes close in vain.
    """
    domain, d = meter.domain, meter.input_size
    reach = domain.reach(d)
    if not np.isfinite(reach) or isinstance(domain, Ball):
        centre = 0.0 if not isinstance(domain, Ball) or domain.centre is None else domain.centre
        largest = domain.radius if isinstance(domain, Ball) else min(reach, 1e6)
        radius = min(2 * np.sqrt(d), largest)

        def draw(scale: float, n: int) -> np.ndarray:
            return meter.snap(centre + Ball(scale * radius).sample(n, d, rng) if n else np.zeros((0, d)))

        most = largest / radius
    else:
        middle = domain.sample(4096, d, rng).mean(axis=0)
        most = 1.5 if isinstance(domain, Normal) else 1.0

        def draw(scale: float, n: int) -> np.ndarray:
            return meter.snap(middle + scale * (domain.sample(n, d, rng) - middle))

    scale, flat, tried = 1.0, max(0.1, 100 * problem.precision.relative), []
    for _ in range(12):
        x = draw(scale, LOOK * (d + 2))
        tried.append(Range(partial(_shrunk, draw, scale), x, meter.ask(x), scale))
        found = bend(x, tried[-1].y)
        if found > STEEP:
            most, scale = scale, scale / 2
        elif found < flat and scale < most:
            scale = min(3 * scale, most)
        else:
            break
    both = scale <= SMALL and problem.precision.kind == "float64"
    return [tried[0], tried[-1]] if both else [tried[-1]]


def _shrunk(draw: Callable[[float, int], np.ndarray], scale: float, factor: float) -> Sampler:
    return partial(draw, scale * factor)


def bend(x: np.ndarray, y: np.ndarray) -> float:
    """Root mean square deviation from the best affine function, relative to the spread."""
    rest = best_affine(x, y)[1]
    return float(np.sqrt(np.sum(rest**2) / max(len(x) - x.shape[1] - 1, 1) / y.shape[1])) / spread_of(y)
