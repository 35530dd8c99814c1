"""Parts of one second-layer unit, found one by one, put together: exact answers in a bounded domain.

The zero set of a unit need not be connected in the domain. Its parts share the direction of their output weights and
the weights on planes that both have crossed. On the planes between them, which neither meets, the difference of their
affine parts is the sum of what these bend: with few of them that tells each weight. With more of them what is left
open shows nowhere, as long as the unit keeps its sign everywhere between; a linear program looks for such weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.unite import are_alike, share_weights

SHARED = 1e-7
"""Directions of output weights, found from exact answers, that differ by less are the same."""
FITS = 1e-8
"""Relative misfit of the difference of two parts, exact answers."""
LEAST = 1e-9
"""How far from zero, relative to its weights, a unit stays where it must not change sign."""


def put_together(traces: Traces, faces: Faces, x: np.ndarray) -> tuple[Traces, list[int]]:
    """The traces with parts of one unit joined, and which ones are.

    At points ``x`` of the domain, and on planes, no unit changes sign where none of its parts does.
    """
    x = np.vstack([faces.x, x])
    one, found = 0, []
    while one < len(traces):
        for two in range(len(traces) - 1, one, -1):
            for sign in _may_be_one(traces, one, two):
                joined = _join(traces, one, two, sign, faces, x)
                if joined is not None:
                    traces = joined
                    found.append(one)
                    break
        one += 1
    return traces, found


def _may_be_one(t: Traces, one: int, two: int) -> tuple[float, ...]:
    """Signs with which a trace may be part of the same unit as another."""
    if np.linalg.norm(t.output[one] - t.output[two]) > DEVIATIONS * (t.turn[one] + t.turn[two]) + SHARED:
        return ()
    alike = are_alike(t, one, two)
    if alike:
        return (alike,)
    # with several outputs that directions agree is no accident
    return (1.0, -1.0) if np.sum(np.abs(t.output[one]) > SHARED) > 1 else ()


def _join(t: Traces, one: int, two: int, sign: float, faces: Faces, x: np.ndarray) -> Traces | None:
    """The traces with two of them as one unit, if there is such a unit; None if there is none."""
    shared = t.known[one] & t.known[two]
    apart = np.abs(t.beta[one] - sign * t.beta[two])[shared]
    if np.any(apart > FITS * max(float(np.max(np.abs(t.beta[one]))), 1e-300)):
        return None
    t = replace(
        t,
        **{name: getattr(t, name).copy() for name in ("gamma", "beta", "known", "covariance", "beta_error")},
    )
    share_weights(t, one, two, sign)
    between = np.flatnonzero(~t.known[one] & (t.sides[one] != t.sides[two]))
    left = sign * t.gamma[two] - t.gamma[one]
    matrix = (-2 * t.sides[one, between, None] * t.ridges[between]).T
    weights = np.linalg.lstsq(matrix, left, rcond=1e-12)[0] if len(between) else np.zeros(0)
    if np.linalg.norm(matrix @ weights - left) > FITS * np.linalg.norm(t.gamma[one]):
        return None
    kept = _kept_sign(t, one, faces, between)
    if kept != sign * _kept_sign(t, two, faces, between):
        return None
    weights = _keep_between(t, one, between, weights, matrix, kept, x)
    if weights is None:
        return None
    for plane, beta in zip(between, weights, strict=True):
        t.cross(one, int(plane), float(beta), 0.0)
    return t.take(np.flatnonzero(np.arange(len(t)) != two))


def _kept_sign(t: Traces, unit: int, faces: Faces, planes: np.ndarray) -> float:
    """The sign that a unit has on the planes beyond which nothing is known of it."""
    values, known = faces.look(t.take(np.array([unit])))
    rows = known[:, 0] & np.isin(faces.plane, planes)
    return float(np.sign(np.sum(np.sign(values[rows, 0]))))


def _keep_between(
    t: Traces,
    unit: int,
    between: np.ndarray,
    weights: np.ndarray,
    matrix: np.ndarray,
    kept: float,
    x: np.ndarray,
) -> np.ndarray | None:
    """Weights on the planes between the parts with which the unit keeps its sign there; None if there are none."""
    heights = t.planes.heights(x)
    unknown = ~t.known[unit]
    signs = np.where(heights > 0, 1.0, -1.0)
    others = np.flatnonzero(unknown & ~np.isin(np.arange(len(unknown)), between))
    apart = signs[:, between] != t.sides[unit, between]
    inside = np.all(signs[:, others] == t.sides[unit, others], axis=1)
    rows = np.flatnonzero(inside & apart.any(axis=1) & ~apart.all(axis=1))
    # relu(-s u) for each plane between: nothing on the side of the first part
    bends = 2 * np.abs(heights[np.ix_(rows, between)]) * apart[rows]
    base = kept * t.values(x[rows], heights[rows])[:, unit]
    steep = np.linalg.norm(t.gamma[unit, :-1]) + np.abs(t.beta[unit]).sum() + 1e-300
    if np.all(base + kept * bends @ weights > LEAST * steep):
        return weights
    free = scipy.linalg.null_space(matrix, rcond=1e-12)
    if not free.shape[1]:
        return None
    # as far from zero as may be: base + kept bends (weights + free c) >= room
    scale = max(float(np.max(np.abs(weights))), steep)
    system = np.hstack([-kept * scale * bends @ free, np.full((len(rows), 1), steep)])
    limits = [(-1e3, 1e3)] * free.shape[1] + [(0.0, 1.0)]
    goal = np.append(np.zeros(free.shape[1]), -1.0)
    found = linprog(goal, A_ub=system / steep, b_ub=(base + kept * bends @ weights) / steep, bounds=limits)
    if found.status != 0 or found.x[-1] <= LEAST:
        return None
    return weights + scale * free @ found.x[:-1]


def fit_where_rare(point: RidgeSum, unit: int, x: np.ndarray, y: np.ndarray, bars: np.ndarray) -> RidgeSum:
    """The sum with the weights of one unit told once more, by all answers on the side where it rarely is.

    On its other side it is what is linear that changes: each part of a unit was told for itself, all to few digits.
    """
    output = point.output[unit]
    if np.mean(point.on(x)[:, unit]) > 0.5:  # relu(z) = z + relu(-z)
        more = np.append(point.beta[unit], point.gamma[unit])
        gamma, beta, above = point.gamma.copy(), point.beta.copy(), point.above.copy()
        above += more[:, None] * output
        gamma[unit], beta[unit] = -gamma[unit], -beta[unit]
        point = replace(point, gamma=gamma, beta=beta, above=above)
    extended = np.hstack([x, np.ones((len(x), 1))])
    for _ in range(2):
        values, u, z = point.forward(extended)
        rows = z[:, unit] > 0
        features = np.hstack([extended[rows], np.abs(u[rows])]) / bars[rows, None]
        left = (y - values)[rows] @ output / (output @ output) / bars[rows]
        size = np.linalg.norm(features, axis=0) + 1e-300
        change = np.linalg.lstsq(features / size, left, rcond=1e-12)[0] / size
        gamma, beta = point.gamma.copy(), point.beta.copy()
        gamma[unit] += change[: gamma.shape[1]]
        beta[unit] += change[gamma.shape[1] :]
        point = replace(point, gamma=gamma, beta=beta)
    return point
