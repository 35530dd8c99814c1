"""Second-layer weights that no crossing shows, from answers already paid for.

A weight stays open when the zero set of its unit is never met on the active side of a first-layer plane: the unit is
on, or off, wherever that first-layer unit is active. Where the first-layer units of all open weights rest, everything
is known, so the output layer and the sides of all units follow from those answers. Where one of them is active, what
the rest of the network leaves over is ``c relu(z + b h)`` with b alone unknown: each answer gives it, or shows that the
unit is off there, and then any sufficiently negative b describes the same function.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.signs import solve_signs
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.probes.inquiry import Inquiry
from unweave.probes.planes import Planes

MAX_OPEN = 4
TOLERANCE = 1e-7


def complete_from_answers(
    inquiry: Inquiry, planes: Planes, units: list[PreActivation], orientation: np.ndarray
) -> bool:
    """Fill open weights of units known otherwise; whether any was found."""
    pairs = [(i, int(j)) for i, unit in enumerate(units) for j in np.flatnonzero(~unit.known)]
    if not 0 < len(pairs) <= MAX_OPEN or not orientation.all():
        return False
    rows, offsets = orientation[:, None] * planes.normals, orientation * planes.offsets
    x, answers = inquiry.meter.transcript()
    features = np.maximum(x @ rows.T + offsets, 0.0)
    second = np.array([np.where(u.known, u.weights, 0.0) for u in units])
    outputs = np.array([u.output for u in units])
    points = np.maximum(np.array([u.point for u in units]) @ rows.T + offsets, 0.0)
    if any(points[i, j] > 0 for i, j in pairs):
        return False
    arguments = features @ second.T - np.einsum("lm,lm->l", second, points)
    busy = np.sort(np.unique([j for _, j in pairs]))
    resting = np.all(features[:, busy] == 0, axis=1)
    others = np.setdiff1d(np.arange(len(planes)), busy)
    design = np.hstack([features[np.ix_(resting, others)], np.ones((int(resting.sum()), 1))])
    if len(design) < 2 * design.shape[1] + 20:
        return False
    scale = float(np.median(np.abs(answers))) + inquiry.slope
    bent = np.abs(arguments) @ outputs / 2
    solution, rest = _fit(design, (answers - bent)[resting], TOLERANCE * scale)
    if rest > TOLERANCE * scale:
        return False
    vectors = (second[:, others, None] * outputs[:, None, :] / 2).reshape(len(units), -1)
    size = float(np.max(np.abs(vectors)))
    found = solve_signs(vectors, solution[:-1].ravel(), 10 * TOLERANCE * max(size, scale))
    if found.signs is None or not found.determined.all():
        return False
    signs = found.signs
    biases = arguments[0] - features[0] @ second.T
    constant = solution[-1] - (signs * biases / 2) @ outputs
    filled = False
    for i, j in pairs:
        alone = (features[:, j] > 0) & np.all(features[:, np.setdiff1d(busy, [j])] == 0, axis=1)
        alone &= features[:, j] > 1e-3 * np.max(features[:, j])
        if sum(1 for _, other in pairs if other == j) > 1 or alone.sum() < 20:
            continue
        known = np.maximum(signs * arguments[alone], 0.0)
        known[:, i] = 0.0
        left = (answers[alone] - constant - known @ outputs) @ outputs[i]
        argument, height = signs[i] * arguments[alone, i], features[alone, j]
        on = left > 1e-5 * scale
        if on.mean() > 0.05:
            value = float(np.median((left[on] - argument[on]) / height[on]))
        else:
            value = -float(np.max(argument / height, initial=1.0)) - 1.0
        wrong = np.abs(np.maximum(argument + value * height, 0.0) - left) > 1e-5 * (scale + np.abs(left))
        if wrong.mean() < 0.02:
            units[i].weights[j], units[i].known[j] = signs[i] * value, True
            if not on.mean() > 0.05:
                units[i].assumed.add(j)
            filled = True
    return filled


def _fit(design: np.ndarray, right: np.ndarray, tolerance: float) -> tuple[np.ndarray, float]:
    """Least squares with the worst points left out in turn, and the median miss."""
    kept = np.ones(len(design), dtype=bool)
    for _ in range(20):
        solution = np.linalg.lstsq(design[kept], right[kept], rcond=None)[0]
        misses = np.max(np.abs(design @ solution - right), axis=1)
        limit = max(3 * float(np.median(misses)), tolerance)
        if np.array_equal(kept, misses <= limit):
            break
        kept = misses <= limit
    return solution, float(np.median(misses))
