"""Hermite tensors of what a quadratic leaves of y: two passes, four to eight times less error in T_3 and T_4.

The error of an average ``E[f He_k]`` grows with the size of f, and polynomials of degree two are orthogonal to
``He_3, He_4, ...``: they only add noise there. ``fit_quadratic`` finds the least-squares quadratic in one pass over
the rows (or over the first of them: any quadratic independent of the later rows leaves the averages unbiased), the
second pass subtracts it, and its own tensors, known exactly, are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.algebra.symmetric import multi_indices, packed_length, positions, unpack
from unweave.core.errors import InputError
from unweave.moments.accumulate import Chunk, accumulate
from unweave.moments.hermite import HermiteMoments, Quadratic

Prepare = Callable[[np.ndarray, np.ndarray], Chunk]


def accumulate_residual(
    source: Any,
    *,
    order: int = 4,
    prepare: Prepare | None = None,
    engine: Executor | str | None = None,
) -> HermiteMoments:
    """``T_0 .. T_order`` in two passes over a source that can be read twice (not an iterator)."""
    if isinstance(source, Iterator):
        raise InputError("the second pass reads the rows again: give arrays, a file or a list of pieces")
    quadratic = fit_quadratic(source, prepare=prepare, engine=engine)
    return accumulate(source, order=order, baseline=quadratic, prepare=prepare, engine=engine)


def fit_quadratic(
    source: Any, *, prepare: Prepare | None = None, engine: Executor | str | None = None
) -> Quadratic:
    """The least-squares fit of degree two to all rows of the source, from sums of degree four."""
    sums = accumulate(source, order=4, prepare=_WithOnes(prepare), engine=engine)
    return _solve(sums)


@dataclass(frozen=True)
class _WithOnes:
    """Puts a column of ones before y, whose moments are those of x alone."""

    prepare: Prepare | None

    def __call__(self, x: np.ndarray, y: np.ndarray) -> Chunk:
        x, y = (x, y) if self.prepare is None else self.prepare(x, y)
        y = np.asarray(y, dtype=np.float64)
        return x, np.column_stack([np.ones(len(y)), y.reshape(len(y), -1)])


def _solve(sums: HermiteMoments) -> Quadratic:
    """Normal equations of the monomials of degree two in (1, x), whose entries are moments of degree four."""
    size = sums.input_size + 1
    if sums.count < packed_length(size, 2):
        raise InputError(
            f"{sums.count} rows cannot determine a quadratic of {packed_length(size, 2)} terms; give more rows"
        )
    pairs = multi_indices(size, 2)
    quadruples = np.concatenate(
        [np.repeat(pairs, len(pairs), axis=0), np.tile(pairs, (len(pairs), 1))], axis=1
    )
    means = sums.sums / sums.count
    gram = means[0, positions(np.sort(quadruples, axis=1))].reshape(len(pairs), len(pairs))
    padded = np.concatenate([np.zeros_like(pairs), pairs], axis=1)
    right = means[1:, positions(padded)].T
    coefficients = np.linalg.lstsq(gram, right, rcond=1e-13)[0].T
    off_diagonal = pairs[:, 0] != pairs[:, 1]
    # x_i x_j stands twice in x x'
    form = unpack(np.where(off_diagonal, 0.5 * coefficients, coefficients), size, 2)
    matrix = 2.0 * form[:, 1:, 1:]
    constant = form[:, 0, 0] + 0.5 * np.einsum("qii->q", matrix)
    return Quadratic(constant, 2.0 * form[:, 0, 1:], matrix)
