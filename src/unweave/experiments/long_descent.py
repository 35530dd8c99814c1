"""Plain gradient descent with a fixed rate, thousands of steps at a time: the iterates themselves, to rounding.

Not a better minimiser: where a study asks for half a million steps of ``p <- p - r g(p)``, this tells where they end.

After the first steps the iterates move along a smooth curve. Over a block of K steps from p_0, with a symmetric H near
the curvature there, write ``g(p_0 + d) = H d + n(d)``. Then ``d_{j+1} = (1 - r H) d_j - r n(d_j)`` is solved exactly by
powers of ``1 - r H`` for any sequence n; the sequence is taken as the polynomial in j through a few steps of the block,
and those values and the d they lead to are iterated until they agree (a discrete exponential integrator). A block is
accepted when the gradient *between* the nodes is what the polynomial says, and the next is longer; else it is halved,
down to single steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Gradient = Callable[[np.ndarray], np.ndarray]

NUM_NODES = 16
SHORTEST, LONGEST = 64, 8192
"""Steps of a block ..."""
GROWTH = 1.5
"""... and how many times longer the next one is."""
AGREEMENT = 1e-15
"""Of the iterates in a block, relative to the largest parameter: what single steps lose by rounding."""
MAX_ROUNDS = 12
"""Of values at the nodes and the iterates they lead to, before the block is called too long."""
RUNAWAY = 1e50
"""Parameters this large are diverging: their curvature would overflow."""


def descend_plainly(
    gradient: Gradient,
    curvature: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    rate: float,
    num_steps: int,
) -> np.ndarray:
    """``start`` after ``num_steps`` of ``p - rate * gradient(p)``; ``curvature(p)`` (k, k) only makes it fast.

    Ends early only where the iterates stop being finite.
    """
    p, done, length = start.copy(), 0, SHORTEST
    block: _Block | None = None
    while done < num_steps:
        length = min(length, num_steps - done)
        if length < SHORTEST or not np.max(np.abs(p)) < RUNAWAY:
            return _single_steps(gradient, p, rate, num_steps - done)
        if block is None or block.length != length:
            block = _Block.around(curvature(p), rate, length)
        moved = block.move(gradient, p)
        if moved is None and not block.fresh:
            block = None  # the curvature has changed
            continue
        if moved is None and length < 2 * SHORTEST:
            p, done = _single_steps(gradient, p, rate, length), done + length
            block = None
            continue
        if moved is None:
            length //= 2
            continue
        p, done = moved, done + length
        block.fresh = False
        if length < LONGEST:
            length = min(int(GROWTH * length), LONGEST)
    return p


def _single_steps(gradient: Gradient, p: np.ndarray, rate: float, num_steps: int) -> np.ndarray:
    for _ in range(num_steps):
        p = p - rate * gradient(p)
        if not np.all(np.isfinite(p)):
            break
    return p


@dataclass
class _Block:
    """The linear part of ``length`` steps: what values of n at the nodes do to the iterates."""

    length: int
    rate: float
    vectors: np.ndarray
    """Eigenvectors of H in columns."""
    values: np.ndarray
    weights: np.ndarray
    """(nodes and points between, nodes, eigenvalues): d at the former from n at the latter."""
    between: np.ndarray
    """(points between, nodes): the interpolating polynomial."""
    fresh: bool = True

    @staticmethod
    def around(curvature: np.ndarray, rate: float, length: int) -> _Block:
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
        nodes = np.unique(np.round(length * (1 - np.cos(np.linspace(0, np.pi, NUM_NODES))) / 2)).astype(int)
        middles = (nodes[:-1] + nodes[1:])[:: len(nodes) // 4] // 2
        places = np.sort(np.concatenate([nodes, middles]))
        lagrange = _lagrange(nodes, np.arange(length))
        factor = 1 - rate * values
        powers = factor ** np.arange(np.max(np.diff(places)) + 1)[:, None]
        rows, weights = {0: np.zeros((len(nodes), len(values)))}, np.zeros((len(nodes), len(values)))
        for low, high in pairwise(places):
            decay = powers[: high - low][::-1]
            weights = powers[high - low] * weights - rate * lagrange[low:high].T @ decay
            rows[int(high)] = weights
        order = [*nodes, *middles]
        stacked = np.stack([rows[int(j)] for j in order])
        return _Block(length, rate, vectors, values, stacked, _lagrange(nodes, middles))

    def move(self, gradient: Gradient, p: np.ndarray) -> np.ndarray | None:
        """The iterate at the end of the block, or None when the gradients are no polynomial along it."""
        num_nodes = self.weights.shape[1]
        first = self.vectors.T @ gradient(p)
        n = np.tile(first, (num_nodes, 1))
        tolerance = AGREEMENT * max(float(np.max(np.abs(p))), 1.0)
        change = np.inf
        d = self._follow(n)
        for _ in range(MAX_ROUNDS):
            n[1:] = [self._rest(gradient, p, x) for x in d[1:num_nodes]]
            last, d = d, self._follow(n)
            before, change = change, float(np.max(np.abs(d - last)))
            if not np.isfinite(change) or change > before:
                return None
            if change <= tolerance:
                break
        else:
            return None
        n_between = np.array([self._rest(gradient, p, x) for x in d[num_nodes:]])
        # an error of n moves an iterate by its sum over the block, or by what the curvature lets stand of it
        reach = 1 / np.maximum(np.abs(self.values), 1 / (self.rate * self.length))
        away = np.max(np.abs(n_between - self.between @ n) * reach)
        if not away <= 10 * tolerance:
            return None
        return p + self.vectors @ d[num_nodes - 1]

    def _follow(self, n: np.ndarray) -> np.ndarray:
        return np.einsum("aik,ik->ak", self.weights, n)

    def _rest(self, gradient: Gradient, p: np.ndarray, d: np.ndarray) -> np.ndarray:
        return self.vectors.T @ gradient(p + self.vectors @ d) - self.values * d


def _lagrange(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(at, nodes): values of the Lagrange polynomials of the nodes, barycentrically."""
    x, z = nodes / nodes[-1], at / nodes[-1]
    differences = 4.0 * (x[:, None] - x) + np.eye(len(x))
    weights = 1 / np.prod(differences, axis=1)
    away = z[:, None] - x
    hit = away == 0
    terms = weights / np.where(hit, 1.0, away)
    values = terms / terms.sum(axis=1, keepdims=True)
    return np.where(hit.any(axis=1, keepdims=True), hit.astype(float), values)
