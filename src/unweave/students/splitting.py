"""Which units of a one-layer student stand for several true ones, from what it leaves of the answers.

A student without many surplus units comes to rest where one of its units stands for two true ones that are alike:
to first order nothing lowers the residual any more. Two copies of a unit on either side of it, its row plus and minus
e, each with half of its outgoing weights c, add ``c phi''(w . h) (e . h)^2 / 2`` (Liu, Wu and Wang 2019). The way e
along which that meets the residual best is an eigenvector of ``sum_n (r_n . c) phi''_n h_n h_n'``, one small matrix a
unit; how far the copies go, and what they take off the residual, follows by projection.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from unweave.solve.layout import Layout

RIDGE = 1e-6
"""Of the inputs' second moments, relative to the mean of their diagonal."""
FARTHEST = 0.7
"""How far copies go at most, relative to the row."""


def split_units(
    layout: Layout, parameters: np.ndarray, x: np.ndarray, y: np.ndarray, count: int
) -> tuple[Layout, np.ndarray]:
    """The student with two copies of its ``count`` most promising units; of fewer, where others gain nothing."""
    rows, outgoing = layout.block(parameters, 0), layout.block(parameters, 1)
    inputs = np.hstack([x, np.ones((len(x), 1))])
    z = inputs @ rows.T
    rest = layout.activations[0].value(z, np) @ outgoing[:, :-1].T + outgoing[:, -1] - y
    bends, along = layout.activations[0].second(z, np), rest @ outgoing[:, :-1]
    moments = inputs.T @ inputs / len(x)
    moments[np.diag_indices_from(moments)] += RIDGE * np.trace(moments) / len(moments)
    try:
        root = cholesky(moments, lower=True)
    except (LinAlgError, ValueError):
        return layout, parameters
    gains, ways = np.zeros(len(rows)), np.zeros_like(rows)
    for unit, (weights, bend) in enumerate(zip(along.T, bends.T, strict=True)):
        meeting = inputs.T @ ((weights * bend)[:, None] * inputs)
        half = solve_triangular(root, meeting, lower=True)
        turned = solve_triangular(root, half.T, lower=True)
        vector = eigh((turned + turned.T) / 2, subset_by_index=(0, 0))[1][:, 0]
        way = solve_triangular(root, vector, lower=True, trans=1)
        shape = bend * (inputs @ way) ** 2
        met, size = float(weights @ shape), float(np.sum(outgoing[:, unit] ** 2) * (shape @ shape))
        if met < 0 and size > 0:
            gains[unit] = met**2 / size
            length = np.sqrt(-2 * met / size)
            ways[unit] = way * min(length, FARTHEST * np.linalg.norm(rows[unit]) / np.linalg.norm(way))
    chosen = [k for k in np.argsort(-gains, kind="stable")[:count] if gains[k] > 0]
    rows, outgoing, new = rows.copy(), outgoing.copy(), rows[chosen] - ways[chosen]
    rows[chosen] += ways[chosen]
    outgoing[:, chosen] /= 2
    outgoing = np.hstack([outgoing[:, :-1], outgoing[:, chosen], outgoing[:, -1:]])
    wider = Layout((layout.sizes[0], len(rows) + len(chosen), layout.sizes[-1]), layout.activations)
    return wider, np.concatenate([rows.ravel(), new.ravel(), outgoing.ravel()])
