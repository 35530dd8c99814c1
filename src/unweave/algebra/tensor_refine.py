"""Least squares on all components of a symmetric tensor at once: ``min |T - sum_i s_i v_i^k|_F``, signs s_i given.

Levenberg-Marquardt whose normal matrix has a closed form in the inner products ``g_ij = v_i . v_j``, so that the
Jacobian (as many rows as the tensor has entries) is never formed:

    <s_i k v_i^{k-1} e, s_j k v_j^{k-1} f> = s_i s_j k g_ij^{k-2} ( g_ij <e, f> + (k-1) <v_j, e> <v_i, f> ).

Convergence is quadratic where the tensor is exact, and the result is the least-squares estimate where it is not.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from unweave.algebra.symmetric import flatten, frobenius, powers
from unweave.algebra.tensor_components import TensorComponents, fit_coefficients

MAX_PARAMETERS = 3000


def refine_components(
    packed: np.ndarray, size: int, found: TensorComponents, *, max_steps: int = 50, tolerance: float = 1e-12
) -> TensorComponents:
    """The nearest least-squares decomposition; what was given when there is nothing to do or too much of it."""
    order = found.order
    keep = np.abs(found.coefficients) > 0
    if not np.any(keep) or np.sum(keep) * size > MAX_PARAMETERS:
        return found
    signs = np.sign(found.coefficients[keep])
    v = found.vectors[keep] * (np.abs(found.coefficients[keep]) ** (1 / order))[:, None]
    whole = max(float(frobenius(packed, size, order)), 1e-300)
    rest = packed - signs @ powers(v, order)
    loss = float(frobenius(rest, size, order))
    damping, growth = 1e-6, 2.0
    for _ in range(max_steps):
        if loss <= tolerance * whole:
            break
        gradient = (
            order * signs[:, None] * (powers(v, order - 1, isometric=True) @ flatten(rest, size, order, 1).T)
        )
        matrix = _normal_matrix(v, signs, order)
        unit = float(np.trace(matrix)) / len(matrix)
        moved = None
        for _ in range(12):
            step = _solve(matrix, damping * unit, gradient.ravel())
            if step is not None:
                trial = v + step.reshape(v.shape)
                after = packed - signs @ powers(trial, order)
                distance = float(frobenius(after, size, order))
                if distance < loss:
                    moved = trial, after, distance
                    break
            damping, growth = damping * growth, 2 * growth
        if moved is None:
            break
        settled = loss - moved[2] < 1e-12 * loss
        v, rest, loss = moved
        damping, growth = max(0.1 * damping, 1e-15), 2.0
        if settled:
            break
    vectors = v / np.linalg.norm(v, axis=1, keepdims=True)
    refined = fit_coefficients(packed, size, order, vectors, found.spectrum)
    return refined if refined.residual <= found.residual else found


def _normal_matrix(v: np.ndarray, signs: np.ndarray, order: int) -> np.ndarray:
    num, size = v.shape
    g = v @ v.T
    outer = order * np.outer(signs, signs)
    straight, crossed = outer * g ** (order - 1), outer * (order - 1) * g ** (order - 2)
    # entry (i, e, j, f)
    blocks = crossed[:, None, :, None] * (v.T[None, :, :, None] * v[:, None, None, :])
    diagonal = np.arange(size)
    blocks[:, diagonal, :, diagonal] += straight[None]
    return blocks.reshape(num * size, num * size)


def _solve(matrix: np.ndarray, shift: float, right: np.ndarray) -> np.ndarray | None:
    shifted = matrix.copy(order="F")
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        return cho_solve(cho_factor(shifted, overwrite_a=True, check_finite=False), right, check_finite=False)
    except LinAlgError:
        return None
