"""The network the demonstration hides and finds again: two hidden tanh layers with unit weight vectors.

``f(x) = sum_l tanh(b_l . tanh(A x + theta) + tau_l)`` with rows of ``A`` and vectors ``b_l`` uniform on the
sphere and biases N(0, 0.1^2): the class of Fornasier, Klock and Rauchensteiner, "Robust and Resource
Efficient Identification of Two Hidden Layer Neural Networks".
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network


def paper_network(num_inputs: int = 30, hidden: tuple[int, int] = (30, 9), seed: int = 0) -> Network:
    """A random network of the class: unit weight vectors, small biases, output weights 1."""
    rng = np.random.default_rng(seed)
    first = _unit_rows(hidden[0], num_inputs, rng)
    second = _unit_rows(hidden[1], hidden[0], rng)
    return Network(
        [first, second, np.ones((1, hidden[1]))],
        [0.1 * rng.standard_normal(hidden[0]), 0.1 * rng.standard_normal(hidden[1]), np.zeros(1)],
        ["tanh", "tanh", "identity"],
    )


def _unit_rows(num_rows: int, size: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.standard_normal((num_rows, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
