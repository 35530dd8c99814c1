"""A logistic curve through success counts, where it rises through half of its plateau, and how well that is known.

``P(success) = q / (1 + exp(-b (t - c)))``. Crossing c, slope b and plateau q (at least 1/2) maximise the likelihood.
With q fixed at 1 a few failures far above the threshold, which say nothing about where it lies, would flatten the
whole curve and move its crossing; psychometric curves carry a lapse rate for the same reason (Wichmann and Hill 2001).
The interval holds every c whose best likelihood is within the 95 % quantile of the likelihood ratio. Counts that
change from none to all between neighbouring points (where no finite slope is best) need no special case: the slope is
bounded by one that turns within a hundredth of the grid, and the crossing is the middle of all equally good ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlog1py, xlogy

QUANTILE = 3.841
"""Of chi squared with one degree of freedom at 95 %."""
PLATEAUS = np.linspace(1.0, 0.5, 51)
"""Tried from the top, so that 1 is kept unless less is likelier."""


@dataclass(frozen=True)
class LogisticFit:
    """``low`` and ``high`` bound the crossing with 95 % confidence; infinite where the grid does not reach."""

    crossing: float
    low: float
    high: float
    slope: float
    plateau: float = 1.0

    def __call__(self, t: np.ndarray) -> np.ndarray:
        return self.plateau * expit(self.slope * (np.asarray(t) - self.crossing))

    def to_dict(self) -> dict[str, Any]:
        """Numbers; None for an end of the interval that the grid does not reach."""
        return {key: value if np.isfinite(value) else None for key, value in asdict(self).items()}

    def __str__(self) -> str:
        return f"{self.crossing:.2f} (95 %: {self.low:.2f} to {self.high:.2f})"


def fit_logistic(t: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> LogisticFit | None:
    """None when every trial succeeded, none did, or there are fewer than two points."""
    t, successes, trials = (np.asarray(values, dtype=np.float64) for values in (t, successes, trials))
    total = float(successes.sum())
    if len(np.unique(t)) < 2 or total in (0.0, float(trials.sum())):
        return None
    spacing = float(np.min(np.diff(np.unique(t))))
    span = float(np.ptp(t))
    centres = np.linspace(t.min() - span, t.max() + span, 1201)
    slopes = np.geomspace(0.02 / span, 100 / spacing, 60)
    rising = np.corrcoef(t, successes / trials)[0, 1] >= 0
    slopes = slopes if rising else -slopes
    best = np.full(len(centres), -np.inf)
    choice = np.zeros(len(centres))
    height = np.ones(len(centres))
    failures = trials - successes
    for slope in slopes:
        curve = expit(slope * (t[:, None] - centres[None, :]))
        for plateau in PLATEAUS:
            p = plateau * curve
            likelihood = np.sum(xlogy(successes[:, None], p) + xlog1py(failures[:, None], -p), axis=0)
            better = likelihood > best + 1e-9
            best, choice = np.where(better, likelihood, best), np.where(better, slope, choice)
            height = np.where(better, plateau, height)
    top = float(best.max())
    ties = np.flatnonzero(best >= top - 1e-6)
    middle = int(np.round(ties.mean()))
    inside = np.flatnonzero(best >= top - QUANTILE / 2)
    low, high = float(centres[inside[0]]), float(centres[inside[-1]])
    return LogisticFit(
        float(centres[ties].mean()),
        low if inside[0] > 0 else -np.inf,
        high if inside[-1] < len(centres) - 1 else np.inf,
        float(choice[middle]),
        float(height[middle]),
    )
