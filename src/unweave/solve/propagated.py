"""How far rounding carries each answer of a known network off, propagated from layer to layer.

A sum of n products is rounded at every partial sum, an activation relative to its value, and slopes and weights carry
these errors on. So an answer is as exact as the units that are on at its point allow: where all others are off, one
with a small output weight is heard a hundred times better than among them.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network

SHARE = 12.0**-0.5
"""Standard deviation of one rounding, in units of the last digit."""
CANCELLED = {"gelu": 2.0, "gelu_tanh": 0.5}
"""Activations computed as their argument times a factor of which digits cancel where it is small: errors of so many
roundings of the argument. 1 + erf(z) is not more exact than erf is, and that may be a polynomial good to 1e-7."""
BENDING = 1e-8
"""An activation counts as bending where it is farther from its limit than this."""


def propagated_rounding(network: Network, x: np.ndarray, unit: float) -> np.ndarray:
    """Standard deviation of the rounding of each answer (n, outputs), inputs being exact in the model's arithmetic.

    ``unit``: relative rounding of the model's arithmetic (the distance from 1 to the next number).
    """
    one, h, variance = unit * SHARE, x, np.zeros_like(x)
    for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
        count, squares = w.shape[1], w.T**2
        product = h @ w.T
        z = product + b
        # partial sums in any order: the squares of a random walk that ends at the whole
        sums = count / 3 * product**2 + (count / 6 + 1) * (h**2 @ squares) + z**2
        variance = variance @ squares + one**2 * sums
        if name == "identity":
            h = z
            continue
        unit_of_layer = act.get(name)
        h = unit_of_layer(z)
        variance = unit_of_layer.first(z, np) ** 2 * variance + one**2 * h**2
        if name in CANCELLED:
            bent = np.abs(h - np.maximum(z, 0.0)) > BENDING
            variance = variance + (CANCELLED[name] * one * z) ** 2 * bent
    return np.sqrt(variance)
