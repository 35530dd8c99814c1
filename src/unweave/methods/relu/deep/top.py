"""The output layer by least squares on every answer.

Answers that an unfound unit spoils are voted down: most rows obey a right layer to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unweave.methods.relu.deep.extremes import spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool

MAX_ROWS = 6000
MOST_WRONG = 0.15
"""Answers that a last layer with units missing may contradict; more: a layer above it is rarely seen to switch."""
NUM_FAIR = 400
"""Answers that tell how often a network is wrong."""
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
    share_wrong: float
    """Share of fair answers that contradict: most are asked for where something is wrong."""
    share_sure: float = 0.0
    """The same among those at which no weight that is open decides whether a unit is on."""

    @property
    def is_output(self) -> bool:
        """Whether it explains most answers: the layer below it is the last hidden one."""
        return self.median_miss < LAST and self.share_sure <= MOST_WRONG


def transcript(pool: Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """All answers, their weights by distance and the typical size of a weighted answer."""
    x, y = pool.inquiry.meter.transcript()
    weight = 1 / (1e-3 + np.linalg.norm(x, axis=1))
    spread = np.abs(y - np.median(y, axis=0)) * weight[:, None]
    return x, y, weight, float(np.median(spread)) + 1e-300


def features_below(pool: Pool, below: Known, x: np.ndarray) -> np.ndarray:
    """Features of layers at all points asked; of layers that are looked at again only those at new points are made."""
    old = pool.features
    layers = (*below.weights, *below.biases)
    if (
        old is None
        or len(old[0]) != len(layers)
        or any(a is not b for a, b in zip(old[0], layers, strict=True))
        or len(old[1]) > len(x)
        or not np.array_equal(old[1], x[: len(old[1])])
    ):
        pool.features = layers, x, below.features(x)
    elif len(old[1]) < len(x):
        pool.features = layers, x, np.concatenate([old[2], below.features(x[len(old[1]) :])])
    assert pool.features is not None
    return pool.features[2]


def features_at(pool: Pool, known: Features, x: np.ndarray) -> np.ndarray:
    """The last features at all points asked."""
    if not isinstance(known, Known) or not known.depth:
        return known.features(x)
    h = features_below(pool, known.first(known.depth - 1), x)
    last = Known(h.shape[1], known.weights[-1:], known.biases[-1:], known.leaks[-1:])
    return last.features(h)


def fit_top(pool: Pool, known: Features, num_steps: int = 12, start: np.ndarray | None = None) -> Top:
    """Output weights on the last known features; ``start``: such as explain many answers already."""
    x, y, weight, size = transcript(pool)
    last = features_at(pool, known, x)
    features = np.hstack([last, np.ones((len(x), 1))])
    rows = some_rows(len(x))
    solution = robust_fit(
        features[rows] * weight[rows, None], y[rows] * weight[rows, None], size, num_steps, start
    )
    miss = _misses(x, y, last, solution)
    middle = float(np.median(miss)) / size
    limit = _limit(middle) * size
    share = sure = float(np.mean(miss > limit))
    if middle < LAST and share > 0:
        fair, answers = fair_answers(pool)
        wrong = _misses(fair, answers, known.features(fair), solution) > limit
        share = sure = float(np.mean(wrong))
        if isinstance(known, Known) and any(known.open_entries):
            sure = float(np.sum(wrong & ~known.is_unsure(fair))) / max(int(np.sum(~known.is_unsure(fair))), 1)
    return Top(solution, middle, miss > limit, x, share, sure)


def count_wrong(pool: Pool, known: Features, coefficients: np.ndarray) -> int:
    """How many of all answers that there are now contradict these output weights."""
    x, y, _, size = transcript(pool)
    miss = _misses(x, y, features_at(pool, known, x), coefficients)
    return int(np.sum(miss > _limit(float(np.median(miss)) / size) * size))


def fair_answers(pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    """Points at all scales, chosen whatever is known, with their answers; asked for once."""
    if pool.fair is None:
        meter = pool.inquiry.meter
        x = spread_points(meter.domain, NUM_FAIR, pool.input_size, pool.rng)
        pool.fair = x, meter.ask(x)
    return pool.fair


def _misses(x: np.ndarray, y: np.ndarray, features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Misses of the answers, weighted by distance."""
    miss = np.max(np.abs(features @ coefficients[:-1] + coefficients[-1] - y), axis=1)
    return miss / (1e-3 + np.linalg.norm(x, axis=1))


def _limit(median_miss: float) -> float:
    """The miss, relative to the answers' spread, from which an answer contradicts."""
    return max(LAST, WRONG * min(median_miss, LAST))


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
