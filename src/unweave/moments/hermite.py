"""Hermite tensors ``T_k = E[f(x) He_k(x)]`` of a function of standard Gaussian inputs, as streaming sums.

``HermiteMoments`` takes rows in chunks of any size and keeps sums only: its memory depends on the number of inputs
and the order, not on the number of rows. Sums of disjoint rows are merged by adding them, in any order, so the same
object serves one array, a stream of files or many workers (``moments.accumulate``).

A *baseline* known in advance is taken off y before the sums and its own tensors are put back exactly. A number
costs nothing, and rows where y equals it are dropped before any product is formed. A quadratic close to the
least-squares fit (``moments.residual``) leaves less variance: four to eight times less error in T_3 and T_4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, factorial

import numpy as np
from numpy.polynomial.hermite_e import herme2poly

from unweave.algebra.symmetric import multi_indices, multiplicities, packed_length, positions, unpack
from unweave.core.errors import InputError
from unweave.moments.power_sums import PowerSums


@dataclass(frozen=True)
class Quadratic:
    """``q(x) = c + b.x + <A, x x' - I>/2`` for each of q outputs: its Hermite tensors are c, b and A."""

    constant: np.ndarray
    """(q,)"""
    linear: np.ndarray
    """(q, d)"""
    matrix: np.ndarray
    """(q, d, d)"""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values (n, q) at rows x (n, d)."""
        bent = np.stack([np.einsum("ni,ni->n", x @ a, x) for a in self.matrix], axis=1)
        return self.constant - 0.5 * np.einsum("qii->q", self.matrix) + x @ self.linear.T + 0.5 * bent

    def same(self, other: Quadratic | float) -> bool:
        return isinstance(other, Quadratic) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("constant", "linear", "matrix")
        )


class HermiteMoments:
    """Sums that give ``T_0 .. T_order`` of y over the rows seen so far.

    Parameters
    ----------
    input_size
        d; rows x are (n, d), from N(0, I) (whiten others first).
    order
        The highest tensor wanted, 0 to 8. The work a row is about ``C(d + order, order)`` multiplications.
    num_outputs
        Columns of y; with 1 the tensors have no leading axis and y may be (n,).
    baseline
        A number or a ``Quadratic``, taken off y and put back into the tensors. Rows with y equal to the number
        cost almost nothing.
    """

    sums: np.ndarray
    squares: np.ndarray

    input_size: int
    order: int
    num_outputs: int
    baseline: float | Quadratic
    count: int
    num_used: int

    def __init__(
        self, input_size: int, order: int = 4, *, num_outputs: int = 1, baseline: float | Quadratic = 0.0
    ):
        if input_size < 1 or num_outputs < 1 or not 0 <= order <= 8:
            raise InputError(
                f"moments of order {order} of {num_outputs} outputs of {input_size} inputs: "
                "give an order from 0 to 8, at least one input and one output"
            )
        self.input_size, self.order, self.num_outputs, self.baseline = (
            input_size,
            order,
            num_outputs,
            baseline,
        )
        self.count = 0
        """Rows seen, those at the baseline included."""
        self.num_used = 0
        """Rows that entered the products."""
        self.sums = np.zeros((num_outputs, packed_length(input_size + 1, order)))
        """Packed ``sum y (1, x)^order``."""
        self.squares = np.zeros((num_outputs, order + 1))
        """``sum (y - baseline)^2 |x|^{2j}`` for j up to the order: what the errors are estimated from."""

    def update(self, x: np.ndarray, y: np.ndarray) -> HermiteMoments:
        """Add rows x (n, d) with answers y (n,) or (n, num_outputs)."""
        x, y = self._checked(x, y)
        rest = y - (self.baseline(x) if isinstance(self.baseline, Quadratic) else self.baseline)
        used = np.flatnonzero(np.any(rest != 0.0, axis=1))
        self.count += len(x)
        if not len(used):
            return self
        if len(used) < len(x):
            x, rest = x[used], rest[used]
        added = np.zeros_like(self.sums)
        PowerSums(self.input_size, self.order).add(x, rest, added)
        if not np.all(np.isfinite(added)):
            self.count -= len(y)
            raise InputError("x or y holds NaN or infinite values; leave those rows out")
        self.sums += added
        norms = np.einsum("ni,ni->n", x, x)
        self.squares += (rest**2).T @ np.vander(norms, self.order + 1, increasing=True)
        self.num_used += len(used)
        return self

    def merge(self, other: HermiteMoments) -> HermiteMoments:
        """Add the sums of other rows to these."""
        if not self._fits(other):
            raise InputError("moments of different sizes, orders or baselines cannot be merged")
        self.count += other.count
        self.num_used += other.num_used
        self.sums += other.sums
        self.squares += other.squares
        return self

    def packed(self, k: int) -> np.ndarray:
        """``T_k`` in packed form (``algebra.symmetric``): (length,), or (num_outputs, length)."""
        if not 0 <= k <= self.order:
            raise InputError(f"T_{k} was not accumulated; give order={k} or more")
        if not self.count:
            raise InputError("no rows were seen yet; call update or accumulate first")
        tensors = np.zeros((self.num_outputs, packed_length(self.input_size, k)))
        for coefficient, where, entries, source in hermite_terms(self.input_size, k):
            raw = self.sums[:, _power_places(self.input_size, source, self.order)] / self.count
            tensors[:, where] += coefficient * raw[:, entries]
        tensors += self._baseline_tensor(k)
        return tensors[0] if self.num_outputs == 1 else tensors

    def tensor(self, k: int) -> np.ndarray:
        """``T_k`` as a full array (d, ..., d), with a leading axis for several outputs."""
        return unpack(self.packed(k), self.input_size, k)

    def tensors(self) -> tuple[np.ndarray, ...]:
        """``T_0 .. T_order`` in packed form, as ``methods.general_relu.recover_from_moments`` takes them."""
        return tuple(self.packed(k) for k in range(self.order + 1))

    def expected_error(self, k: int) -> np.ndarray:
        """The standard error of T_k in the Frobenius norm, (num_outputs,), the baseline taken as given.

        ``|He_k(x)|_F^2`` is a polynomial in ``|x|^2``, so the variance of the average is estimated without bias.
        """
        tensor = np.atleast_2d(self.packed(k)) - self._baseline_tensor(k)
        second = self.squares[:, : k + 1] @ hermite_norm(self.input_size, k) / self.count
        spread = second - np.sum(multiplicities(self.input_size, k) * tensor**2, axis=1)
        return np.sqrt(np.maximum(spread, 0.0) / self.count)

    def _checked(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if y.ndim == 1:
            y = y[:, None]
        if x.ndim != 2 or x.shape[1] != self.input_size or y.shape != (len(x), self.num_outputs):
            raise InputError(
                f"rows x {x.shape} and y {y.shape} do not fit moments of {self.input_size} inputs and "
                f"{self.num_outputs} outputs; give x (n, {self.input_size}) and y (n, {self.num_outputs})"
            )
        return x, y

    def _fits(self, other: HermiteMoments) -> bool:
        mine, theirs = self.baseline, other.baseline
        same = mine.same(theirs) if isinstance(mine, Quadratic) else mine == theirs
        return same and self.sums.shape == other.sums.shape and self.order == other.order

    def _baseline_tensor(self, k: int) -> np.ndarray | float:
        if not isinstance(self.baseline, Quadratic):
            return self.baseline if k == 0 else 0.0
        if k > 2:
            return 0.0
        if k == 2:
            return self.baseline.matrix[(..., *multi_indices(self.input_size, 2).T)]
        return self.baseline.linear if k else self.baseline.constant[:, None]


@lru_cache(maxsize=64)
def hermite_terms(size: int, k: int) -> tuple[tuple[float, np.ndarray, np.ndarray, int], ...]:
    """``He_k`` from powers: terms (coefficient, entries of He_k, entries of x^source, source), packed.

    ``He_k`` is the sum over all sets of disjoint pairs of its k places of ``(-1)^pairs`` times a delta for each
    pair and x at the other places.
    """
    indices = multi_indices(size, k)
    terms = []
    for pairs in _pairings(tuple(range(k))):
        where = np.arange(len(indices))
        for a, b in pairs:
            where = where[indices[where, a] == indices[where, b]]
        taken = {place for pair in pairs for place in pair}
        rest = [place for place in range(k) if place not in taken]
        terms.append(((-1.0) ** len(pairs), where, positions(indices[where][:, rest]), len(rest)))
    return tuple(terms)


def _pairings(places: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """All sets of disjoint pairs of the places, the empty one first."""
    found: list[tuple[tuple[int, int], ...]] = [()]
    for first, second in combinations(places, 2):
        later = tuple(p for p in places if p > first and p != second)
        found += [((first, second), *rest) for rest in _pairings(later)]
    return found


@lru_cache(maxsize=64)
def hermite_norm(size: int, k: int) -> np.ndarray:
    """Coefficients (k + 1,) of ``|He_k(x)|_F^2`` as a polynomial in ``|x|^2``.

    Turned so that x lies on the first axis: a of the k places hold the first index, and the others give
    ``|He_{k-a}(0)|_F^2`` over the remaining axes, whose generating function is ``(1 - t^2)^(-(size-1)/2)``.
    """
    total = np.zeros(k + 1)
    for a in range(k % 2, k + 1, 2):
        squared = _squared_hermite(a)
        pairs = (k - a) // 2
        rest = factorial(k - a) * np.prod([((size - 1) / 2 + j) / (j + 1) for j in range(pairs)])
        total[: a + 1] += comb(k, a) * rest * squared
    return total


def _squared_hermite(a: int) -> np.ndarray:
    """Coefficients (a + 1,) of ``He_a(r)^2`` in powers of ``r^2``."""
    plain = herme2poly(np.eye(a + 1)[a])
    return np.convolve(plain, plain)[::2]


@lru_cache(maxsize=64)
def _power_places(size: int, degree: int, order: int) -> np.ndarray:
    """Where the moments of this degree stand in the packed tensor of (1, x)."""
    indices = multi_indices(size, degree) + 1
    padding = np.zeros((len(indices), order - degree), dtype=np.int64)
    return positions(np.concatenate([padding, indices], axis=1))
