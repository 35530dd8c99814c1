"""All planes and traced units at once, by weighted least squares on answers with error bars.

Kinks, crossings and places say what each plane and unit is, with a covariance; the answers say it better, but leave
directions open. So every step is least squares in units of those covariances, which bound it too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.ridge_normal import gradient_of, normal_matrix
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.traces import Traces

LOOSE = 3.0
"""By how much covariances are taken to be larger than they say: they may rest on a misread kink."""
PULLED, LOOSER = 2.0, 10.0
"""Where the answers pull farther than this many of them, they are larger still, by this factor."""
LEAST_TURN = 1e-4
"""Outputs of a unit may at least change by this."""
TINY = 1e-100
"""Size of an output below which a unit adds nothing."""
FAR = 6.0
"""Deviations in error bars from which on an answer counts less."""
ENOUGH = 0.98
"""A step that leaves more than this share of the cost is the last."""
QUICKLY = 0.7
"""A step that leaves more than this share of the cost wants derivatives of its own."""


def fit_jointly(
    traces: Traces, start: RidgeSum, x: np.ndarray, y: np.ndarray, bars: np.ndarray, *, max_steps: int = 12
) -> tuple[Traces, RidgeSum]:
    """The traces over better planes and the sum they are part of, fitted to answers ``y`` (points, k) at ``x``."""
    x, bars = np.hstack([x, np.ones((len(x), 1))]), bars[:, None]
    roots = [LOOSE * _root(c) for c in (*traces.covariance, *traces.planes.covariances)]
    roots += [LOOSE * max(turn, LEAST_TURN) * np.eye(y.shape[1]) for turn in traces.turn]
    base, point = start.flat(), start
    size, held = len(base), len(base) - start.above.size
    q, prior = np.zeros(size), np.arange(size) < held
    values, u, z = point.forward(x)
    residual, scale, factor, worn, stale = (values - y) / bars, np.ones(size), np.zeros((0, 0)), True, False
    for _ in range(max_steps):
        limit = max(FAR, 3 * float(np.median(np.abs(residual))))
        weights = np.minimum(1.0, limit / np.maximum(np.abs(residual), 1e-300))
        if worn:  # the last factor serves as long as it leads on
            matrix = normal_matrix(point, x, u, z, weights / bars)
            matrix = _turn(_turn(matrix, roots).T, roots)
            matrix[np.diag_indices(size)] += prior
            scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
            matrix = matrix / scale[:, None] / scale
            factor, stale = _factor(matrix), False
        gradient = gradient_of(point, x, u, z, weights**2 * residual / bars)
        gradient = np.where(prior, q, 0.0) + _turn(gradient[None], roots)[0]
        change = scipy.linalg.cho_solve((factor, False), gradient / scale, check_finite=False) / scale
        cost, value = _cost(residual, limit) + float(q[:held] @ q[:held]), np.inf
        for shorter in (1.0, 0.3, 0.1, 0.03, 0.01):
            trial = q - shorter * change
            there = start.at(base + _turn(trial[None].copy(), [root.T for root in roots])[0])
            fresh, *bends = there.forward(x)
            fresh = (fresh - y) / bars
            value = _cost(fresh, limit) + float(trial[:held] @ trial[:held])
            if value < cost:
                q, point, residual, (u, z) = trial, there, fresh, bends
                break
        pulled = _loosen(q, roots)
        if value > ENOUGH * cost and not pulled and not stale:
            break
        worn = pulled or value > QUICKLY * cost
        stale = not worn
    (invert,) = scipy.linalg.get_lapack_funcs(("potri",), (factor,))
    spread = invert(factor)[0]
    spread = (np.triu(spread) + np.triu(spread, 1).T) / scale[:, None] / scale
    rough = max(1.0, float(np.sqrt(np.mean(np.minimum(np.abs(residual), FAR) ** 2))))
    blocks, first = [], 0
    for root in roots:
        part = slice(first, first + len(root))
        blocks.append(rough**2 * root @ spread[part, part] @ root.T)
        first += len(root)
    return _traces(traces, point, blocks), _normalised(point)


def _factor(matrix: np.ndarray) -> np.ndarray:
    """The triangular factor of a matrix with ones on the diagonal, damped as little as rounding allows."""
    for damping in (1e-11, 1e-9, 1e-7, 1e-4, 1e-2):
        matrix[np.diag_indices(len(matrix))] += damping
        try:
            return scipy.linalg.cho_factor(matrix, check_finite=False)[0]
        except np.linalg.LinAlgError:
            continue
    return np.diag(np.sqrt(np.maximum(np.diag(matrix), 1.0)))  # steps along the gradient


def _normalised(point: RidgeSum) -> RidgeSum:
    """The same function, with normals and outputs of length one."""
    lengths = np.linalg.norm(point.rows[:, :-1], axis=1, keepdims=True)
    sizes = np.maximum(np.linalg.norm(point.output, axis=1, keepdims=True), TINY)
    above = point.above.copy()
    above[: len(lengths)] *= lengths
    return RidgeSum(
        point.rows / lengths, point.gamma * sizes, point.beta * lengths.T * sizes, point.output / sizes, above
    )


def _traces(traces: Traces, point: RidgeSum, blocks: list[np.ndarray]) -> Traces:
    """The traces as the fit has them; weights on planes never met are left open as before."""
    m, n = point.beta.shape
    lengths = np.linalg.norm(point.rows[:, :-1], axis=1)
    sizes = np.maximum(np.linalg.norm(point.output, axis=1), TINY)
    point = _normalised(point)
    covariances = np.array(blocks[m : m + n]) / lengths[:, None, None] ** 2
    planes = Planes(point.rows[:, :-1], point.rows[:, -1], covariances, traces.planes.shares)
    beyond = np.where(traces.known, 0.0, point.beta)
    covariance = np.array(blocks[:m]) * sizes[:, None, None] ** 2
    errors = np.sqrt(np.maximum(np.einsum("jpp->jp", covariance)[:, -n:], 0.0))
    return replace(
        traces,
        planes=planes,
        gamma=point.gamma + (beyond * traces.sides) @ point.rows,
        beta=point.beta - beyond,
        output=point.output,
        covariance=covariance,
        beta_error=np.where(traces.known, errors, np.inf),
        turn=np.sqrt([np.trace(block) for block in blocks[m + n :]]) / sizes,
        known=traces.known.copy(),
    )


def _turn(rows: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
    """Derivatives by parameters as those by their standard units, in place; with roots transposed the units' own."""
    start = 0
    for root in roots:
        part = slice(start, start + len(root))
        rows[:, part] = rows[:, part] @ root
        start += len(root)
    return rows


def _loosen(q: np.ndarray, roots: list[np.ndarray]) -> bool:
    """Whether the answers pull some of the planes or units from what was known of them; that is then trusted less."""
    start, pulled = 0, False
    for number, root in enumerate(roots):
        part = slice(start, start + len(root))
        if np.max(np.abs(q[part])) > PULLED:
            roots[number], q[part], pulled = LOOSER * root, q[part] / LOOSER, True
        start += len(root)
    return pulled


def _cost(residual: np.ndarray, limit: float) -> float:
    squares = residual**2 / limit**2
    return limit**2 * float(np.sum(np.where(squares > 1, 1 + np.log(np.maximum(squares, 1.0)), squares)))


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
