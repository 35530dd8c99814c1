"""Exact symmetric tensors of order 4 with many components: the subspace power method with deflation.

``T = sum_i z_i w_i^4`` flattens to a symmetric matrix ``M = V D V'`` over half-vectorised matrices; the columns of V
span the ``w_i w_i'``. ``u <- P_V(u u') u + sqrt(f (1 - f)) u`` with ``f = |P_V(u u')|^2`` climbs to a component, its
shift vanishing on the way (Kileel and Pereira 2019). A component with coordinates ``alpha = V' w w'`` is taken out by
keeping what is orthogonal to ``D^-1 alpha``: exactly the span of the other components. Here many starts climb at once
and all new components of a round are taken out together, so that the work is in large matrix products.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.jennrich import count_components
from unweave.algebra.matrix_span import half_vectorise, outer_squares, unvectorise
from unweave.algebra.symmetric import flatten, positions
from unweave.algebra.tensor_components import TensorComponents, fit_coefficients, merge_parallel

ON_SPAN = 1e-9
"""A limit whose ``1 - f`` is below this is a component."""


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
    found = np.zeros((0, size))
    for _ in range(max_rounds):
        if not len(basis):
            break
        starts = rng.standard_normal((max(len(basis) // 4, 8), size))
        # the slowest starts take most of the steps; others will find their components
        limits, heights = climb_shifted(basis, starts, leave=len(starts) // 8)
        limits = limits[heights > 1 - ON_SPAN]
        limits = limits[merge_parallel(limits, np.ones(len(limits)), 1e-6)]
        if len(limits):
            found = np.concatenate([found, limits])
            basis, inverse = _take_out(basis, inverse, limits)
    # rounding of the deflations does not touch the span of the whole tensor
    found, _ = climb_shifted(whole, found, max_steps=50)
    return fit_coefficients(packed, size, 4, found, spectrum)


def climb_shifted(
    basis: np.ndarray,
    starts: np.ndarray,
    *,
    max_steps: int = 500,
    tolerance: float = 1e-14,
    leave: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Limits (n, d) of the power method on the span of orthonormal ``basis`` (k, d(d+1)/2), and their f.

    When only ``leave`` starts have not settled, they are left where they are, with f = 0.
    """
    u = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    heights = np.zeros(len(u))
    active, size = np.arange(len(u)), u.shape[1]
    for _ in range(max_steps):
        if len(active) <= leave:
            break
        before = u[active]
        coordinates = half_vectorise(outer_squares(before)) @ basis.T
        f = np.einsum("nk,nk->n", coordinates, coordinates)
        projected = unvectorise(coordinates @ basis, size)
        bounded = np.clip(f, 0.5, 1.0)
        after = np.matmul(projected, before[:, :, None])[:, :, 0]
        after += np.sqrt(bounded * (1 - bounded))[:, None] * before
        after /= np.linalg.norm(after, axis=1, keepdims=True)
        u[active], heights[active] = after, f
        active = active[np.linalg.norm(after - before, axis=1) > tolerance]
    heights[active] = 0.0
    return u, heights


def _take_out(basis: np.ndarray, inverse: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Basis and inverse matrix of the components other than ``vectors``."""
    coordinates = basis @ half_vectorise(outer_squares(vectors)).T
    others = np.linalg.qr(inverse @ coordinates, mode="complete")[0][:, len(vectors) :]
    return others.T @ basis, others.T @ inverse @ others
