"""Weights of traced units on planes that they meet only in a corner of the domain, from answers that are wrong there.

A unit is taken to keep its sign beyond a plane that its zero set was never seen to meet. Where it does not, the answers
miss by a multiple of its output, and what they miss by is linear in its weights on the planes that lie in between.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces

SPARE = 4
"""Wrong answers beyond the number of weights that they must agree on."""
AGREEING = 0.8
"""Share of a unit's wrong answers that its new weights must explain."""


def cross_corners(
    traces: Traces, point: RidgeSum, x: np.ndarray, missed: np.ndarray, bars: np.ndarray
) -> int:
    """How many weights the answers at ``x``, ``missed`` (points, k) off ``point``, tell; ``traces`` learns them."""
    extended = np.hstack([x, np.ones((len(x), 1))])
    _, heights, values = point.forward(extended)
    left, found = np.ones(len(x), dtype=bool), 0
    for _ in range(len(traces)):
        best = None
        for j in range(len(traces)):
            beyond = ~traces.known[j] & (heights * traces.sides[j] < 0)
            along = missed @ traces.output[j]
            aside = np.linalg.norm(missed - along[:, None] * traces.output[j], axis=1)
            rows = np.flatnonzero(
                left & beyond.any(axis=1) & (aside <= DEVIATIONS * (bars + traces.turn[j] * np.abs(along)))
            )
            planes = np.flatnonzero(beyond[rows].any(axis=0))
            if len(rows) < len(planes) + SPARE:
                continue
            reach = np.abs(heights[rows][:, planes]) * beyond[rows][:, planes]
            kept = point.beta[j, planes] > 0
            solved = _solve(kept, reach, values[rows, j], along[rows], bars[rows])
            if solved is None:
                continue
            change, errors, good = solved
            weights = point.beta[j, planes] + change
            if good.sum() >= max(AGREEING * len(rows), len(planes) + SPARE) and (
                best is None or good.sum() > len(best[4])
            ):
                best = j, planes, weights, errors, rows[good]
        if best is None:
            break
        j, planes, weights, errors, rows = best
        for plane, weight, error in zip(planes, weights, errors, strict=True):
            traces.cross(j, int(plane), float(weight), float(error))
        left[rows] = False
        found += len(planes)
    return found


def _solve(kept: np.ndarray, reach: np.ndarray, values, along, bars):
    """Changes of the weights on planes, their errors and which answers they explain; None where one is not told.

    ``kept``: where the unit was taken to stay on, its bend is among what is linear and changes with the weight.
    ``reach``: how far the points lie beyond each plane.
    """
    on = values[:, None] > 0
    # of a unit now off its value is missing, and what was linear with it; of one now on all that it adds
    matrix = 2 * np.where(on, -reach * kept, reach * ~kept)
    target = along + np.abs(values)
    a, b = matrix / bars[:, None], target / bars
    scale = np.linalg.norm(a, axis=0)
    if np.any(scale == 0):
        return None
    weight, change, misses = np.ones(len(b)), np.zeros(len(kept)), np.zeros(len(b))
    for _ in range(6):
        change = np.linalg.lstsq(a / scale * weight[:, None], b * weight, rcond=1e-10)[0] / scale
        misses = np.abs(a @ change - b)
        weight = np.minimum(1.0, 3 * (1 + np.median(misses)) / np.maximum(misses, 1e-300))
    spread = np.linalg.pinv(a / scale * weight[:, None], rcond=1e-10) / scale[:, None]
    rough = max(1.0, float(np.median(misses)))
    return change, rough * np.linalg.norm(spread, axis=1), misses <= 2 * DEVIATIONS
