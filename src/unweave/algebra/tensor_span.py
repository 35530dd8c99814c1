"""Overcomplete symmetric tensors by the subspace power method (Kileel and Pereira 2019).

``T = sum_i z_i w_i^k`` with k >= 4 flattens to ``sum_i z_i (w_i w_i') (w_i^{k-2})'``: its columns span the matrices
``w_i w_i'``. For up to about d(d-1)/2 generic components these are the only rank-one matrices of that span, so the
components are the rank-one elements that ``rank_one`` finds. Several tensors with the same vectors and different
coefficients (Hermite tensors of one network) may share one span: a component missing from one is in another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.algebra.jennrich import count_components
from unweave.algebra.matrix_span import MatrixSpan
from unweave.algebra.rank_one import find_components, polish_components
from unweave.algebra.symmetric import flatten, frobenius, positions
from unweave.algebra.tensor_components import TensorComponents, fit_coefficients

EXACT = 1e-10
"""Relative noise below which components are taken for exact rank-one elements of the span."""


def decompose_by_span(
    packed: np.ndarray,
    size: int,
    order: int,
    rng: np.random.Generator,
    *,
    rank: int | None = None,
    noise: float = 0.0,
    max_rounds: int = 12,
) -> TensorComponents:
    """Components of one packed tensor of order four or more; ``noise`` is its expected Frobenius error."""
    span = span_of_tensors([(packed, order)], size, rank=rank, noises=[noise])
    vectors = components_of_span(
        span, rng, exact=noise <= EXACT * float(frobenius(packed, size, order)), max_rounds=max_rounds
    )
    return fit_coefficients(packed, size, order, vectors, span.spectrum)


def span_of_tensors(
    tensors: Sequence[tuple[np.ndarray, int]],
    size: int,
    *,
    rank: int | None = None,
    noises: Sequence[float] | None = None,
) -> MatrixSpan:
    """The span of ``w_i w_i'`` from packed tensors ``(entries, order)``, each weighed by ``noise / expected size``.

    Tensors of order 3 help with few directions only; those of order 2 do not help.
    """
    noises = [0.0] * len(tensors) if noises is None else list(noises)
    flat = [flatten(entries, size, order, 2) for entries, order in tensors]
    # noise spread evenly: the same size an entry after scaling, so that no tensor drowns another
    spreads = [noise / np.sqrt(f.size) for noise, f in zip(noises, flat, strict=True)]
    scales = [max(spreads) / s if s > 0 else 1.0 for s in spreads]
    joined = np.concatenate([f * scale for f, scale in zip(flat, scales, strict=True)], axis=1)
    noise = float(np.sqrt(sum((n * s) ** 2 for n, s in zip(noises, scales, strict=True))))
    left, spectrum, _ = np.linalg.svd(joined, full_matrices=False)
    if rank is None:
        rank = count_components(spectrum, joined.shape[1], noise)
    rows, columns = np.triu_indices(size)
    place = positions(np.stack([rows, columns], axis=1))
    return MatrixSpan(np.ascontiguousarray(left[place, : min(rank, len(spectrum))].T), spectrum, size)


def components_of_span(
    span: MatrixSpan, rng: np.random.Generator, *, exact: bool, max_rounds: int = 12
) -> np.ndarray:
    """Unit vectors (dim, d) of the strongest rank-one elements of the span; fewer where no more were found."""
    if not span.dimension:
        return np.zeros((0, span.size))
    accept = 1 - 1e-7 if exact else 0.5
    found = find_components(span, rng, accept=accept, exact=False, max_rounds=max_rounds)
    vectors = found.top(span.dimension).vectors
    return polish_components(span, vectors) if exact else vectors
