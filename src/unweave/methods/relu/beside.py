"""Points at every distance from given ones: where a unit that is rarely on, or rarely off, still is."""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain

NEAREST, FARTHEST = 1e-2, 3.0
"""Distances, relative to the size of the point itself."""


def points_beside(base: np.ndarray, num_points: int, domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """Points of the domain around rows of ``base`` drawn at random."""
    base = base[rng.integers(len(base), size=num_points)]
    reach = np.exp(rng.uniform(np.log(NEAREST), np.log(FARTHEST), size=(num_points, 1)))
    aside = reach * (1 + np.linalg.norm(base, axis=1, keepdims=True)) / np.sqrt(base.shape[1])
    return domain.nearest(base + aside * rng.standard_normal(base.shape))
