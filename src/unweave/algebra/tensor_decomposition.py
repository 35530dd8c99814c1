"""Symmetric tensor decomposition: from ``T = sum_i z_i w_i^k`` back to unit vectors w_i and coefficients z_i.

``decompose`` picks the way by order and rank: Jennrich's algorithm for order 3 (at most d independent vectors), the
subspace power method from order 4 on (more vectors than dimensions), then least squares on all components. With exact
entries the components come back to rounding, whatever their angles; with noise, at the least-squares estimate.
Decompositions of order 3 with more than d components are not attempted.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.jennrich import decompose_by_jennrich
from unweave.algebra.symmetric import pack, packed_length
from unweave.algebra.tensor_components import TensorComponents
from unweave.algebra.tensor_power import decompose_by_power
from unweave.algebra.tensor_refine import refine_components
from unweave.algebra.tensor_span import EXACT, decompose_by_span


def decompose(
    tensor: np.ndarray,
    order: int,
    *,
    size: int | None = None,
    rank: int | None = None,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
    refine: bool = True,
) -> TensorComponents:
    """Components of a symmetric tensor.

    Parameters
    ----------
    tensor
        A full array (d, ..., d), or packed entries with ``size`` given.
    rank
        The number of components; read off the singular values by default.
    noise
        Expected Frobenius error of the tensor.
    refine
        Finish with least squares on all components (skipped beyond 3000 parameters).
    """
    if order < 3:
        raise ValueError(f"order {order}: decompositions are unique from order 3 on")
    packed, size = (pack(tensor, order), int(tensor.shape[-1])) if size is None else (tensor, size)
    if len(packed) != packed_length(size, order):
        raise ValueError(f"{len(packed)} entries are not those of a tensor of order {order} over R^{size}")
    rng = np.random.default_rng(0) if rng is None else rng
    if order == 3:
        found = decompose_by_jennrich(packed, size, order, rng, rank=rank, noise=noise)
    elif order == 4 and noise == 0:
        found = decompose_by_power(packed, size, rng, rank=rank)
        if found.residual > EXACT:
            found = decompose_by_span(packed, size, order, rng, rank=rank)
    else:
        found = decompose_by_span(packed, size, order, rng, rank=rank, noise=noise)
        if order > 4 and noise == 0 and found.residual > EXACT:
            # with more than d(d-1)/2 components the span holds other rank-one matrices
            other = decompose_by_jennrich(packed, size, order, rng, split=2, rank=rank)
            found = other if other.residual < found.residual else found
    return refine_components(packed, size, found) if refine else found
