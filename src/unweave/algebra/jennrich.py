"""Jennrich's algorithm: the vectors w_i of ``T = sum_i z_i w_i^k`` by simultaneous diagonalisation.

With k = 2l + s the tensor is read as three-way, l + l + s indices. If the powers ``w_i^l`` are independent, two random
contractions of the last s indices are ``A D A'`` and ``A E A'`` with the powers as columns of A, so the eigenvectors of
one times the inverse of the other, after compression to the span of the powers, are the powers themselves (Harshman
1970; Theorem A.5 of Awasthi, Tang and Vijayaraghavan for its stability). Each power gives its vector up to sign as its
leading rank-one part. The rank is where the singular values of the flattening (l, l + s) have their gap.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.active_subspace import choose_rank
from unweave.algebra.symmetric import flatten, multiplicities, packed_length, unpack
from unweave.algebra.tensor_components import TensorComponents, fit_coefficients

LEAST_GAP = 1e3
"""Random vectors alone make gaps of ten and more, so a rank needs a wider one."""


def decompose_by_jennrich(
    packed: np.ndarray,
    size: int,
    order: int,
    rng: np.random.Generator,
    *,
    split: int = 1,
    rank: int | None = None,
    noise: float = 0.0,
    num_pencils: int = 4,
) -> TensorComponents:
    """Components of a packed symmetric tensor whose ``split``-th powers are independent.

    Parameters
    ----------
    split
        l: 1 for at most d components, 2 for up to d(d+1)/2; needs ``order > 2 l``.
    rank
        Their number; read off the singular values by default.
    noise
        Expected Frobenius error of the tensor; singular values that it explains are not counted.
    num_pencils
        Pairs of contractions tried; the one that explains the tensor best is kept.
    """
    if order <= 2 * split:
        raise ValueError(f"a split of {split} needs a tensor of order {2 * split + 1} or more, not {order}")
    left, spectrum, _ = np.linalg.svd(flatten(packed, size, order, split), full_matrices=False)
    if rank is None:
        rank = count_components(spectrum, packed_length(size, order - split), noise)
    rank = min(rank, len(spectrum))
    best = TensorComponents.none(size, order, spectrum, packed)
    if not rank:
        return best
    frame = left[:, :rank]
    rest = flatten(packed, size, order, 2 * split)
    for _ in range(num_pencils):
        powers = _diagonalise(*(_contract(rest, size, split, frame, rng) for _ in range(2)))
        if powers is None:
            continue
        vectors = _leading_vectors(frame @ powers, size, split)
        found = fit_coefficients(packed, size, order, vectors, spectrum)
        if found.residual < best.residual or not len(best):
            best = found
    return best


def count_components(spectrum: np.ndarray, num_columns: int, noise: float = 0.0) -> int:
    """The rank of a flattening from its singular values: those that noise does not explain.

    Noise of Frobenius norm e spread evenly over a matrix of p x q has singular values up to about
    ``e (1/sqrt p + 1/sqrt q)``; symmetric tensors repeat their entries, so half as much again is allowed. Without a
    known noise the values before a gap of ``LEAST_GAP`` count, all of them where there is none.
    """
    if not len(spectrum) or spectrum[0] <= 0:
        return 0
    largest = 1.5 * noise * (1 / np.sqrt(len(spectrum)) + 1 / np.sqrt(num_columns))
    floor = max(1e-11, float(largest / spectrum[0]))
    return choose_rank(spectrum, floor, least_gap=LEAST_GAP if noise == 0 else np.inf)


def _contract(
    rest: np.ndarray, size: int, split: int, frame: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """A random contraction of the last indices, compressed to the span ``frame`` of the powers."""
    slice_ = rest @ rng.standard_normal(rest.shape[1]) / np.sqrt(multiplicities(size, 2 * split))
    return frame.T @ flatten(slice_, size, 2 * split, split) @ frame


def _diagonalise(first: np.ndarray, second: np.ndarray) -> np.ndarray | None:
    """Eigenvectors (columns, real) of ``first second^-1``; complex pairs give their two real parts."""
    try:
        decomposition = np.linalg.eig(np.linalg.solve(second.T, first.T).T)
    except np.linalg.LinAlgError:
        return None
    values, vectors = decomposition.eigenvalues, decomposition.eigenvectors
    return np.where(np.imag(values) >= 0, np.real(vectors), np.imag(vectors))


def _leading_vectors(powers: np.ndarray, size: int, split: int) -> np.ndarray:
    """Unit vectors (n, d) whose ``split``-th powers are closest to isometric packed columns (length, n)."""
    if split == 1:
        return (powers / np.linalg.norm(powers, axis=0)).T
    plain = powers / np.sqrt(multiplicities(size, split))[:, None]
    full = unpack(plain.T, size, split).reshape(-1, size, size ** (split - 1))
    return np.linalg.svd(full, full_matrices=False)[0][:, :, 0]
