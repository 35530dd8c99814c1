"""Kinks to start from, read off the Hermite tensors of many Gaussian rows.

With inputs N(0, I) the tensors T_2, T_3, T_4 of the answers are sums of powers of the units' directions
(``methods.general_relu``). From a few thousand rows on they show most units to a few degrees, which spares the search
its first rungs; units they miss are found by the fit. From fewer rows the tensors are too rough, and other inputs
break the identity: then the search starts at random.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import UnweaveError
from unweave.evidence.rows import Samples

ROWS_PER_INPUT, MOST_INPUTS, MOST_ROWS = 500, 40, 300_000


def moments_pay(samples: Samples) -> bool:
    """Whether there are rows enough, Gaussian as far as can be told, and one output."""
    gaussian = samples.gaussianity is not None and samples.gaussianity.passes
    enough = len(samples.x) >= ROWS_PER_INPUT * samples.input_size
    return gaussian and enough and samples.output_size == 1 and samples.input_size <= MOST_INPUTS


def kinks_from_moments(samples: Samples, rng: np.random.Generator) -> np.ndarray | None:
    """Unit normals with offsets (units, inputs + 1) in whitened inputs, or None when the tensors show none."""
    from unweave.methods.general_relu.recover import recover_from_moments
    from unweave.moments.residual import accumulate_residual

    rows = (samples.x[:MOST_ROWS], samples.y[:MOST_ROWS, 0])
    try:
        found = recover_from_moments(accumulate_residual(rows), offset=None, rng=rng).network
    except (UnweaveError, np.linalg.LinAlgError):
        return None
    kinks = np.hstack([found.weights[0], found.biases[0][:, None]])
    lengths = np.linalg.norm(found.weights[0], axis=1, keepdims=True)
    good = (lengths[:, 0] > 0) & np.all(np.isfinite(kinks), axis=1)
    kinks = kinks[good] / lengths[good]
    kinks[:, -1] = np.clip(kinks[:, -1], -2.5, 2.5)
    return kinks if len(kinks) else None
