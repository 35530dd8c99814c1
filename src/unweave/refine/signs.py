"""Signs of units from a linear identity: ``K = B diag(s) R`` with s in {-1, +1}.

Each entry of K is one linear equation in the signs. With as many independent equations as units they follow
by least squares; with fewer, by meeting in the middle: all half-sums of the first half of the undetermined
units are sorted along a random projection and met with those of the second half (2^(m/2) of them, up to m =
44).
"""

from __future__ import annotations

import numpy as np

MAX_UNDETERMINED = 44


def solve_signs(
    outgoing: np.ndarray, rows: np.ndarray, total: np.ndarray, *, rtol: float = 1e-4
) -> np.ndarray | None:
    """Signs with ``outgoing diag(s) rows = total`` to ``rtol``, or None when there are none.

    Parameters
    ----------
    outgoing, rows, total
        B (k, m), R (m, n) and K (k, n).
    """
    num_units = rows.shape[0]
    if num_units == 0:
        return np.ones(0)
    equations = (outgoing.T[:, :, None] * rows[:, None, :]).reshape(num_units, -1).T
    right = total.ravel()
    scale = max(float(np.linalg.norm(equations)), 1e-300)
    values = np.linalg.svd(equations, compute_uv=False)
    rank = int(np.sum(values > 1e-8 * values[0]))
    if rank == num_units:
        solution = np.linalg.lstsq(equations, right, rcond=None)[0]
        signs = np.where(solution >= 0, 1.0, -1.0)
    else:
        found = _meet_in_the_middle(equations, right)
        if found is None:
            return None
        signs = found
    return signs if np.linalg.norm(equations @ signs - right) <= rtol * scale else None


def _meet_in_the_middle(equations: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """The signs that leave the least residual among all 2^m, found from 2^(m/2) half-sums."""
    num_units = equations.shape[1]
    if num_units > MAX_UNDETERMINED:
        return None
    # a few generic combinations of the equations tell all patterns apart
    num_mixed = min(len(equations), 4)
    mixing = np.cos(np.outer(np.arange(1, num_mixed + 1), np.arange(1, len(equations) + 1)) * 1.2345)
    reduced, target = mixing @ equations, mixing @ right
    half = num_units // 2
    left, rest = reduced[:, :half], reduced[:, half:]
    first, second = _half_sums(left), target[:, None] - _half_sums(rest)
    # the first of them sorts the sums; exact matches are neighbours in it
    a, b = first[0], second[0]
    order = np.argsort(a)
    place = np.searchsorted(a[order], b)
    best, winner = np.inf, None
    for shift in (-2, -1, 0, 1):
        candidate = order[np.clip(place + shift, 0, len(order) - 1)]
        errors = np.sum((first[:, candidate] - second) ** 2, axis=0)
        k = int(np.argmin(errors))
        if errors[k] < best:
            best, winner = float(errors[k]), (int(candidate[k]), k)
    assert winner is not None
    return np.concatenate([_pattern(winner[0], half), _pattern(winner[1], num_units - half)])


def _half_sums(columns: np.ndarray) -> np.ndarray:
    """``columns @ s`` for every sign pattern s; pattern k has +1 where bit i of k is set."""
    sums = -columns.sum(axis=1, keepdims=True)
    for i in range(columns.shape[1]):
        sums = np.concatenate([sums, sums + 2 * columns[:, i : i + 1]], axis=1)
    return sums


def _pattern(index: int, num_units: int) -> np.ndarray:
    return np.array([1.0 if index >> i & 1 else -1.0 for i in range(num_units)])
