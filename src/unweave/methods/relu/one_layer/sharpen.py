"""The last digits of one hidden layer in single precision: units that are known least, heard alone, and one more fit.

An answer in single precision is as exact as the units that are on at its point (``solve/propagated``), so one with
small weights drowns where others are on. A linear program finds the largest ball in which the unit is on and all others
are off, or on as little as may be: answers from there tell its row and output as exactly as those of any other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.optimize

from unweave.core import clock
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.methods.relu.one_layer.ridge_fit import RidgeFit, Ridges, fit_ridges
from unweave.solve.propagated import propagated_rounding

GOAL = 3e-6
"""Standard error, relative to the largest weight of a unit, up to which it is known well enough."""
ROUNDS = 3
"""How often units above it are asked for."""
GAINING = 0.7
"""What its worst error must fall to for another round."""
EACH = 2
"""Answers, times inputs, for each of them."""
BETWEEN = (0.5, 0.95)
"""Where they lie between the middle of the region and its walls."""
LOUD = (1e-3, 1e-2, 0.1, 1.0)
"""Prices of what other units add, relative to what the unit itself gains."""
REACHES = (3.0, 30.0)
"""Largest coordinates of the points where there is no bound, in units of the typical distance of a plane."""
ROUGHEST = 4.0
"""A residual of so many propagated roundings says that the answers are not as exact as these."""


def sharpen(
    meter: Meter,
    fitted: RidgeFit,
    x: np.ndarray,
    y: np.ndarray,
    unit: float,
    rng: np.random.Generator,
    deadline: float,
) -> RidgeFit:
    """The units without an affine part fitted to answers (x, y) and those that tell what these leave open."""
    now = _fit(fitted.ridges, x, y, unit, deadline)
    if now.rms > ROUGHEST:
        return fitted
    before = np.inf
    for _ in range(ROUNDS):
        errors = now.unit_errors()
        vague, worst = np.flatnonzero(errors > GOAL), float(np.max(errors, initial=0.0))
        if not len(vague) or worst > GAINING * before or clock.now() > deadline:
            break
        before = worst
        places = [points_alone(meter, now.ridges, i, unit, rng) for i in vague.tolist()]
        points = meter.snap(np.concatenate(places))
        if not len(points):
            break
        with meter.stage("units alone"):
            answers = meter.ask(points)
        x, y = np.concatenate([x, points]), np.concatenate([y, answers])
        now = _fit(now.ridges, x, y, unit, deadline)
    return now if now.rms <= ROUGHEST else fitted


def as_network(ridges: Ridges) -> Network:
    """The units and the constant as a network."""
    return Network(
        [ridges.rows[:, :-1], ridges.columns.T],
        [ridges.rows[:, -1], ridges.affine[:, -1]],
        ["relu", "identity"],
    )


def points_alone(
    meter: Meter, ridges: Ridges, unit: int, rounding: float, rng: np.random.Generator
) -> np.ndarray:
    """Points (n, inputs) around the place where this unit of balanced ``ridges`` is heard best."""
    network, (_, extended) = as_network(ridges), ridges.rows.shape
    d, load = extended - 1, float(np.linalg.norm(ridges.columns[unit]))
    typical = 1.0 + float(np.median(np.abs(ridges.rows[:, -1])))
    boxes: list[tuple[np.ndarray, np.ndarray]] = []
    if isinstance(meter.domain, Box):
        boxes = [(np.broadcast_to(meter.domain.low, d), np.broadcast_to(meter.domain.high, d))]
    elif np.isinf(meter.domain.reach(d)):
        boxes = [(np.full(d, -reach * typical), np.full(d, reach * typical)) for reach in REACHES]
    best, centre, box = 0.0, np.zeros(d), (np.zeros(d), np.zeros(d))
    for low, high in boxes:
        for price in LOUD:
            found = _largest_ball(ridges, unit, price, low, high)
            if found is None:
                continue
            noise = float(np.sqrt(np.mean(propagated_rounding(network, found[0][None], rounding) ** 2)))
            told = load * min(found[1], typical) / max(noise, 1e-300)
            if told > best:
                best, centre, box = told, found[0], (low, high)
    if not best:
        return np.zeros((0, d))
    return _spread_inside(ridges, centre, *box, EACH * extended, rng)


def _spread_inside(
    ridges: Ridges,
    centre: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Points of a box on the way from ``centre`` to where the first plane is crossed, in random directions.

    They lie farther apart than those of any ball inside, by the root of the number of inputs.
    """
    directions = rng.standard_normal((count, len(centre)))
    walls = np.where(directions > 0, high, low) - centre
    rates, heights = directions @ ridges.rows[:, :-1].T, ridges.heights(centre[None])
    with np.errstate(divide="ignore", invalid="ignore"):
        to_planes, to_walls = -heights / rates, walls / directions
    ahead = np.where(to_planes > 0, to_planes, np.inf)
    length = np.minimum(np.min(ahead, axis=1, initial=np.inf), np.min(to_walls, axis=1))
    return centre + directions * (length * rng.uniform(*BETWEEN, count))[:, None]


def _largest_ball(
    ridges: Ridges, unit: int, price: float, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Centre and radius of a ball in a box, on the active side of a unit and off the others as far as that pays."""
    m, d = len(ridges.rows), len(low)
    others = np.arange(m) != unit
    loads = np.linalg.norm(ridges.columns, axis=1)
    rows, eye, one = ridges.rows, np.eye(d), np.ones((d, 1))
    outside = np.hstack([rows[others, :-1], np.ones((m - 1, 1)), -np.eye(m - 1)])
    inside = np.concatenate([-rows[unit, :-1], [1.0], np.zeros(m - 1)])[None]
    none = np.zeros((d, m - 1))
    solved = scipy.optimize.linprog(
        np.concatenate([np.zeros(d), [-1.0], price * loads[others] / max(loads[unit], 1e-300)]),
        A_ub=np.vstack([outside, inside, np.hstack([eye, one, none]), np.hstack([-eye, one, none])]),
        b_ub=np.concatenate([-rows[others, -1], rows[unit, -1:], high, -low]),
        bounds=[(None, None)] * d + [(0, None)] * m,
        method="highs",
    )
    return (solved.x[:d], float(solved.x[d])) if solved.status == 0 and solved.x[d] > 0 else None


def _fit(ridges: Ridges, x: np.ndarray, y: np.ndarray, unit: float, deadline: float) -> RidgeFit:
    bars = np.sqrt(np.mean(propagated_rounding(as_network(ridges), x, unit) ** 2, axis=1))
    floor = 1e-3 * float(np.median(bars))  # where all units are off and the constant is small
    return fit_ridges(replace(ridges, skip=False), x, y, np.maximum(bars, floor), deadline=deadline)
