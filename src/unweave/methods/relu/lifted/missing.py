"""Units that no line shows, from what the others leave over of rough answers.

A unit that is weak, or switches where bends of others crowd, drowns on lines; in all answers together it does not. With
the planes known, what the other units leave over is ``output * relu(weights . features)`` in the features (x, 1, |u|).
Given where it is on, that is linear: weights of rank one are solved for, beside all that is linear anyway; they tell
where it is on, and so on until that no longer changes. Of several beginnings the one that leaves least is taken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.lifted.compare import BEYOND
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.traces import Traces

BEGINNINGS, PASSES = 40, 12
"""Regions tried at first, and how often each is solved for and drawn anew."""
LOCAL = 12
"""How many of the first of them are some of the wrong answers and nothing else: the unit may be on in a corner only."""
FAR = 30.0
"""Deviations in error bars from which on an answer counts less, where few are."""


def add_unit(
    point: RidgeSum, x: np.ndarray, y: np.ndarray, bars: np.ndarray, rng: np.random.Generator
) -> tuple[RidgeSum, float]:
    """The sum with one more unit, and the share of the squares of what was left that it leaves."""
    extended = np.hstack([x, np.ones((len(x), 1))])
    values, u, z = point.forward(extended)
    left, features = y - values, np.hstack([extended, np.abs(u)])
    scale = np.sqrt(np.mean(features**2, axis=0)) + 1e-300
    features = features / scale
    misses = np.linalg.norm(left, axis=1) / bars
    limit = max(FAR, 3 * float(np.median(misses)))
    weights = np.sqrt(np.minimum(1.0, limit / np.maximum(misses, 1e-300))) / bars
    design, target = features * weights[:, None], left * weights[:, None]
    basis = _basis(design, np.maximum(z, 0.0) * weights[:, None])
    whole = float(np.sum(_without(basis, target) ** 2))
    places = x / (np.std(x, axis=0) + 1e-300)
    best, d = (1.0, np.zeros(features.shape[1]), np.zeros(y.shape[1])), extended.shape[1]
    wrong = misses > BEYOND
    for turn in range(BEGINNINGS):
        # a half space with a point deep inside that is wrong
        middle = places[rng.choice(len(x), p=misses / misses.sum())]
        if turn < LOCAL:
            near = np.argsort(np.where(wrong, np.linalg.norm(places - middle, axis=1), np.inf))
            on = np.zeros(len(x), dtype=bool)
            on[near[: max(1, int(rng.uniform(0.2, 1.0) * np.sum(wrong)))]] = True
        else:
            height = (places - middle) @ rng.standard_normal(len(middle))
            on = height > -rng.uniform(0, 0.7) * np.std(height)
        for _ in range(PASSES):
            found = _rank_one(design, on, basis, target, _bending(u[on], d))
            if found is None:
                break
            theta, output = found
            values = np.maximum(features @ theta, 0.0)
            left = target - (values * weights)[:, None] * output
            loss = float(np.sum(_without(basis, left) ** 2)) / whole
            if loss < best[0]:
                best = loss, theta, output
            before, on = on, values > 0
            if np.array_equal(on, before):
                break
    loss, theta, output = best
    theta = theta / scale
    grown = replace(
        point,
        gamma=np.vstack([point.gamma, theta[:d]]),
        beta=np.vstack([point.beta, theta[d:]]),
        output=np.vstack([point.output, output]),
    )
    return grown, loss


def as_traces(point: RidgeSum, count: int, planes: Planes, x: np.ndarray) -> Traces:
    """The last units of a sum as traces that began at no kink."""
    lengths = np.linalg.norm(point.output[-count:], axis=1, keepdims=True)
    gamma, beta = point.gamma[-count:] * lengths, point.beta[-count:] * lengths
    size = gamma.shape[1] + beta.shape[1]
    found = Traces(
        planes,
        gamma,
        beta,
        np.ones(beta.shape, dtype=bool),
        np.ones(beta.shape),
        point.output[-count:] / lengths,
        np.zeros((count, size, size)),
        np.full(beta.shape, np.inf),
        np.ones(count),
        np.full(count, -1),
    )
    return forget(found, x)


def forget(traces: Traces, x: np.ndarray) -> Traces:
    """The traces with covariances as if nothing were known of them but their sizes at ``x``."""
    features = np.hstack([x, np.ones((len(x), 1)), np.abs(traces.planes.heights(x))])
    sizes = np.mean((features @ np.hstack([traces.gamma, traces.beta]).T) ** 2, axis=0)
    spread = sizes[:, None] / (np.mean(features**2, axis=0) + 1e-300)
    return replace(traces, covariance=spread[:, :, None] * np.eye(spread.shape[1]), turn=np.ones(len(traces)))


def _basis(*blocks: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the columns span: all that is linear, the outputs of known units among it."""
    columns = np.hstack([block / (np.linalg.norm(block, axis=0) + 1e-300) for block in blocks])
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    return u[:, s > 1e-9 * s[0]]


def _without(basis: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What the columns of an orthonormal basis leave of others."""
    return rows - basis @ (basis.T @ rows)


def _bending(heights: np.ndarray, width: int) -> np.ndarray:
    """Numbers of the features that tell apart: (x, 1), ``width`` of them, and those of planes between the points."""
    sides = heights > 0
    return np.append(np.arange(width), width + np.flatnonzero(sides.any(axis=0) & ~sides.all(axis=0)))


def _rank_one(
    design: np.ndarray, on: np.ndarray, basis: np.ndarray, target: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights and output of the unit that explains ``target`` best if it is ``on`` there; positive on the whole.

    Of the numbered features; the weights of others are zero.
    """
    width = len(which)
    if np.sum(on) < 2 * width:
        return None
    own = design[np.ix_(on, which)]
    shared = basis[on].T @ own
    matrix = own.T @ own - shared.T @ shared
    matrix[np.diag_indices(width)] += 1e-9 * np.trace(own.T @ own) / width
    solution = np.linalg.solve(matrix, own.T @ target[on] - shared.T @ (basis.T @ target))
    # the best of rank one, as the answers weigh it
    _, vectors = np.linalg.eigh(solution.T @ matrix @ solution)
    output = vectors[:, -1]
    theta = solution @ output
    if np.sum(own @ theta) < 0:
        theta, output = -theta, -output
    weights = np.zeros(design.shape[1])
    weights[which] = theta
    return weights, output
