"""The plane of a facet, with its covariance, and of all facets that agree with it.

A weak unit is seen on many lines, but on each so roughly that its plane is not known where other lines cross it. Facets
that agree to their errors, in every direction, are most likely one plane, and together they tell it better.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.sightings import Sightings

MOST_POOLED, AGREE = 12, 2.0
"""A facet is pooled with those of the likest that agree with it, to so many standard deviations."""


def facet_plane(sightings: Sightings, m: int) -> tuple[np.ndarray, float, np.ndarray]:
    """The plane of a facet: normal, offset, covariance; it passes through its kink and is less sure away from it."""
    size = sightings.size[m]
    normal, offset = sightings.facet[m, :-1] / size, sightings.facet[m, -1] / size
    project = np.eye(len(normal) + 1)
    project[-1, :] = -np.append(sightings.x[m], 1.0)
    project[-1, -1] = 0.0
    prior = (sightings.facet_error[m] / size) ** 2 * project @ project.T
    prior[-1, -1] += (sightings.error[m] * abs(sightings.across[m] @ normal)) ** 2
    return normal, float(offset), prior


def pool_facets(sightings: Sightings, m: int) -> tuple[np.ndarray, float, np.ndarray]:
    """The plane of a facet and of all others that agree with it: weak units are seen on many lines, on each roughly."""
    normal, offset, covariance = facet_plane(sightings, m)
    mean = np.append(normal, offset)
    others = np.flatnonzero(sightings.measured)
    tilt = np.abs(sightings.facet[others, :-1] @ normal) / sightings.size[others]
    for other in others[np.argsort(-tilt)][:MOST_POOLED]:
        if other == m:
            continue
        normal, offset, prior = facet_plane(sightings, int(other))
        apart = np.append(normal, offset) * np.sign(normal @ mean[:-1]) - mean
        gain = np.linalg.solve(covariance + prior, np.column_stack([covariance, apart]))
        if apart @ gain[:, -1] <= AGREE**2 * len(mean):
            mean, covariance = mean + covariance @ gain[:, -1], covariance - covariance @ gain[:, :-1]
            covariance = (covariance + covariance.T) / 2
    length = np.linalg.norm(mean[:-1])
    return mean[:-1] / length, float(mean[-1] / length), covariance / length**2


def spread_over(x: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Standard error of ``normal . x + offset`` at the rows of ``x``."""
    extended = np.hstack([x, np.ones((len(x), 1))])
    return np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", extended, covariance, extended, optimize=True), 0.0))
