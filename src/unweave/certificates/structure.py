"""Do the residuals of noisy rows still show structure?

Where a network of the right kind fits, what is left is noise: across the pre-activation of any of its units the mean
residual is zero in every stretch. A network of another activation can have residuals as small as the noise allows and
still err in a pattern, around the bends of its units most of all. Rows are cut into stretches of equal number along
each first-layer unit; the largest mean, in its own standard errors, is held against what chance allows over all
stretches, units and outputs. Rows that a fit has seen count too: a fit makes residuals smaller, not patterned.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from unweave.certificates.base import Check
from unweave.core.network import Network

STRUCTURE = "structure of residuals"
CHANCE = 1e-4
"""How often pure noise may fail the check."""
NUM_STRETCHES = 16
NUM_IN_STRETCH = 12
"""Rows a stretch holds at least."""
MOST_ROWS = 200_000


def check_structure(network: Network, x: np.ndarray, y: np.ndarray, noise: float) -> list[Check]:
    """Whether means over stretches of the units are those of noise; nothing where there are too few rows to tell."""
    x = x[:MOST_ROWS]
    errors = network(x) - y[:MOST_ROWS]
    num_stretches = min(NUM_STRETCHES, len(x) // NUM_IN_STRETCH)
    if num_stretches < 4 or not noise > 0 or not network.hidden:
        return []
    heights = x @ network.weights[0].T + network.biases[0]
    largest = 0.0
    for height in heights.T:
        for stretch in np.array_split(np.argsort(height), num_stretches):
            means = np.abs(errors[stretch].mean(axis=0)) * np.sqrt(len(stretch)) / noise
            largest = max(largest, float(np.max(means)))
    num_means = heights.shape[1] * num_stretches * errors.shape[1]
    allowed = 1.1 * float(-ndtri(CHANCE / (2 * num_means)))  # the noise itself is an estimate
    words = f"the mean residual across the units is {largest:.1f} standard errors at most, chance allows {allowed:.1f}"
    passed = largest <= allowed
    reason = "" if passed else f"{words}: the residuals have structure, the units may be of another kind"
    return [Check(STRUCTURE, passed, {"largest": largest, "allowed": allowed}, words, reason)]
