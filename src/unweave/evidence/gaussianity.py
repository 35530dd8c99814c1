"""Are the inputs Gaussian? Skewness and kurtosis by direction, and Mardia's two multivariate tests.

For rows u whitened by their own mean and covariance: each coordinate's third and fourth moment against those of
N(0, 1), with the worst of d coordinates judged at a level that allows for their number; and over all directions at
once Mardia's skewness ``mean_ij (u_i . u_j)^3`` (chi-square with d(d+1)(d+2)/6 degrees of freedom) and kurtosis
``mean |u_i|^4`` (normal around d(d+2)). Moment methods need the assumption; a least-squares fit does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

MOST_ROWS = 1200
"""Rows used: Mardia's skewness costs their square, and a thousand show any departure that matters."""
LEVEL = 1e-4


@dataclass(frozen=True)
class Gaussianity:
    """How far the worst direction is from Gaussian, and how likely that is."""

    worst_skewness: float
    worst_kurtosis: float
    p_values: tuple[float, float, float]
    """Of single directions, of Mardia's skewness, of Mardia's kurtosis."""
    num_rows: int

    @property
    def passes(self) -> bool:
        return min(self.p_values) >= LEVEL

    def describe(self) -> str:
        """One line for the verdict."""
        least = min(self.p_values)
        return (
            f"inputs {'pass for' if self.passes else 'are not'} Gaussian (worst skewness {self.worst_skewness:.2f}, "
            f"worst excess kurtosis {self.worst_kurtosis:.2f}, p = {least:.0e} on {self.num_rows:,} rows)"
        )


def check_gaussian(x: np.ndarray, rng: np.random.Generator) -> Gaussianity | None:
    """Test rows x (n, d) against N(mean, covariance) with both estimated; None for too few rows to say."""
    from scipy import stats  # a second to import, and questions to a model do not need it

    n, d = x.shape
    if n > MOST_ROWS:
        x = x[rng.choice(n, MOST_ROWS, replace=False)]
        n = MOST_ROWS
    if n < max(20, 2 * d):
        return None
    u = x - x.mean(axis=0)
    scales = u.std(axis=0)
    u = u[:, scales > 0] / scales[scales > 0]
    values, vectors = np.linalg.eigh(u.T @ u / n)
    keep = values > 1e-10
    white = u @ vectors[:, keep] / np.sqrt(values[keep])
    d = white.shape[1]
    if d == 0:
        return None
    directions = np.hstack([u, white])
    skewness, kurtosis = stats.skew(directions), stats.kurtosis(directions)
    least = min(stats.skewtest(directions).pvalue.min(), stats.kurtosistest(directions).pvalue.min())
    p_directions = min(1.0, 2 * directions.shape[1] * float(least))
    total = float(np.sum((white @ white.T) ** 3)) / n**2
    freedom = d * (d + 1) * (d + 2) / 6
    small = (n + 1) * (n + 3) * (d + 1) / (n * ((n + 1) * (d + 1) - 6))
    p_skewness = float(stats.chi2.sf(n * total / 6 * small, freedom))
    fourth = float(np.mean(np.sum(white**2, axis=1) ** 2))
    expected = d * (d + 2) * (n - 1) / (n + 1)
    p_kurtosis = float(2 * stats.norm.sf(abs(fourth - expected) / sqrt(8 * d * (d + 2) / n)))
    return Gaussianity(
        float(skewness[np.argmax(np.abs(skewness))]),
        float(kurtosis[np.argmax(np.abs(kurtosis))]),
        (p_directions, p_skewness, p_kurtosis),
        n,
    )
