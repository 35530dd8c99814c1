"""Exact symmetric tensors of order 4 with many components: the subspace power method with deflation.

``T = sum_i z_i w_i^4`` flattens to a symmetric matrix ``M = V D V'`` over half-vectorised matrices; the columns of V
span the ``w_i w_i'``. ``u <- P_V(u u') u + sqrt(f (1 - f)) u`` with ``f = |P_V(u u')|^2`` climbs to a component (Kileel
and Pereira 2019); near it a few steps of Newton's method replace the rest of the way. A component with coordinates
``alpha = V' w w'`` is taken out by keeping what is orthogonal to ``D^-1 alpha``: exactly the span of the other
components. Here many starts climb at once and all new components of a round are taken out together, so that the work is
in large matrix products.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.jennrich import count_components
from unweave.algebra.matrix_span import half_vectorise, outer_squares, unvectorise
from unweave.algebra.symmetric import flatten, positions
from unweave.algebra.tensor_components import TensorComponents, fit_coefficients, merge_parallel

ON_SPAN = 1e-13
"""A unit vector whose ``1 - f`` is below this is a component."""


def decompose_by_power(
    packed: np.ndarray,
    size: int,
    rng: np.random.Generator,
    *,
    rank: int | None = None,
    max_rounds: int = 60,
) -> TensorComponents:
    """All components of an exact packed tensor of order 4; fewer when ``max_rounds`` of starts do not find them."""
    rows, columns = np.triu_indices(size)
    place = positions(np.stack([rows, columns], axis=1))
    values, vectors = np.linalg.eigh(flatten(packed, size, 4, 2)[np.ix_(place, place)])
    ranking = np.argsort(-np.abs(values))
    spectrum = np.abs(values[ranking])
    if rank is None:
        rank = count_components(spectrum, len(spectrum))
    rank = min(rank, len(spectrum))
    if not rank:
        return TensorComponents.none(size, 4, spectrum, packed)
    basis = np.ascontiguousarray(vectors[:, ranking[:rank]].T)
    whole, inverse = basis, np.diag(1 / values[ranking[:rank]])
    found, near = np.zeros((0, size)), 0.99
    for _ in range(max_rounds):
        if not len(basis):
            break
        starts = rng.standard_normal((max(len(basis) // 4, 8), size))
        # the slowest starts take most of the steps; others will find their components
        arrived = climb_shifted(basis, starts, near=near, leave=len(starts) // 8)
        limits = settle(basis, arrived)
        if 2 * len(limits) < len(arrived):
            near = 1 - (1 - near) / 4
        limits = limits[merge_parallel(limits, np.ones(len(limits)), 1e-6)[: len(basis)]]
        if len(limits):
            found = np.concatenate([found, limits])
            basis, inverse = _take_out(basis, inverse, limits)
    # rounding of the deflations does not touch the span of the whole tensor
    found = settle(whole, found)
    return fit_coefficients(packed, size, 4, found, spectrum)


def climb_shifted(
    basis: np.ndarray, starts: np.ndarray, *, near: float = 0.99, max_steps: int = 300, leave: int = 0
) -> np.ndarray:
    """Vectors (m, d) that the power method on the span of orthonormal ``basis`` (k, d(d+1)/2) brings to f > near.

    It ends when only ``leave`` of the starts (n, d) are still on their way.
    """
    u = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    active, size = np.arange(len(u)), u.shape[1]
    arrived = np.zeros(len(u), dtype=bool)
    for _ in range(max_steps):
        if len(active) <= leave:
            break
        before = u[active]
        coordinates = half_vectorise(outer_squares(before)) @ basis.T
        f = np.einsum("nk,nk->n", coordinates, coordinates)
        bounded = np.clip(f, 0.5, 1.0)
        after = np.matmul(unvectorise(coordinates @ basis, size), before[:, :, None])[:, :, 0]
        after += np.sqrt(bounded * (1 - bounded))[:, None] * before
        u[active] = after / np.linalg.norm(after, axis=1, keepdims=True)
        arrived[active] = f > near
        active = active[f <= near]
    return u[arrived]


def settle(basis: np.ndarray, vectors: np.ndarray, *, max_steps: int = 8) -> np.ndarray:
    """Newton's method on ``P_V(u u') u = f u`` from near its solutions; those that do not reach f = 1 are left out."""
    u, size = vectors, vectors.shape[1]
    if not len(u):
        return u
    elements = unvectorise(basis, size).transpose(1, 0, 2).reshape(size, -1)
    for _ in range(max_steps):
        images = (u @ elements).reshape(len(u), -1, size)
        coordinates = np.einsum("nki,ni->nk", images, u)
        f = np.einsum("nk,nk->n", coordinates, coordinates)
        rest = np.einsum("nk,nki->ni", coordinates, images) - f[:, None] * u
        if np.max(np.abs(rest)) < 1e-15:
            break
        matrix = -2 * np.matmul(images.transpose(0, 2, 1), images) - unvectorise(coordinates @ basis, size)
        # along u, where the equation says nothing, any positive number will do
        matrix += f[:, None, None] * (np.eye(size) + 4 * outer_squares(u))
        try:
            u = u + np.linalg.solve(matrix, rest[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            break
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    f = np.sum((half_vectorise(outer_squares(u)) @ basis.T) ** 2, axis=1)
    return u[f > 1 - ON_SPAN]


def _take_out(basis: np.ndarray, inverse: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Basis and inverse matrix of the components other than ``vectors``."""
    coordinates = basis @ half_vectorise(outer_squares(vectors)).T
    others = np.linalg.qr(inverse @ coordinates, mode="complete")[0][:, len(vectors) :]
    return others.T @ basis, others.T @ inverse @ others
