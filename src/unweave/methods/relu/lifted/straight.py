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
RANK = 1e-12
"""Variances of weights, relative to the largest, that count as none."""
SAME, ABOUT = 1e-4, 0.02
"""Planes closer than this are one; those farther apart than this are two, however large their error bars are."""


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
    # one that could not cross something is offered if it crossed something else for certain
    numbers = np.flatnonzero(~bent.any(axis=1) & (sure | whole | clear.any(axis=1)))
    unbent = [_unbent(t, int(j)) for j in numbers]
    planes = Planes.none(size - 1)
    if len(numbers):
        rows, covariances = (np.array(parts) for parts in zip(*unbent, strict=True))
        length = np.linalg.norm(rows[:, :-1], axis=1)
        covariances = covariances / length[:, None, None] ** 2
        rows = rows / length[:, None]
        planes = Planes(rows[:, :-1], rows[:, -1], covariances, sure[numbers].astype(float))
    kept = _once(planes)
    return numbers[kept], planes.take(kept)


def _once(planes: Planes) -> np.ndarray:
    """Numbers of the planes without those that are another one to their error bars, which are known worse."""
    rows = np.hstack([planes.normals, planes.offsets[:, None]])
    blur = np.sqrt(np.einsum("npp->n", planes.covariances))
    kept: list[int] = []
    for i in np.argsort(blur, kind="stable"):
        near = np.minimum(DEVIATIONS * (blur[kept] + blur[i]), ABOUT) + SAME
        apart = [np.linalg.norm(rows[kept] + sign * rows[i], axis=1) for sign in (1.0, -1.0)]
        if not np.any(np.minimum(*apart) <= near):
            kept.append(int(i))
    return np.sort(np.array(kept, dtype=int))


def _unbent(t: Traces, j: int) -> tuple[np.ndarray, np.ndarray]:
    """The affine part of a trace, and its covariance, if all of its weights are none.

    A weight that was read roughly turns the facet beyond its plane: what it is off by belongs to the affine part.
    """
    size, known = t.gamma.shape[1], np.flatnonzero(t.known[j])
    own, bends = np.arange(size), size + known
    shared = t.covariance[j][np.ix_(own, bends)]
    share = shared @ np.linalg.pinv(t.covariance[j][np.ix_(bends, bends)], rcond=RANK, hermitian=True)
    covariance = t.covariance[j][np.ix_(own, own)] - share @ shared.T
    return t.gamma[j] - share @ t.beta[j, known], (covariance + covariance.T) / 2


def repeated(t: Traces, numbers: np.ndarray) -> np.ndarray:
    """Which of the numbered traces lie on the same facet as an earlier one."""
    found = np.zeros(len(t), dtype=bool)
    rows = t.gamma / np.linalg.norm(t.gamma[:, :-1], axis=1, keepdims=True)
    for rank, j in enumerate(numbers):
        for other in numbers[:rank]:
            apart = min(np.linalg.norm(rows[j] - rows[other]), np.linalg.norm(rows[j] + rows[other]))
            found[j] |= apart < 1e-4 * np.linalg.norm(rows[j])
    return found
