"""A student of one layer less, from one that has a layer too many: the layer that is most nearly an affine map goes.

Students with a layer too many come close as early as those of the right depth, and on fewer points, but never to
rounding: one of their layers only hands on what the one below it says, and narrowing them is slow and in vain. The
other layers are mostly those of the network.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.solve.fit import spread_of


def drop_layer(network: Network, x: np.ndarray, y: np.ndarray) -> tuple[Network, float]:
    """The network without the hidden layer that goes best, its output layer fitted again, and what it leaves of ``y``,
    relative to its spread.
    """
    assert len(network.hidden) > 1
    return min((_without(network, k, x, y) for k in range(len(network.hidden))), key=lambda found: found[1])


def _without(network: Network, layer: int, x: np.ndarray, y: np.ndarray) -> tuple[Network, float]:
    """What the layer passes on becomes the nearest affine function of the one below."""
    weights, biases, names = list(network.weights), list(network.biases), list(network.activations)
    below = _forward(x, weights[:layer], biases[:layer], names)
    above = _forward(below, weights[layer : layer + 1], biases[layer : layer + 1], names[layer:])
    passed = _affine(below, above)
    merged, shift = weights[layer + 1] @ passed[:-1].T, weights[layer + 1] @ passed[-1] + biases[layer + 1]
    weights[layer : layer + 2], biases[layer : layer + 2] = [merged], [shift]
    del names[layer]
    features = _forward(x, weights[:-1], biases[:-1], names)
    output = _affine(features, y)
    weights[-1], biases[-1] = output[:-1].T, output[-1]
    rest = features @ output[:-1] + output[-1] - y
    return Network(weights, biases, names), float(np.sqrt(np.mean(rest**2))) / spread_of(y)


def _forward(
    x: np.ndarray, weights: list[np.ndarray], biases: list[np.ndarray], names: list[str]
) -> np.ndarray:
    """Values of the last of these layers."""
    for weight, bias, name in zip(weights, biases, names, strict=False):
        x = act.get(name)(x @ weight.T + bias)
    return x


def _affine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coefficients (inputs + 1, outputs) of the affine function of ``x`` nearest to ``y``."""
    return np.linalg.lstsq(np.hstack([x, np.ones((len(x), 1))]), y, rcond=1e-10)[0]
