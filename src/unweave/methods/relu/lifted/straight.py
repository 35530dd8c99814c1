"""Traces that nothing bends: planes of the first layer, found by following them.

It decides of which layer a unit is better than votes do: one of the second layer bends at some plane that it crosses.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces

STRAIGHT, CLEAR = 3, 0.01
"""Planes that a facet crosses without a bend, larger than this share of it, to be surely a plane itself."""


def find_straight(t: Traces, failed: set[int]) -> tuple[np.ndarray, Planes]:
    """Traces that nothing bends, and the planes of the first layer they may be.

    ``failed``: seeds of those that could not cross something. ``shares`` is 1 for those that cross enough planes to be
    sure, 0 for those that may be facets short of a bend.
    """
    size = t.gamma.shape[1]
    errors = np.sqrt(np.maximum(np.einsum("mpp->mp", t.covariance)[:, size:], 0.0))
    steep = np.linalg.norm(t.gamma[:, :-1], axis=1)
    bent = t.known & (np.abs(t.beta) > DEVIATIONS * errors + 1e-9 * steep[:, None])
    clear = t.known & (DEVIATIONS * errors < CLEAR * steep[:, None])
    whole = np.array([int(seed) not in failed for seed in t.seed], dtype=bool)
    # in a network of one layer nothing bends at all
    sure = (clear.sum(axis=1) >= STRAIGHT) | ~bent.any()
    numbers = np.flatnonzero(~bent.any(axis=1) & (sure | whole))
    numbers = numbers[~repeated(t, numbers)[numbers]]
    length = steep[numbers]
    planes = Planes(
        t.gamma[numbers, :-1] / length[:, None],
        t.gamma[numbers, -1] / length,
        t.covariance[numbers][:, :size, :size] / length[:, None, None] ** 2,
        sure[numbers].astype(float),
    )
    return numbers, planes


def repeated(t: Traces, numbers: np.ndarray) -> np.ndarray:
    """Which of the numbered traces lie on the same facet as an earlier one."""
    found = np.zeros(len(t), dtype=bool)
    rows = t.gamma / np.linalg.norm(t.gamma[:, :-1], axis=1, keepdims=True)
    for rank, j in enumerate(numbers):
        for other in numbers[:rank]:
            apart = min(np.linalg.norm(rows[j] - rows[other]), np.linalg.norm(rows[j] + rows[other]))
            found[j] |= apart < 1e-4 * np.linalg.norm(rows[j])
    return found
