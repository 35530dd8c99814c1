"""Biases, output weights and signs of relu units whose directions are known up to sign.

With ``w~ = s w`` the coefficients of ``T_k = sum_i zeta_k(i) w~_i^k`` are ``zeta_k = (-1)^k a n(b) He_{k-2}(s b)``,
found by one linear least squares an order, and two successive ones give ``s b`` and a (``recover_scalars``: Algorithm 2
of Awasthi, Tang and Vijayaraghavan). The signs s are invisible from order 2 on. Orders 0 and 1 are linear in them,

    sum_i s_i (a_i / 2) (w~_i, s_i b_i) = (T_1, T_0) - sum_i a_i ((N(s_i b_i) - 1/2) (w~_i, s_i b_i) + (0, n(b_i))),

one linear solve for independent rows (their Step 6), a search over signs for dependent ones. Where several sign
patterns fit, they give the same tensors of every order, hence the same function (Claim 4.8): the signs are then not
determined by the function, and ``fix_signs`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from unweave.algebra.signs import needs_lattice, solve_signs
from unweave.algebra.tensor_components import solve_coefficients
from unweave.methods.general_relu.directions import require_orders
from unweave.moments.population import ReluUnits, relu_coefficients

LARGEST_BIAS = 6.0
"""Units with a larger bias are linear or dead for every sample; their coefficients are rounding."""


def recover_scalars(tensors: Sequence[np.ndarray], directions: np.ndarray, *, split: int = 1) -> ReluUnits:
    """Algorithm 2: a_i and s_i b_i for unit ``directions`` (m, d); signs are left as they come."""
    size = directions.shape[1]
    if split == 1:
        require_orders(tensors, 3)
        g0, g1 = (solve_coefficients(tensors[j], size, j, directions) for j in (2, 3))
        biases = _bounded(-g1, g0)
        return ReluUnits(directions, biases, g0 / _density(biases))
    require_orders(tensors, split + 3)
    g = {j - 2: solve_coefficients(tensors[j], size, j, directions) for j in range(split, split + 4)}
    upper = np.abs(g[split]) > np.abs(g[split - 1])
    biases, weights = np.empty(len(directions)), np.empty(len(directions))
    for q, chosen in ((split - 1, ~upper), (split, upper)):
        b = _bounded(-(g[q + 1] + q * g[q - 1]), g[q])
        # c_{q+2} of relu with output weight one; never small for the larger of the two
        plain = relu_coefficients(b, q + 2)[q + 2]
        biases[chosen], weights[chosen] = b[chosen], (g[q] / np.where(plain == 0, 1.0, plain))[chosen]
    return ReluUnits(directions, biases, weights)


def fit_scalars(
    tensors: Sequence[np.ndarray], directions: np.ndarray, *, noises: Sequence[float] | None = None
) -> ReluUnits:
    """a_i and s_i b_i from all orders from 2 on at once: the best bias of a grid for each unit.

    Less exact than ``recover_scalars`` on exact tensors and steadier on noisy ones; meant as a start.
    """
    require_orders(tensors, 3)
    size, orders = directions.shape[1], range(2, len(tensors))
    seen = np.stack([solve_coefficients(tensors[k], size, k, directions) for k in orders])
    spread = np.array(
        [1.0 if noises is None else max(noises[k], 1e-300) / np.sqrt(len(tensors[k])) for k in orders]
    )
    grid = np.linspace(-3.0, 3.0, 601)
    shapes = relu_coefficients(grid, len(tensors) - 1)[2:] / spread[:, None]
    seen = seen / spread[:, None]
    weights = (seen.T @ shapes) / np.sum(shapes**2, axis=0)
    gains = weights * (seen.T @ shapes)
    best = np.argmax(gains, axis=1)
    return ReluUnits(directions, grid[best], weights[np.arange(len(directions)), best])


@dataclass(frozen=True)
class SignedUnits:
    """Units with their signs, and which of the signs the moments determine."""

    units: ReluUnits
    determined: np.ndarray
    """(m,)"""
    num_patterns: int
    """Sign patterns that fit; 0 when none does within the error."""


def fix_signs(
    units: ReluUnits,
    tensors: Sequence[np.ndarray],
    *,
    offset: float | None = 0.0,
    error: float = 1e-9,
) -> SignedUnits:
    """Signs of units known up to ``(w_i, b_i) -> (-w_i, -b_i)`` from T_0 and T_1.

    Parameters
    ----------
    offset
        A constant added to the network; None when it is unknown, then T_0 tells it rather than the signs.
    error
        Error to expect of one entry of T_1 once the units are put in.
    """
    a, b, w = units.weights, units.biases, units.directions
    if not len(a):
        return SignedUnits(_with_offset(units, tensors, offset), np.zeros(0, dtype=bool), 1)
    rows, shift = np.column_stack([w, b]), a * (ndtr(b) - 0.5)
    target = np.append(tensors[1], tensors[0][0] - (0.0 if offset is None else offset))
    target = target - shift @ rows
    target[-1] -= np.sum(a * _density(b))
    vectors = 0.5 * a[:, None] * rows
    if offset is None:
        vectors, target = vectors[:, :-1], target[:-1]
    signs, determined, num_patterns = _solve(vectors, target, error)
    flipped = replace(units, directions=signs[:, None] * w, biases=signs * b)
    return SignedUnits(_with_offset(flipped, tensors, offset), determined, num_patterns)


def _solve(vectors: np.ndarray, target: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Signs, which of them are determined, and the number of patterns that fit."""
    m, num_equations = vectors.shape
    u, sizes, vt = np.linalg.svd(vectors.T, full_matrices=False)
    solid = sizes > 1e-6 * sizes[0]
    inverse = (vt[solid].T / sizes[solid]) @ u[:, solid].T
    free = inverse @ target
    guess = np.where(free < 0, -1.0, 1.0)
    if np.sum(solid) == m:
        # independent rows: the real solution must be +-1, and comes near when the noise allows an answer
        spread = error * np.linalg.norm(inverse, axis=1)
        determined = (np.abs(np.abs(free) - 1) < 0.5) & (np.abs(free) > 3 * spread)
        return guess, determined, int(np.all(determined))
    if needs_lattice(m, num_equations):
        num_bits = num_equations * np.log2(max(sizes[0] / error, 1.0))
        if num_bits < 2 * m + 20:
            return guess, np.zeros(m, dtype=bool), 0
        # so many bits leave no room for a second pattern but by a relation, which the search looks for
        found = solve_signs(vectors, target, error)
        signs = guess if found.signs is None else found.signs
        return signs, found.determined, found.num_solutions
    for widen in (1.0, 8.0, 64.0):
        found = solve_signs(vectors, target, widen * error)
        if found.signs is not None:
            # a pattern that fits by luck is given away by others that fit a little worse
            wider = solve_signs(vectors, target, 4 * widen * error)
            determined = found.determined & wider.determined & found.complete & wider.complete
            return found.signs, determined, wider.num_solutions
    return guess, np.zeros(m, dtype=bool), 0


def _with_offset(units: ReluUnits, tensors: Sequence[np.ndarray], offset: float | None) -> ReluUnits:
    if offset is None:
        offset = float(tensors[0][0] - units.weights @ relu_coefficients(units.biases, 0)[0])
    return replace(units, offset=float(offset))


def _density(b: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * b**2) / np.sqrt(2 * np.pi)


def _bounded(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, kept within ``LARGEST_BIAS``."""
    safe = np.where(denominator == 0, 1.0, denominator)
    quotient = np.where(denominator == 0, 0.0, numerator / safe)
    return np.clip(quotient, -LARGEST_BIAS, LARGEST_BIAS)
