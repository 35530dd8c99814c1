"""Two extensions of the moments (Goel and Panigrahy, B.6 and B.7).

* ``recover_from_accepted``: sigmoid units with thresholds so high that f is tiny almost everywhere. A row is kept with
  probability proportional to f >= 0; then averages over kept rows are ``E[f h]/E[f]``, and the Hermite tensors of the
  constant one over kept rows are those of f, scaled.
* ``recover_high_degrees``: P of higher degree in single units. The univariate parts ``q_i(u(w_i.x))`` act as
  activations of their own; their second and third Hermite coefficients differ from unit to unit, which whitening and
  power iteration do not mind as long as they are positive.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import InputError
from unweave.methods.high_threshold.starts import find_starts
from unweave.moments.hermite import HermiteMoments
from unweave.moments.residual import accumulate_residual


def accept_rows(
    x: np.ndarray, y: np.ndarray, rng: np.random.Generator, *, largest: float | None = None
) -> np.ndarray:
    """The rows kept with probability ``y / largest`` (the largest y by default)."""
    top = float(np.max(y)) if largest is None else largest
    if np.min(y) < 0 or top <= 0:
        raise InputError("rows are kept with probability proportional to y: give y >= 0 with some y > 0")
    return x[rng.uniform(size=len(y)) * top < y]


def recover_from_accepted(kept: np.ndarray, num_units: int, rng: np.random.Generator) -> np.ndarray:
    """Directions (num_units, d) of the units from rows already kept with probability proportional to f."""
    moments = HermiteMoments(kept.shape[1], order=3)
    return find_starts(moments.update(kept, np.ones(len(kept))), num_units, rng)


def recover_high_degrees(
    x: np.ndarray, y: np.ndarray, num_units: int, rng: np.random.Generator
) -> np.ndarray:
    """Directions (num_units, d) under a polynomial of any degree in each unit with positive univariate parts."""
    return find_starts(accumulate_residual((x, y), order=3), num_units, rng)
