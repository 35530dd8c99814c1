"""Active subspace: the directions a function varies in, from its gradients (Fornasier et al., Algorithm 1).

Every gradient of ``f(x) = F(A x)`` is a combination of the rows of A, so the leading singular vectors of a
matrix of gradients span those rows. Theorem 1: with step ``e`` and ``sigma_m(J[f]) >= alpha`` the
projections differ by at most ``2 C e m / (sqrt(alpha (1 - s)) - C e m)`` with a probability that grows
exponentially with the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class ActiveSubspace:
    """Orthonormal columns ``basis`` (d, k) and all singular values they were chosen from."""

    basis: np.ndarray = field(repr=False)
    spectrum: np.ndarray = field(repr=False)

    @property
    def dimension(self) -> int:
        return self.basis.shape[1]

    @property
    def gap(self) -> float:
        """The last singular value kept over the first one left out; infinite when none was left out."""
        return spectral_gap(self.spectrum, self.dimension)


def estimate_active_subspace(
    gradients: np.ndarray, *, floor: float = 1e-12, dimension: int | None = None, least_gap: float = 10.0
) -> ActiveSubspace:
    """The span of gradients (n, d); the dimension is read off the spectrum unless it is given.

    ``floor`` is the relative error of the gradients: smaller singular values are taken for it.
    """
    _, spectrum, rows = np.linalg.svd(gradients, full_matrices=False)
    rank = (
        choose_rank(spectrum, floor, least_gap=least_gap) if dimension is None else min(dimension, len(rows))
    )
    return ActiveSubspace(rows[:rank].T, spectrum)


def choose_rank(spectrum: np.ndarray, floor: float = 1e-12, *, least_gap: float = 10.0) -> int:
    """Where a decreasing spectrum has its widest gap, among the values above ``floor`` times the first.

    Without a gap of at least ``least_gap`` every value above the floor counts.
    """
    if not len(spectrum) or spectrum[0] <= 0:
        return 0
    values = np.maximum(spectrum / spectrum[0], floor)
    above = int(np.sum(values > floor))
    ratios = values[:-1] / values[1:]
    widest = int(np.argmax(ratios)) if len(ratios) else 0
    return widest + 1 if len(ratios) and ratios[widest] >= least_gap else above


def spectral_gap(spectrum: np.ndarray, rank: int) -> float:
    """``spectrum[rank - 1] / spectrum[rank]``; infinite at either end."""
    if not 0 < rank < len(spectrum) or spectrum[rank] <= 0:
        return float("inf")
    return float(spectrum[rank - 1] / spectrum[rank])
