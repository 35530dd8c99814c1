"""Directions of relu units from Hermite tensors, up to sign (Awasthi, Tang and Vijayaraghavan 2021, Algorithms 1, 4).

``T_k = sum_i c_k(i) w_i^k``, and no unit vanishes from two successive tensors: ``max(|He_k(b)|, |He_{k+1}(b)|) >=
sqrt(k!/2)`` (Lemma 4.3). Two ways:

* ``stated_directions``: Jennrich's algorithm on ``T_{2l+1}`` and ``T_{2l+2}``, each read as l + l + rest indices, small
  terms dropped, duplicates merged up to sign. Needs independent ``w_i^l``: m <= d for l = 1, about d^2/2 for l = 2.
* ``span_directions``: the columns of T_3, T_4 (and T_5, T_6 where given), flattened with two indices down, span the
  matrices ``w_i w_i'``; the subspace power method finds them for any m up to about d^2/2, from order 4 on, and
  suffers much less from noise than Jennrich on orders 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unweave.algebra.jennrich import decompose_by_jennrich
from unweave.algebra.symmetric import powers
from unweave.algebra.tensor_components import merge_parallel
from unweave.algebra.tensor_span import components_of_span, span_of_tensors
from unweave.core.errors import InputError


@dataclass(frozen=True)
class Directions:
    """Unit ``vectors`` (m, d), each up to sign, and what their number rests on."""

    vectors: np.ndarray = field(repr=False)
    gap: float
    """The last singular value counted over the first one left out, the least of those looked at."""
    spectra: tuple[np.ndarray, ...] = field(repr=False, default=())

    def __len__(self) -> int:
        return len(self.vectors)


def stated_directions(
    tensors: Sequence[np.ndarray],
    size: int,
    rng: np.random.Generator,
    *,
    split: int = 1,
    num_units: int | None = None,
    noises: Sequence[float] | None = None,
    drop: float = 1e-6,
    same: float = 1e-3,
) -> Directions:
    """Steps 1 to 4 of Algorithm 4 on packed ``tensors[k]``, k up to 2l + 2.

    Parameters
    ----------
    split
        l.
    num_units
        At most so many are kept, those with the largest coefficients.
    noises
        Expected Frobenius errors of the tensors, from which the threshold on singular values follows.
    drop
        Terms below this fraction of the largest are left out (eta_2).
    same
        Directions closer than this, up to sign, are one (eta_3).
    """
    require_orders(tensors, 2 * split + 2)
    vectors, strengths, spectra, gap = [], [], [], np.inf
    for order in (2 * split + 1, 2 * split + 2):
        noise = 0.0 if noises is None else float(noises[order])
        found = decompose_by_jennrich(tensors[order], size, order, rng, split=split, noise=noise)
        if not len(found):
            continue
        sizes = np.abs(found.coefficients)
        keep = sizes > max(drop * sizes[0], 2 * noise / np.sqrt(len(tensors[order])))
        vectors.append(found.vectors[keep])
        strengths.append(sizes[keep] / sizes[0])
        spectra.append(found.spectrum)
        gap = min(gap, found.gap)
    if not vectors:
        return Directions(np.zeros((0, size)), gap)
    joined, weights = np.concatenate(vectors), np.concatenate(strengths)
    kept = merge_parallel(joined, weights, same)[:num_units]
    return Directions(joined[kept], gap, tuple(spectra))


def span_directions(
    tensors: Sequence[np.ndarray],
    size: int,
    rng: np.random.Generator,
    *,
    num_units: int | None = None,
    noises: Sequence[float] | None = None,
) -> Directions:
    """Rank-one elements of the span of all flattenings from order 3 on; their number is read off unless given."""
    require_orders(tensors, 4)
    orders = range(3, len(tensors))
    errors = [0.0 if noises is None else float(noises[k]) for k in orders]
    span = span_of_tensors([(tensors[k], k) for k in orders], size, rank=num_units, noises=errors)
    vectors = components_of_span(span, rng, exact=noises is None)
    return Directions(vectors, span.gap, (span.spectrum,))


def least_khatri_rao(directions: np.ndarray, split: int) -> float:
    """``s_m`` of the matrix with columns ``w_i^l``: how well the assumption of independent powers holds."""
    if not len(directions):
        return 0.0
    columns = powers(directions, split, isometric=True)
    if len(columns) > columns.shape[1]:
        return 0.0
    return float(np.linalg.svd(columns, compute_uv=False)[-1])


def require_orders(tensors: Sequence[np.ndarray], highest: int) -> None:
    """Refuse too few tensors."""
    if len(tensors) <= highest:
        raise InputError(
            f"tensors up to T_{highest} are needed, got them up to T_{len(tensors) - 1}; "
            f"accumulate with order={highest}"
        )
