"""Which saturating activation a network has, from one profile: a few answers across one far crossing.

Far out a single unit switches along a line, ``g(s) = T(phi(alpha s + theta))``, under an unknown smooth top T. In the
variable ``h = phi(alpha s + theta)`` the right activation makes g a polynomial of low degree, whatever T is; a wrong
one does not: tails e^{-2|z|}, e^{-z^2} and 1/|z| cannot be turned into each other. Slope and shift are fitted, the
polynomial by linear least squares.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.probes.far_circle import Ask, Circle, Crossing

REACH = np.array([-4.5, -3.5, -2.7, -2.0, -1.4, -0.9, -0.4, 0.0, 0.4, 0.9, 1.4, 2.0, 2.7, 3.5, 4.5])
"""Where to ask, in widths of the transition."""
DEGREE = 5
SLOPES, SHIFTS = np.geomspace(0.3, 3.0, 15), np.linspace(-1.5, 1.5, 13)
NUM_REFINED, NUM_STEPS = 4, 25


def ask_profile(ask: Ask, circle: Circle, crossing: Crossing) -> tuple[np.ndarray, np.ndarray]:
    """Places across a crossing, in widths, and the answers there."""
    angles = crossing.angle + REACH * crossing.width / crossing.radius
    return REACH, ask(circle.point(angles, crossing.radius))


def rank_activations(places: np.ndarray, answers: np.ndarray, names: list[str]) -> dict[str, float]:
    """The residual of each activation's best profile, relative to the spread of the answers."""
    spread = max(float(np.sqrt(np.mean(np.var(answers, axis=0)))), 1e-300)
    return {name: _residual(places, answers / spread, act.get(name)) for name in names}


def _residual(places: np.ndarray, answers: np.ndarray, activation: act.Activation) -> float:
    """The least root mean square over slopes and shifts: a grid, then Gauss-Newton by differences from its best."""

    def rest(slope: float, shift: float) -> np.ndarray:
        h = activation(slope * places + shift)
        low, high = activation.limits
        design = np.polynomial.chebyshev.chebvander((2 * h - low - high) / (high - low), DEGREE)
        return (answers - design @ np.linalg.lstsq(design, answers, rcond=None)[0]).ravel()

    scale = activation.scale
    grid = [(a * scale, b * scale) for a in SLOPES for b in SHIFTS]
    sizes = [float(np.linalg.norm(rest(*at))) for at in grid]
    best = min(sizes)
    for k in np.argsort(sizes)[:NUM_REFINED]:
        best = min(best, _refine(rest, np.array(grid[k])))
    return best / np.sqrt(answers.size)


def _refine(rest, at: np.ndarray) -> float:
    damping, here = 1e-3, rest(*at)
    for _ in range(NUM_STEPS):
        steps = 1e-6 * np.eye(2)
        slope = np.stack([(rest(*(at + s)) - here) / 1e-6 for s in steps], axis=1)
        gram = slope.T @ slope
        move = np.linalg.solve(gram + damping * (np.trace(gram) + 1e-300) * np.eye(2), -slope.T @ here)
        trial = rest(*(at + move))
        if trial @ trial < here @ here:
            at, here, damping = at + move, trial, damping / 5
        else:
            damping *= 5
    return float(np.linalg.norm(here))
