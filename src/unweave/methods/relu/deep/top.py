"""The output layer by least squares on every answer.

Answers that an unfound unit spoils are voted down: most rows obey a right layer to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unweave.methods.relu.deep.pool import Pool

MAX_ROWS = 6000
MOST_WRONG = 0.15
"""Answers that a last layer with units missing may contradict; more: a layer above it is rarely seen to switch."""
LAST = 1e-7
"""Median miss of the output layer, relative to the answers, below which a layer is the last."""
WRONG = 30
"""Answers that miss by more than this many medians, and more than the limit above, contradict."""


class Features(Protocol):
    """Known layers, with or without their sides."""

    def features(self, x: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Top:
    """Output weights and bias (features + 1, outputs), and how the answers agree."""

    coefficients: np.ndarray
    median_miss: float
    """Relative to the answers' spread."""
    wrong: np.ndarray
    x: np.ndarray

    @property
    def share_wrong(self) -> float:
        return float(np.mean(self.wrong))

    @property
    def is_output(self) -> bool:
        """Whether it explains most answers: the layer below it is the last hidden one."""
        return self.median_miss < LAST and self.share_wrong <= MOST_WRONG


def transcript(pool: Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """All answers, their weights by distance and the typical size of a weighted answer."""
    x, y = pool.inquiry.meter.transcript()
    weight = 1 / (1e-3 + np.linalg.norm(x, axis=1))
    spread = np.abs(y - np.median(y, axis=0)) * weight[:, None]
    return x, y, weight, float(np.median(spread)) + 1e-300


def fit_top(pool: Pool, known: Features, num_steps: int = 12, start: np.ndarray | None = None) -> Top:
    """Output weights on the last known features; ``start``: such as explain many answers already."""
    x, y, weight, size = transcript(pool)
    features = np.hstack([known.features(x), np.ones((len(x), 1))])
    rows = some_rows(len(x))
    solution = robust_fit(
        features[rows] * weight[rows, None], y[rows] * weight[rows, None], size, num_steps, start
    )
    miss = np.max(np.abs((features @ solution - y) * weight[:, None]), axis=1)
    middle = float(np.median(miss)) / size
    allowed = max(LAST, WRONG * min(middle, LAST))
    return Top(solution, middle, miss > allowed * size, x)


def robust_fit(
    a: np.ndarray, y: np.ndarray, size: float, num_steps: int = 12, start: np.ndarray | None = None
) -> np.ndarray:
    """Least squares that most rows obey exactly; ``start``: a solution that many obey."""
    scale = np.linalg.norm(a, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    a = a / scale
    solution = np.linalg.lstsq(a, y, rcond=1e-13)[0] if start is None else start * scale[:, None]
    last = np.inf
    for _ in range(num_steps):
        miss = np.max(np.abs(a @ solution - y), axis=1)
        middle = np.median(miss)
        if middle < 1e-11 * size or middle > 0.95 * last:
            break
        last = middle
        weight = 1 / np.sqrt(np.maximum(miss, 0.3 * middle + 1e-14 * size))
        weight[miss > 20 * middle] = 0.0
        solution = np.linalg.lstsq(a * weight[:, None], y * weight[:, None], rcond=1e-13)[0]
    return solution / scale[:, None]


def some_rows(count: int) -> np.ndarray:
    if count <= MAX_ROWS:
        return np.arange(count)
    return np.linspace(0, count - 1, MAX_ROWS).astype(int)
