"""On which side is each unit active? The likeliest signs when the bends carry noise.

The affine part of a sum of relu units is ``beta = sum_i s_i v_i``, v_i half the bends. Least squares on noisy rows
gives both with their joint covariance, so for the true signs ``beta - sum_i s_i v_i`` is a normal vector of known
covariance: its squared length is a chi-square variable. The signs of least squared length are taken; signs
that other choices of nearly the same length disagree on are not determined; and if even the best is too long, the
affine part is not one of relu units alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unweave.algebra.sphere import nearest_signs
from unweave.methods.relu.one_layer.ridges import RidgeSum

WITHIN = 20.0
"""Squared lengths closer than this cannot be told apart (odds of e^10)."""


@dataclass(frozen=True)
class Sides:
    """The likeliest signs, which of them are determined, and whether they explain the affine part."""

    signs: np.ndarray
    determined: np.ndarray
    explain: bool


def likeliest_signs(ridges: RidgeSum, x: np.ndarray, noise: float) -> Sides | None:
    """Signs of the ridges fitted to rows x by least squares with this noise; None when rows determine no covariance."""
    covariance = _covariance(ridges, x)
    if covariance is None:
        return None
    m, (k, d) = len(ridges.planes), ridges.gradient.shape
    half = ridges.bends / 2
    # the error of beta - sum s_i v_i; what depends on the signs (correlations) is taken at the first estimate
    signs = np.ones(m)
    choices = None
    for _ in range(3):
        weights = np.concatenate([[1.0], -signs / 2])
        spread = np.einsum("a,aibj,b->ij", weights, covariance, weights) * noise**2
        root = np.linalg.cholesky(spread + 1e-12 * np.trace(spread) / d * np.eye(d))
        vectors = np.concatenate([_whiten(root, half[:, o].T) for o in range(k)])
        target = np.concatenate([_whiten(root, ridges.gradient[o]) for o in range(k)])
        choices = nearest_signs(vectors, target, within=WITHIN)
        if not len(choices.signs) or np.array_equal(choices.signs[0], signs):
            break
        signs = choices.signs[0]
    if choices is None or not len(choices.signs):
        return None
    freedom = k * d
    limit = freedom + 6 * np.sqrt(2 * freedom) + 12
    determined = np.all(choices.signs == choices.signs[0], axis=0) & choices.complete
    return Sides(choices.signs[0], determined, bool(choices.distances[0] <= limit))


def _whiten(root: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.asarray(scipy.linalg.solve_triangular(root, columns, lower=True))


def _covariance(ridges: RidgeSum, x: np.ndarray) -> np.ndarray | None:
    """Covariance of the affine part's gradient and of every bend for unit noise, (m+1, d, m+1, d)."""
    n, d = x.shape
    sides = np.sign(x @ ridges.planes.normals.T + ridges.planes.offsets) / 2
    blocks = np.hstack([np.ones((n, 1)), sides])
    extended = np.hstack([x, np.ones((n, 1))])
    size = blocks.shape[1] * (d + 1)
    gram = np.zeros((size, size))
    step = max(1, 4_000_000 // size)
    for start in range(0, n, step):
        part = slice(start, start + step)
        design = (blocks[part, :, None] * extended[part, None, :]).reshape(-1, size)
        gram += design.T @ design
    try:
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram, lower=True), np.eye(size))
    except np.linalg.LinAlgError:
        return None
    shaped = inverse.reshape(blocks.shape[1], d + 1, blocks.shape[1], d + 1)
    return shaped[:, :-1, :, :-1]
