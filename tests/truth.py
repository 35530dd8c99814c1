"""Ground-truth networks for the tests: random multilayer perceptrons of real-life shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from unweave.core.network import Network


def random_network(
    sizes: Sequence[int], activation: str = "tanh", seed: int = 0, *, norms: tuple[float, float] = (0.7, 1.6)
) -> Network:
    """A dense network ``sizes[0]-...-sizes[-1]`` with free row norms, biases and output weights.

    Rows point in uniform directions with norms uniform in ``norms`` (twice that for sigmoid, whose slope is a
    quarter), biases are N(0, 0.3^2) (uniform in [-1, 1] for relu), outputs are linear.
    """
    rng = np.random.default_rng([seed, *sizes])
    weights, biases = [], []
    last = len(sizes) - 2
    gain = 2.0 if activation == "sigmoid" else 1.0
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        rows = rng.standard_normal((fan_out, fan_in))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows *= rng.uniform(*norms, size=(fan_out, 1)) * (1.0 if i == last else gain)
        weights.append(rows * (np.sqrt(fan_in) if i == last else 1.0))
        if activation in ("relu", "leaky_relu"):
            biases.append(rng.uniform(-1, 1, size=fan_out))
        else:
            biases.append(0.3 * rng.standard_normal(fan_out))
    return Network(weights, biases, [activation] * last + ["identity"])


def separate_normals(k: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Random unit normals (k, d) with angles of at least 60 degrees."""
    rows: list[np.ndarray] = []
    while len(rows) < k:
        v = rng.standard_normal(d)
        v /= np.linalg.norm(v)
        if all(v @ other < 0.5 for other in rows):
            rows.append(v)
    return np.array(rows)


def relu_in_float32(network: Network):
    """The function of a relu network, computed in single precision."""
    layers = [
        (w.astype(np.float32), b.astype(np.float32))
        for w, b in zip(network.weights, network.biases, strict=True)
    ]

    def answer(x):
        h = x.astype(np.float32)
        for i, (w, b) in enumerate(layers):
            h = h @ w.T + b
            h = np.maximum(h, 0) if i < len(layers) - 1 else h
        return h.astype(float)

    return answer


def remote_network(seed: int, num_inputs: int = 40, activation: str = "sigmoid") -> Network:
    """One hidden layer of related rows; a third of the units are saturated at all but some corners of [0, 1]^d."""
    rng = np.random.default_rng(seed)
    width = 8
    common = rng.standard_normal((3, num_inputs))
    rows = 2 * (rng.standard_normal((width, 3)) @ common + rng.standard_normal((width, num_inputs)))
    reach = np.abs(rows).sum(axis=1) / 2
    share = np.where(np.arange(width) % 3 == 0, -0.7, 0.1)
    return Network(
        [rows, 3 * rng.standard_normal((3, width))],
        [share * reach - rows.sum(axis=1) / 2, rng.standard_normal(3)],
        [activation, "identity"],
    )
