"""Slope and shift of each unit along its own row, where no other unit moves.

With all rows known up to length, moving along the dual of a row changes one argument only: two questions read the
derivative of that unit at any place, whatever the others do. On the chord between the two corners that the row points
to, its argument takes every value it has in the box. There the logarithm of the derivative is that of ``phi'`` at an
affine function of the place: a fit of three numbers, whose tails are as good as its middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from unweave.core import activations as act
from unweave.methods.corners.view import MARGIN, Cube

NUM_COARSE, NUM_FINE, NUM_ROUNDS = 24, 6, 3
"""Places on a chord, and around the largest derivative in each further round."""
CLEAR = 30.0
"""A derivative counts from this multiple of its rounding."""
DEEPEST = 1e-4
"""Tails count down to this fraction of the peak, or the cube root of coarser rounding: below, what errors of the dual
let in of other units may show."""
PURE = 0.995
"""Least cosine between changes of the outputs here and at the peak: of one unit they are proportional."""
LEAST = 5
"""Derivatives that count, for three numbers."""


@dataclass(frozen=True)
class Profile:
    """``phi(slope t + shift)`` with t along a unit row of the cube, and the misfit of the logarithms."""

    slope: float
    shift: float
    misfit: float


def read_profile(cube: Cube, row: np.ndarray, dual: np.ndarray, activation: str) -> Profile | None:
    """The unit along ``row``, moved alone by ``dual``; None where it does not show."""
    corner = (1 - MARGIN) * np.sign(row)
    places, slopes = np.zeros(0), np.zeros((0, cube.meter.output_size))
    fresh = np.linspace(-1.0, 1.0, NUM_COARSE)
    spacing = fresh[1] - fresh[0]
    for _ in range(NUM_ROUNDS):
        found = cube.slopes(fresh[:, None] * corner, dual[None])[:, :, 0]
        places, slopes = np.append(places, fresh), np.vstack([slopes, found])
        peak = int(np.argmax(np.linalg.norm(slopes, axis=1)))
        fresh = np.clip(places[peak] + spacing * np.linspace(-1, 1, NUM_FINE + 2)[1:-1], -1.0, 1.0)
        spacing /= NUM_FINE / 2
    sizes = slopes @ slopes[peak] / max(float(np.linalg.norm(slopes[peak])), 1e-300)
    floor = CLEAR * cube.rounding(1) * float(np.linalg.norm(dual))
    clear = sizes > max(floor, max(DEEPEST, float(np.cbrt(cube.noise))) * sizes[peak])
    counts = clear & (sizes > PURE * np.linalg.norm(slopes, axis=1))
    if np.sum(counts) < LEAST:
        return None
    return _fit(float(row @ corner) * places[counts], np.log(sizes[counts]), activation)


def _fit(t: np.ndarray, logs: np.ndarray, activation: str) -> Profile | None:
    """Slope and shift of a profile: starts at several widths around its peak."""
    phi = act.get(activation)
    peak, best = t[np.argmax(logs)], None

    def rest(p: np.ndarray) -> np.ndarray:
        shape = np.log(np.maximum(np.abs(phi.first(np.exp(np.clip(p[0], -20, 20)) * (t - p[1]), np)), 1e-300))
        return logs - shape - np.mean(logs - shape)

    for width in (0.03, 0.1, 0.3, 1.0):
        start = [-np.log(width * np.ptp(t)), peak]
        found = least_squares(rest, start, loss="soft_l1", x_scale=[1.0, max(width * float(np.ptp(t)), 1e-9)])
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    slope = float(np.exp(best.x[0]))
    return Profile(slope, -slope * float(best.x[1]), float(np.sqrt(np.mean(best.fun**2))))
