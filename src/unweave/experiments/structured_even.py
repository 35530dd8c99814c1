"""Even activations without thresholds, orthonormal weights (Goel and Panigrahy, Theorem 10).

For ``f = sum_S c_S prod_{i in S} u(w_i.x)`` with u even, the correlation ``E f h_4(z.x)`` on the sphere is
``sum_i alpha_i (z.w_i)^4 + sum_i beta_i (z.w_i)^2 + sum gamma_ij (z.w_i)^2 (z.w_j)^2 + constant``; when the products
are small (``gamma_ij < alpha_i + alpha_j``) its maxima are the weights, up to sign.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.high_threshold.landscape import orthonormal_directions
from unweave.moments.hermite import HermiteMoments


def recover_even_units(
    x: np.ndarray, y: np.ndarray, num_units: int, rng: np.random.Generator, *, order: int = 4
) -> np.ndarray:
    """Orthonormal directions (num_units, d), signs free, from rows x ~ N(0, I) and answers y (n,)."""
    moments = HermiteMoments(x.shape[1], order=order, baseline=float(np.mean(y)))
    return orthonormal_directions(moments.update(x, y), num_units, rng, order=order)
