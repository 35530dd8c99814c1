"""Do the residuals of noisy rows still show structure?

Where a network of the right kind fits, what is left is noise: across the pre-activation of any of its units the mean
residual is zero in every stretch. A network of another activation can have residuals as small as the noise allows and
still err in a pattern, around the bends of its units most of all. Rows are cut into stretches of equal number along
each first-layer unit (of a linear network: along each output); the largest mean, in its own standard errors, is held
against what chance allows over all stretches, units and outputs. Rows that a fit has seen count too: a fit makes
residuals smaller, not patterned.

Inputs that were recorded more than once tell the noise without any network: answers to the same question that lie
farther apart than the noise explains are of two models, or of one that changed.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from unweave.certificates.base import Check
from unweave.core.network import Network

STRUCTURE, REPEATS = "structure of residuals", "answers to the same inputs"
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
    if num_stretches < 4 or not noise > 0:
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


def check_repeats(x: np.ndarray, y: np.ndarray, noise: float) -> list[Check]:
    """Whether answers to inputs that occur more than once differ by no more than noise; nothing where none does."""
    x, y = x[:MOST_ROWS], y[:MOST_ROWS]
    _, group, sizes = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    num_free = (len(x) - len(sizes)) * y.shape[1]
    if num_free < NUM_IN_STRETCH or not noise > 0:
        return []
    sums = np.zeros((len(sizes), y.shape[1]))
    np.add.at(sums, group.reshape(-1), y)
    within = y - (sums / sizes[:, None])[group.reshape(-1)]
    ratio = float(np.sqrt(np.sum(within**2) / num_free)) / noise
    allowed = 1.1 - float(ndtri(CHANCE) / np.sqrt(2 * num_free))
    words = f"answers to the same inputs differ by {ratio:.2f} times the noise, chance allows {allowed:.2f}"
    passed = ratio <= allowed
    reason = "" if passed else f"{words}: they are not those of one model"
    return [Check(REPEATS, passed, {"ratio": ratio, "allowed": allowed}, words, reason)]
