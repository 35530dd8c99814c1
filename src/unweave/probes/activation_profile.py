"""Which saturating activation a network has, from one profile: a few answers across one far crossing.

Far out a single unit switches along a line, ``g(s) = T(phi(alpha s + theta))``, under an unknown smooth top T. In the
variable ``h = phi(alpha s + theta)`` the right activation makes g a polynomial of low degree, whatever T is; a wrong
one does not: tails e^{-2|z|}, e^{-z^2} and 1/|z| cannot be turned into each other. Slope and shift are fitted, the
polynomial by linear least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.deadline import held
from unweave.probes.far_circle import Ask, Circle, Crossing

REACH = np.concatenate([-np.array([5.0, 3.8, 2.9]), np.linspace(-2.25, 2.25, 19), np.array([2.9, 3.8, 5.0])])
"""Where to ask, in widths of the transition."""
DEGREE, LOW_DEGREE = 7, 4
"""Of the polynomial: to tell activations apart, and to read a slope, where more would fit anything."""
SLOPES, SHIFTS = np.geomspace(0.25, 4.0, 19), np.linspace(-1.5, 1.5, 13)
NUM_REFINED, NUM_STEPS = 14, 30
DROWNED = 1e4
"""A tail tells nothing that begins below so many times the noise."""


@dataclass(frozen=True)
class Shape:
    """The best profile of an activation: ``phi(slope s + shift)`` at place s, and what it leaves unexplained."""

    slope: float
    shift: float
    residual: float
    """Relative to the spread of the answers."""


def ask_profile(
    ask: Ask, circle: Circle, crossing: Crossing, radius: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Places across a crossing, in widths, and the answers there; at its own radius or another."""
    radius = crossing.radius if radius is None else radius
    angles = crossing.angle + REACH * crossing.width / radius
    return REACH, ask(circle.point(angles, radius))


def has_gaussian_tail(ask: Ask, circle: Circle, crossing: Crossing, noise: float) -> bool | None:
    """Whether the answers approach their plateau like e^{-z^2} (erf) and not like e^{-2z} (tanh, sigmoid); None where
    they have reached it: the crossing is wider than its transitions, it may hide two of them.

    Three answers in one tail tell, where these are exact; the top only sees its own first order there.
    """
    angles = crossing.angle + np.array([3.0, 4.5, 6.0]) * crossing.width / crossing.radius
    tail = np.linalg.norm(ask(circle.point(angles, crossing.radius)) - crossing.after, axis=1)
    if tail[0] < DROWNED * noise:
        return None
    tail = np.maximum(tail, noise + 1e-300)
    return bool(np.log(tail[1] / tail[2]) >= 1.25 * np.log(tail[0] / tail[1]))


def rank_activations(places: np.ndarray, answers: np.ndarray, names: list[str]) -> dict[str, float]:
    """The residual of each activation's best profile, relative to the spread of the answers."""
    return {name: fit_shape(places, answers, act.get(name), DEGREE).residual for name in names}


def fit_shape(
    places: np.ndarray, answers: np.ndarray, activation: act.Activation, degree: int = LOW_DEGREE
) -> Shape:
    """The best profile: a grid of slopes and shifts, then damped Gauss-Newton from its best.

    The slope is well determined, the shift is not: another one is a Moebius transformation of h, which a top of one
    more degree nearly absorbs.
    """
    held().check()
    answers = answers / max(float(np.sqrt(np.mean(np.var(answers, axis=0)))), 1e-300)
    low, high = activation.limits

    def rest(at: np.ndarray) -> np.ndarray:
        h = (2 * activation(at[0] * places + at[1]) - low - high) / (high - low)
        design = np.polynomial.chebyshev.chebvander(h, degree)
        return (answers - design @ np.linalg.lstsq(design, answers, rcond=None)[0]).ravel()

    grid = activation.scale * np.array([(a, b) for a in SLOPES for b in SHIFTS])
    order = np.argsort([float(np.linalg.norm(rest(at))) for at in grid], kind="stable")
    refined = [_refine(rest, grid[k]) for k in order[: 3 * NUM_REFINED : 3]]
    at, size = min(refined, key=lambda found: found[1])
    return Shape(float(at[0]), float(at[1]), size / np.sqrt(answers.size))


def _refine(rest: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> tuple[np.ndarray, float]:
    damping, here = 1e-3, rest(at)
    for _ in range(NUM_STEPS):
        slope = np.stack([(rest(at + step) - here) / 1e-6 for step in 1e-6 * np.eye(2)], axis=1)
        gram = slope.T @ slope
        move = np.linalg.solve(gram + damping * (np.trace(gram) + 1e-300) * np.eye(2), -slope.T @ here)
        trial = rest(at + move)
        if trial @ trial < here @ here:
            at, here, damping = at + move, trial, damping / 5
        else:
            damping *= 5
    return at, float(np.linalg.norm(here))
