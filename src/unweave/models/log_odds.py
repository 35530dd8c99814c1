"""Logits from probabilities: what a classifier's last squashing hides, up to what it cannot show.

A softmax forgets a common shift of its logits, so with three or more classes the centred logits (mean zero)
are returned, and with two classes their difference. A probability of exactly 0 or 1 has no log-odds: the
answer is infinite, and the meter says to restrict the domain.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network

BINARY_NOTE = "the outputs are the log-odds log p1 - log p0 of the predicted probabilities"
MULTICLASS_NOTE = "the outputs are log probabilities with their mean removed: logits up to a common shift"


def from_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Log-odds (n, 1) of two classes, centred logits (n, k) of k >= 3."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray(probabilities, dtype=np.float64))
        return centred(logs)


def centred(logs: np.ndarray) -> np.ndarray:
    """Logits without the shift no softmax can show: the difference of two, or mean zero."""
    if logs.shape[1] == 2:
        return logs[:, 1:] - logs[:, :1]
    return logs - logs.mean(axis=1, keepdims=True)


def num_outputs(num_classes: int) -> int:
    return 1 if num_classes <= 2 else num_classes


def note(num_classes: int) -> str:
    return BINARY_NOTE if num_classes <= 2 else MULTICLASS_NOTE


def without_shift(network: Network) -> Network:
    """The network in front of the softmax of the given one, its outputs ``centred``."""
    last = np.column_stack([network.weights[-1], network.biases[-1]])
    last = centred(last.T).T
    weights, biases = [*network.weights[:-1], last[:, :-1]], [*network.biases[:-1], last[:, -1]]
    return Network(weights, biases, (*network.activations[:-1], "identity"))
