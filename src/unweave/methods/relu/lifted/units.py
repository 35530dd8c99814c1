"""A second-layer unit as a ridge sum over the planes of the first layer, in which networks are put together.

In the scale in which it enters the outputs its pre-activation is
``z(x) = gamma . (x, 1) + sum_i beta_i |q_i . (x, 1)|``, q_i the planes of the first layer, up to a sign of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Unit:
    """A ridge sum: ``beta`` (m,), 0 where no plane between its facets shows it, and ``gamma`` (d + 1,)."""

    beta: np.ndarray
    gamma: np.ndarray
    shown: np.ndarray
    """Planes that lie between its facets."""
    told: np.ndarray
    """Planes whose weight its facets determine."""
    signs: np.ndarray
    """On the planes not shown: the side where all its facets lie."""
    output: np.ndarray
    """Direction among the outputs, with its sign."""
    members: np.ndarray
    misfit: float
    """Median deviation of its facets, in standard errors."""
