"""Signs s in {-1, +1} with ``sum_i s_i v_i = target``, for vectors and a target known to a few digits.

With independent vectors this is one linear solve. With more vectors than equations the signs of a well-conditioned
basis follow from those of the rest, which are enumerated, or the two halves of the sum are made to meet in the
middle; beyond that a lattice is reduced (``signs_lattice``). Different sign vectors may give the same sum: then the
signs they disagree on are not determined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

MAX_ENUMERATED = 20
MAX_HALVED = 44
MOST_BITS = 52
"""Of a sum in double precision."""


@dataclass(frozen=True)
class SignSolution:
    """The signs, and which of them every solution agrees on; ``signs`` is None when none was found."""

    signs: np.ndarray | None
    determined: np.ndarray
    num_solutions: int
    complete: bool
    """Whether all solutions were looked for (the search was not cut short)."""


def solve_signs(vectors: np.ndarray, target: np.ndarray, error: float) -> SignSolution:
    """All s in {-1, +1}^m with ``|s @ vectors - target| <= error`` in every entry.

    Parameters
    ----------
    vectors
        (m, q), one row a vector.
    target
        (q,).
    error
        Largest error to expect of one entry of the sum.
    """
    m = len(vectors)
    if m == 0:
        fits = bool(np.max(np.abs(target), initial=0.0) <= error)
        return SignSolution(np.zeros(0) if fits else None, np.zeros(0, dtype=bool), int(fits), True)
    equations, right = _compress(vectors, target, error)
    rank = len(equations)
    if rank == 0:  # every sum is within the error of 0: all sign vectors fit, or none does
        fits = bool(np.max(np.abs(vectors.sum(axis=0) - target), initial=0.0) <= error)
        return SignSolution(np.ones(m) if fits else None, np.zeros(m, dtype=bool), 2 if fits else 0, True)
    if rank == m:
        signs = np.sign(np.linalg.solve(equations, right))
        return _judge(vectors, target, error, signs[None], True)
    if m - rank <= MAX_ENUMERATED:
        return _judge(vectors, target, error, *_enumerate_free(equations, right, error))
    if m <= MAX_HALVED:
        return _judge(vectors, target, error, *_meet_in_the_middle(equations, right, error))
    from unweave.algebra.signs_lattice import reduce_to_signs

    return _judge(vectors, target, error, *reduce_to_signs(equations, right, error))


def needs_lattice(num_vectors: int, num_equations: int) -> bool:
    """Whether so many signs can only be found by lattice reduction, which wants many digits, and can be by these."""
    from unweave.algebra.signs_lattice import bits_wanted

    too_many = num_vectors - num_equations > MAX_ENUMERATED and num_vectors > MAX_HALVED
    return too_many and bits_wanted(num_vectors) <= MOST_BITS * num_equations


def solve_weights(vectors: np.ndarray, target: np.ndarray, error: float) -> np.ndarray | None:
    """The real s with ``s @ vectors = target`` where it is unique and fits, else None."""
    equations, right = _compress(vectors, target, error)
    if len(equations) < len(vectors) or not len(vectors):
        return None
    weights = np.linalg.solve(equations, right)
    fits = np.max(np.abs(weights @ vectors - target)) <= error
    return weights if fits else None


def _compress(vectors: np.ndarray, target: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """The independent equations of ``vectors.T s = target``, orthonormalised: (rank, m) and (rank,)."""
    u, sizes, vt = np.linalg.svd(vectors.T, full_matrices=False)
    rank = int(np.sum(sizes > max(1e-9 * sizes[0], 4 * error)))
    return sizes[:rank, None] * vt[:rank], u[:, :rank].T @ target


def _judge(vectors, target, error, candidates: np.ndarray, complete: bool) -> SignSolution:
    m = len(vectors)
    if len(candidates):
        miss = np.max(np.abs(candidates @ vectors - target), axis=1)
        candidates = candidates[miss <= error]
    if not len(candidates):
        return SignSolution(None, np.zeros(m, dtype=bool), 0, complete)
    # a flip that moves the sum by less than the error cannot be told either
    visible = 2 * np.max(np.abs(vectors), axis=1) > error
    determined = np.all(candidates == candidates[0], axis=0) & visible
    return SignSolution(candidates[0], determined, len(candidates), complete)


def _enumerate_free(equations: np.ndarray, right: np.ndarray, error: float) -> tuple[np.ndarray, bool]:
    """Enumerate the signs outside a pivoted basis; the basis follows by a linear solve."""
    rank, m = equations.shape
    order = np.asarray(scipy.linalg.qr(equations, pivoting=True, mode="r")[-1])
    basis, free = order[:rank], order[rank:]
    inverse = np.linalg.inv(equations[:, basis])
    shift, slope = inverse @ right, inverse @ equations[:, free]
    slack = min(0.2, 1e-6 + 4 * error * np.sqrt(rank) * np.linalg.norm(inverse, 2))
    found = []
    num_free = len(free)
    chunk = min(num_free, 14)
    low = _all_signs(chunk)
    partial = low @ slope[:, :chunk].T
    for high in _all_signs(num_free - chunk):
        rest = shift - slope[:, chunk:] @ high - partial
        good = np.flatnonzero(np.all(np.abs(np.abs(rest) - 1) <= slack, axis=1))
        for row in good[:256]:
            s = np.empty(m)
            s[basis], s[free] = np.sign(rest[row]), np.concatenate([low[row], high])
            found.append(s)
        if len(found) > 4096:
            return np.array(found), False
    return np.array(found).reshape(len(found), m), True


def _meet_in_the_middle(equations: np.ndarray, right: np.ndarray, error: float) -> tuple[np.ndarray, bool]:
    """Match the sums of one half of the vectors with what the other half leaves of the target."""
    rank, m = equations.shape
    rng = np.random.default_rng(m)
    direction = rng.standard_normal(rank)
    direction /= np.linalg.norm(direction)
    half = m // 2
    weights = direction @ equations
    first, second = _all_sums(weights[:half]), direction @ right - _all_sums(weights[half:])
    order = np.argsort(first)
    ordered = first[order]
    slack = 2 * error * np.sqrt(rank) + 1e-12 * np.sum(np.abs(weights))
    start, stop = np.searchsorted(ordered, second - slack), np.searchsorted(ordered, second + slack)
    found, num_tried = [], 0
    for j in np.flatnonzero(stop > start):
        left = order[start[j] : stop[j]]
        num_tried += len(left)
        signs = np.hstack(
            [_signs_of(left, half), np.repeat(_signs_of(np.array([j]), m - half), len(left), axis=0)]
        )
        miss = np.max(np.abs(signs @ equations.T - right), axis=1)
        found.extend(signs[miss <= 2 * error * np.sqrt(rank) + slack])
        if len(found) > 4096 or num_tried > 5_000_000:
            return np.array(found).reshape(len(found), m), False
    return np.array(found).reshape(len(found), m), True


def _all_signs(m: int) -> np.ndarray:
    return _signs_of(np.arange(1 << m), m)


def _signs_of(codes: np.ndarray, m: int) -> np.ndarray:
    return 1.0 - 2.0 * ((codes[:, None] >> np.arange(m)) & 1)


def _all_sums(weights: np.ndarray) -> np.ndarray:
    """``_all_signs(m) @ weights`` by doubling."""
    sums = np.zeros(1)
    for w in weights:
        sums = np.concatenate([sums + w, sums - w])
    return sums
