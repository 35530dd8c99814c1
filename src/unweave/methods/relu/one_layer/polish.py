"""Least squares for a sum of ridges: linear once it is known on which side of every plane each point lies.

The patterns are read off the current planes, all bends and the affine part are solved for at once, and the
patterns are read again: a Gauss-Newton iteration that settles in a few steps. It averages the errors of many
answers, which is what rough (float32) oracles need.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.probes.inquiry import Inquiry
from unweave.probes.planes import Planes

DOUBTFUL = 30.0
"""Units whose error is so many times the typical one are fitted to answers from all over the domain."""
MISFIT = 3.0
"""Root mean square miss, in error bars, above which such a fit explains nothing: a unit is missing."""


def refit_ridges(
    model: RidgeSum, x: np.ndarray, answers: np.ndarray, bars: np.ndarray, num_steps: int
) -> tuple[RidgeSum, float]:
    """The ridge sum refitted to answers (n, k) with error bars (n,), and the root mean square misfit in error bars.

    A plane that no point tells from another one is dropped.
    """
    d = x.shape[1]
    extended = np.hstack([x, np.ones((len(x), 1))])
    misfit, previous = np.inf, None
    for _ in range(num_steps):
        sides = np.sign(x @ model.planes.normals.T + model.planes.offsets)
        if previous is not None and np.array_equal(sides, previous):
            break
        previous = sides
        blocks = np.hstack([np.ones((len(x), 1)), sides / 2])
        design = (blocks[:, :, None] * extended[:, None, :]).reshape(len(x), -1) / bars[:, None]
        q, r = np.linalg.qr(design)
        diagonal = np.abs(np.diag(r))
        if np.min(diagonal) < 1e-13 * np.max(diagonal):  # two planes with the same sides: the later one goes
            worst = int(np.argmin(diagonal)) // (d + 1) - 1
            if worst < 0:
                return model, misfit
            model = replace(model, planes=model.planes.take(np.arange(len(model.planes)) != worst))
            continue
        projected = q.T @ (answers / bars[:, None])
        solution = scipy.linalg.solve_triangular(r, projected)
        misfit = float(
            np.sqrt(np.mean((answers / bars[:, None] - q @ projected) ** 2) * len(x) / (len(x) - len(r)))
        )
        inverse = scipy.linalg.solve_triangular(r, np.eye(len(r)))
        deviations = np.sqrt(np.sum(inverse**2, axis=1)) * max(misfit, 0.1)
        model = _rebuild(model, solution, deviations, d)
    return model, misfit


def fit_doubtful(inquiry: Inquiry, model: RidgeSum, rng: np.random.Generator) -> RidgeSum:
    """The ridge sum after a fit of its least known bends and its affine part to answers from all over the domain.

    Where other planes leave a unit no room, one fit to many answers still tells it.
    """
    errors, d = model.planes.errors, inquiry.input_size
    doubtful = errors > DOUBTFUL * float(np.median(errors))
    if not doubtful.any():
        return model
    num_unknowns = (int(doubtful.sum()) + 1) * (d + 1)
    x = inquiry.meter.domain.sample(int(np.ceil(1.5 * num_unknowns)) + 20, d, rng)
    answers = inquiry.meter.ask(x)
    x = inquiry.meter.snap(x)
    known = replace(
        model,
        planes=model.planes.take(~doubtful),
        gradient=0 * model.gradient,
        constant=0 * model.constant,
    )
    part = replace(model, planes=model.planes.take(doubtful))
    bars = inquiry.bars(x, answers) + known.error(x)
    rest, misfit = refit_ridges(part, x, answers - known(x), bars, 8)
    if not misfit < MISFIT or len(rest.planes) < int(doubtful.sum()):
        return model
    return replace(rest, planes=known.planes.join(rest.planes))


def _rebuild(model: RidgeSum, solution: np.ndarray, deviations: np.ndarray, d: int) -> RidgeSum:
    planes, k = model.planes, solution.shape[1]
    rows = solution.reshape(len(planes) + 1, d + 1, k)
    spread = deviations.reshape(len(planes) + 1, d + 1)
    normals, offsets, jumps = (
        np.empty_like(planes.normals),
        np.empty(len(planes)),
        np.empty_like(planes.jumps),
    )
    errors = np.empty(len(planes))
    for i in range(len(planes)):
        bend = rows[i + 1]
        u, sizes, vt = np.linalg.svd(bend, full_matrices=False)
        length = np.linalg.norm(u[:-1, 0])
        side = 1.0 if u[:-1, 0] @ planes.normals[i] >= 0 else -1.0
        normals[i], offsets[i] = side * u[:-1, 0] / length, side * u[-1, 0] / length
        jumps[i] = side * sizes[0] * length * vt[0]
        errors[i] = np.max(spread[i + 1]) / np.max(np.abs(bend[:-1]))
    points = -offsets[:, None] * normals
    fitted = Planes(normals, offsets, jumps, errors, points)
    return replace(model, planes=fitted, gradient=rows[0, :-1].T.copy(), constant=rows[0, -1].copy())
