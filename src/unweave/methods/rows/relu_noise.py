"""Is it noise? Two checks before a residual level is called that: independent fits agree, and nothing is left.

A student stuck away from the truth leaves a residual too. But two independent searches rarely stick at the same place,
while fits of the truth differ by sampling error only, ``sigma sqrt(p / n)``. And what is left of noise does not depend
on x: bends across random planes explain no more of it than chance lets them (an F-test).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from unweave.core.network import Network
from unweave.methods.relu.one_layer.ridges import RidgeSum

DISTANCE, ROWS_PER_PARAMETER = 2.0, 15
"""Largest distance of two fits in units of their sampling error, and rows a parameter for that to mean something."""
CHANCE = 1e-6
MOST_ROWS, NUM_PLANES = 20_000, 40


@dataclass(frozen=True)
class Opinion:
    """One fit of noisy rows: its ridges, residual level and number of rows."""

    ridges: RidgeSum
    misfit: float
    num_rows: int

    @property
    def width(self) -> int:
        return len(self.ridges.planes)


def agree(a: Opinion, b: Opinion, x: np.ndarray) -> bool:
    """Whether two fits have the same width and are the same function up to sampling error."""
    if a.width != b.width:
        return False
    num_parameters = (a.width + 1) * (x.shape[1] + 1)
    if min(a.num_rows, b.num_rows) < ROWS_PER_PARAMETER * num_parameters:
        return False
    distance = float(np.sqrt(np.mean((a.ridges(x) - b.ridges(x)) ** 2)))
    expected = max(a.misfit, b.misfit) * np.sqrt(num_parameters / min(a.num_rows, b.num_rows))
    return distance <= DISTANCE * expected


def looks_white(
    network: Network, x: np.ndarray, y: np.ndarray, noise: float, rng: np.random.Generator
) -> bool:
    """Whether bends across random planes explain no more of the residual than chance lets them."""
    x, y = x[:MOST_ROWS], y[:MOST_ROWS]
    residual = (y - network(x)) / max(noise, 1e-300)
    count = min(NUM_PLANES, len(x) // 20)
    if not count:
        return True
    normals = rng.standard_normal((count, x.shape[1]))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    design = np.abs(x @ normals.T + 0.7 * rng.standard_normal(count))
    design = np.linalg.qr(np.hstack([design, x, np.ones((len(x), 1))]))[0]
    explained = float(np.sum((design.T @ residual) ** 2))
    freedom = design.shape[1] * y.shape[1]
    rest = float(np.sum(residual**2)) - explained
    ratio = (explained / freedom) / max(rest / max(residual.size - freedom, 1), 1e-300)
    return float(stats.f.sf(ratio, freedom, residual.size - freedom)) >= CHANCE
