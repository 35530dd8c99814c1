"""Which points to ask so that the least known parameters become known: a sequential design (Fedorov 1972).

Near the truth, answers with independent errors leave the parameters with the covariance ``(J'J)^-1``, rows of J in
units of these errors, and the rows of J at a point are known before it is asked. Of many points of the domain, batches
are taken that lower the largest variances most, by the formula for one more row. There is no claim that a batch is the
best one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core.network import Network
from unweave.solve.information import gauge_rows
from unweave.solve.layout import Layout

CHOICE, MOST_ENTRIES = 30, 5e7
"""Points looked at for each one that is taken, while their Jacobian has no more entries than this."""
BATCH = 0.2
"""Points taken at a time, relative to those there are."""
EMPHASIS = 4
"""Power of a standard error, relative to the largest one, with which a parameter counts."""


def telling_points(
    network: Network,
    x: np.ndarray,
    draw: Callable[[int], np.ndarray],
    *,
    noise: float | Callable[[np.ndarray], np.ndarray],
    goal: float,
    most: int,
    choice: int = CHOICE,
) -> np.ndarray:
    """Points to ask besides ``x``, ``most`` at most: as many as bring every standard error below ``goal``.

    Errors are relative to the largest parameter of the same unit, ``noise`` is that of one answer, or a function that
    gives it at points (n, outputs), and ``draw(n)`` returns n points of the domain, ``choice`` of them for each
    that is taken.
    """
    layout, theta, sizes = Layout.of(network), network.flat(), unit_sizes(network)
    num_looked_at = int(max(MOST_ENTRIES / (len(theta) * network.output_size), 1))

    def rows(points: np.ndarray) -> np.ndarray:
        """Rows of J at each point (points, outputs, parameters), for parameters in units of their sizes."""
        jacobian = (layout.linearise(theta, points)[1] * sizes).reshape(len(points), -1, len(theta))
        return jacobian / (noise(points)[:, :, None] if callable(noise) else noise)

    gauge = gauge_rows(layout, theta).toarray()
    flat = rows(x).reshape(-1, len(theta))
    normal, chosen, num_left = flat.T @ flat, [x[:0]], most
    while num_left > 0:
        covariance = covariance_of(normal, gauge)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if errors.max(initial=0.0) <= goal:
            break
        batch = min(max(int(BATCH * (len(x) + most - num_left)), 1), num_left)
        points = draw(max(min(choice * batch, num_looked_at), batch))
        at = rows(points)
        moved = at @ covariance
        counts = (errors / errors.max()) ** EMPHASIS
        gains = np.sum(np.sum(moved**2 * counts, axis=2) / (1 + np.sum(moved * at, axis=2)), axis=1)
        best = np.argsort(-gains, kind="stable")[:batch]
        taken = at[best].reshape(-1, len(theta))
        normal += taken.T @ taken
        chosen.append(points[best])
        num_left -= len(best)
    return np.concatenate(chosen)


def covariance_of(normal: np.ndarray, gauge: np.ndarray) -> np.ndarray:
    """The inverse, with columns scaled to one; what rounding hides counts as known that badly, not as known.

    The lengths of homogeneous units' rows, which no answer tells, are held (``gauge``).
    """
    diagonal = np.diag(normal)
    scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(normal / np.outer(scales, scales) + gauge.T @ gauge)
    floor = len(scales) * np.finfo(float).eps * max(float(values[-1]), 1e-300)
    vectors /= scales[:, None]
    return (vectors / np.maximum(values, floor)) @ vectors.T


def unit_sizes(network: Network) -> np.ndarray:
    """For every parameter, in the order of ``flat``, the largest of the same unit in absolute value."""
    sizes = []
    for w, b in zip(network.weights, network.biases, strict=True):
        largest = np.maximum(np.max(np.abs(w), axis=1), np.abs(b))
        sizes.append(np.repeat(np.maximum(largest, 1e-300), w.shape[1] + 1))
    return np.concatenate(sizes)
