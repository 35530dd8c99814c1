"""Which points to ask so that the least known parameters become known, looked for by climbing and taken one by one.

As in ``design`` rows of the Jacobian, in units of the error that an answer would have there, say what an answer would
tell before it is asked. Of a known network no question is needed to look for better points: candidates climb by random
steps that tell more, towards places that points drawn at random do not show (where one weak unit is heard and the
others are nearly off). The best is taken, the covariance follows by the formula for one more row, and what all others
would tell after it. Candidates that were not taken climb on in the next batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.core.deadline import held
from unweave.core.network import Network
from unweave.solve.design import EMPHASIS, covariance_of, unit_sizes
from unweave.solve.information import gauge_rows
from unweave.solve.layout import Layout

NUM_DRAWN, NUM_CLIMBING = 1500, 400
"""Points drawn for each batch, and how many of the best climb."""
NUM_STEPS = 30
"""Steps of each climb."""
FIRST_STEP, LONGER, SHORTER = 0.3, 1.5, 0.8
"""Size of a step relative to the point, and what becomes of it after one that tells more and one that does not."""
ACROSS = 0.3
"""Share of steps along the difference of two other candidates."""
COUNTED, NUM_DIRECTIONS = 1e-3, 64
"""Parameters that count less than this, of the least known one, are left out while climbing; directions of the
covariance in which an answer's own part in it is taken."""
NUM_BATCHES, LEAST_BATCH, LARGEST_BATCH = 15, 40, 0.3
"""Batches, their least size, and their largest beside the number of candidates that climb."""
MOST_ENTRIES = 2e7
"""Of the Jacobian of the points drawn for one batch."""


def aimed_points(
    network: Network,
    x: np.ndarray,
    draw: Callable[[int], np.ndarray],
    *,
    error: Callable[[np.ndarray], np.ndarray],
    allowed: Callable[[np.ndarray], np.ndarray],
    goal: float,
    most: int,
    rng: np.random.Generator,
    effort: int = 1,
) -> np.ndarray:
    """Points to ask besides ``x``, ``most`` at most, until every standard error is below ``goal``.

    Errors are relative to the largest parameter of the same unit; ``error`` gives that of answers at points (n,
    outputs), ``draw(n)`` about n points to begin from, ``allowed`` which points may be asked (n,). With more ``effort``
    so many times the candidates take so many times the steps, and fewer questions do.
    """
    if most <= 0:
        return x[:0]
    telling = _Telling.of(network, error)
    flat = telling.rows(x).reshape(-1, network.num_parameters)
    normal, chosen, kept, num_left = flat.T @ flat, [x[:0]], x[:0], most
    num_drawn = min(
        effort * NUM_DRAWN, int(MOST_ENTRIES / (network.num_parameters * network.output_size)) + 100
    )
    num_climbing = min(effort * NUM_CLIMBING, num_drawn)
    batch = min(max(most // NUM_BATCHES, LEAST_BATCH), max(int(LARGEST_BATCH * num_climbing), 1))
    while num_left > 0:
        held().check()
        now = covariance_of(normal, telling.gauge)
        if np.sqrt(np.max(np.diag(now), initial=0.0)) <= goal:
            break
        points = np.concatenate([draw(num_drawn), kept])
        gain = telling.gains(now)
        points = _best(gain, points[allowed(points)], num_climbing)
        points = _climb(gain, points, allowed, effort * NUM_STEPS, rng)
        rows = telling.rows(points)
        taken = _take(rows, now, min(batch, num_left, len(points)))
        if not len(taken):
            break
        flat = rows[taken].reshape(-1, network.num_parameters)
        normal = normal + flat.T @ flat
        chosen.append(points[taken])
        kept = np.delete(points, taken, axis=0)
        num_left -= len(taken)
    return np.concatenate(chosen)


@dataclass(frozen=True)
class _Telling:
    """What answers at points would say of a network's parameters, in units of the parameters' sizes."""

    layout: Layout
    theta: np.ndarray
    sizes: np.ndarray
    gauge: np.ndarray
    error: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, network: Network, error: Callable[[np.ndarray], np.ndarray]) -> _Telling:
        layout, theta = Layout.of(network), network.flat()
        return cls(layout, theta, unit_sizes(network), gauge_rows(layout, theta).toarray(), error)

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Rows of the Jacobian (points, outputs, parameters) in errors of the answers."""
        jacobian = self.layout.linearise(self.theta, x)[1] * self.sizes
        return jacobian.reshape(len(x), -1, len(self.theta)) / self.error(x)[:, :, None]

    def gains(self, now: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """By how much an answer would lower the variances that count, for the covariance ``now``; to low rank."""
        counts = _counts(now)
        lead = counts > COUNTED
        moved_by = (now[lead] * np.sqrt(counts[lead])[:, None]).T
        values, vectors = np.linalg.eigh(now)
        top = vectors[:, -NUM_DIRECTIONS:] * np.sqrt(np.maximum(values[-NUM_DIRECTIONS:], 0.0))

        def gain(x: np.ndarray) -> np.ndarray:
            rows = self.rows(x)
            own = 1 + np.sum((rows @ top) ** 2, axis=2)
            return np.sum(np.sum((rows @ moved_by) ** 2, axis=2) / own, axis=1)

        return gain


def _counts(now: np.ndarray) -> np.ndarray:
    """How much each parameter's variance counts beside that of the least known one."""
    variances = np.maximum(np.diag(now), 0.0)
    return (variances / max(float(variances.max(initial=0.0)), 1e-300)) ** (EMPHASIS / 2)


def _best(gain: Callable[[np.ndarray], np.ndarray], x: np.ndarray, count: int) -> np.ndarray:
    """The points that tell most."""
    return x[np.argsort(-gain(x), kind="stable")[:count]]


def _climb(
    gain: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    allowed: Callable[[np.ndarray], np.ndarray],
    num_steps: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """The points after random steps, each of which a point took where it told more."""
    x, tells, scale = x.copy(), gain(x), np.full(len(x), FIRST_STEP)
    for _ in range(num_steps if len(x) else 0):
        length = np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(x.shape[1])
        step = scale[:, None] * length * rng.standard_normal(x.shape)
        first, second = x[rng.integers(len(x), size=(2, len(x)))]
        across = rng.uniform(size=(len(x), 1)) < ACROSS
        trial = x + np.where(across, 0.5 * (first - second), step)
        trial = np.where(allowed(trial)[:, None], trial, x)
        after = gain(trial)
        better = after > tells
        x[better], tells[better] = trial[better], after[better]
        scale = np.where(better, LONGER * scale, SHORTER * scale)
    return x


def _take(rows: np.ndarray, now: np.ndarray, count: int) -> np.ndarray:
    """The rows (points, outputs, parameters) that lower the variances most, one after the other; their numbers."""
    taken, moved, now = [], rows @ now, now.copy()
    for _ in range(count):
        counts, own = _counts(now), 1 + np.sum(moved * rows, axis=2)
        gains = np.sum(np.sum(moved**2 * counts, axis=2) / own, axis=1)
        gains[taken] = -1.0
        best = int(np.argmax(gains))
        taken.append(best)
        for output in range(rows.shape[1]):
            along = moved[best, output].copy()
            size = 1 + float(along @ rows[best, output])
            now -= np.outer(along, along) / size
            moved -= (rows @ along)[:, :, None] * (along / size)
    return np.array(taken, dtype=int)
