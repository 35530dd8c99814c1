"""Signs from a short lattice vector: for more vectors than can be enumerated.

With y = (s + 1)/2 in {0, 1} the equations ``A s = target`` say that one integer combination of the rows
``(2 e_i, K A_i)`` and ``(1, ..., 1, K target')`` is the vector (s, about 0), by far the shortest of its lattice
when the equations carry more bits than there are signs (Lagarias and Odlyzko 1985; Coster et al. 1992). The basis
is reduced by LLL; K grows step by step, which keeps the reduction well inside double precision. A reduced basis is
longer than the shortest vectors by a factor that grows with every dimension: equations must carry bits enough for
that too, or no reduction is begun.
"""

from __future__ import annotations

import numpy as np

from unweave.core import clock
from unweave.core.deadline import held

LOSS = 1.01
"""What LLL loses a dimension, at best (1.02 on average, Nguyen and Stehle 2006)."""

BETTER = 10.0
"""How many times better than the bound on their error sums usually are: worth a reduction, whose result is checked."""


def reduce_to_signs(
    equations: np.ndarray, right: np.ndarray, error: float, *, max_seconds: float = 60.0
) -> tuple[np.ndarray, bool]:
    """Sign vectors s (rows) with ``equations @ s`` near ``right``, and whether the search was complete."""
    rank, m = equations.shape
    bits = _num_bits(equations, error)
    if bits < m or bits + rank * np.log2(BETTER) < bits_wanted(m):
        return np.zeros((0, m)), False
    deadline = clock.now() + min(max_seconds, held().left)
    columns = np.vstack([2 * equations.T, -(right + equations.sum(axis=1))[None]])
    finest = 1.0 / max(error / (30 * BETTER), 1e-15 * np.max(np.abs(columns)))
    coarsest = 64.0 / np.max(np.abs(columns))
    num_steps = max(1, int(np.ceil(np.log2(finest / coarsest) / 5)))
    # row i: how the basis vector is combined from the original ones, with the last weighted like a sign
    combination = np.eye(m + 1)
    for scale in np.geomspace(coarsest, finest, num_steps + 1):
        basis = np.hstack([_embed(combination), scale * (combination @ columns)])
        combination = _lll(basis, combination, deadline)
        signs = _read(combination, m)
        if len(signs):
            miss = np.max(np.abs(signs @ equations.T - right), axis=1)
            if np.any(miss <= error * np.sqrt(rank)):
                return _with_relations(signs[miss <= error * np.sqrt(rank)], combination), False
        if clock.now() > deadline:
            break
    return np.zeros((0, m)), False


def bits_wanted(num_signs: int) -> float:
    """Bits that equations must carry for a reduction to find so many signs."""
    return num_signs * (1 + num_signs * float(np.log2(LOSS)))


def _num_bits(equations: np.ndarray, error: float) -> float:
    """Bits of a sign vector that its sums show: how many errors each of them is wide."""
    widths = np.linalg.norm(equations, axis=1) / max(error, 1e-300)
    return float(np.sum(np.log2(np.maximum(widths, 1.0))))


def _embed(combination: np.ndarray) -> np.ndarray:
    """Coordinates in which the wanted combination is (s, 1): 2 y_i - y_last, and y_last."""
    return np.hstack([2 * combination[:, :-1] - combination[:, -1:], combination[:, -1:]])


def _read(combination: np.ndarray, m: int) -> np.ndarray:
    vectors = _embed(combination)
    good = np.all(np.abs(vectors) == 1, axis=1)
    return vectors[good, :m] * vectors[good, m:]


def _with_relations(signs: np.ndarray, combination: np.ndarray) -> np.ndarray:
    """The solutions, and those reached from the first by a short relation among the vectors, to be checked."""
    vectors = _embed(combination)
    relations = vectors[(vectors[:, -1] == 0) & (np.max(np.abs(vectors), axis=1) == 2), :-1]
    others = np.concatenate([signs[0] + relations, signs[0] - relations, signs])
    return np.unique(others[np.all(np.abs(others) == 1, axis=1)], axis=0)


def _lll(basis: np.ndarray, combination: np.ndarray, deadline: float, delta: float = 0.99) -> np.ndarray:
    """Reduce ``basis`` in place of its rows and return the same integer moves applied to ``combination``."""
    basis, combination = basis.copy(), combination.copy()
    n = len(basis)
    stars, mu, norms = np.zeros_like(basis), np.eye(n), np.zeros(n)
    k, count = 0, 0
    while k < n:
        count += 1
        if count % 32 == 0 and clock.now() > deadline:
            break
        for _ in range(4):
            row = basis[k]
            mu[k, :k] = (stars[:k] @ row) / norms[:k]
            moved = False
            for j in range(k - 1, -1, -1):
                q = np.rint(mu[k, j])
                if q != 0 and abs(mu[k, j]) > 0.51:
                    basis[k] -= q * basis[j]
                    combination[k] -= q * combination[j]
                    mu[k, : j + 1] -= q * mu[j, : j + 1]
                    moved = True
            if not moved:
                break
        row = basis[k]
        mu[k, :k] = (stars[:k] @ row) / norms[:k]
        star = row - mu[k, :k] @ stars[:k]
        norm = star @ star
        if k and norm + mu[k, k - 1] ** 2 * norms[k - 1] < delta * norms[k - 1]:
            basis[[k - 1, k]] = basis[[k, k - 1]]
            combination[[k - 1, k]] = combination[[k, k - 1]]
            k -= 1
            continue
        stars[k], norms[k] = star, max(norm, 1e-300)
        k += 1
    return combination
