"""Random symmetries of networks, for the tests."""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network


def random_symmetry(network: Network, rng: np.random.Generator) -> Network:
    """The same function with other parameters: units permuted, flipped, rescaled, shifted."""
    for layer in range(network.num_layers - 1):
        width = len(network.weights[layer])
        activation = act.get(network.activations[layer])
        network = network.permuted(layer, rng.permutation(width))
        if activation.flips:
            network = network.flipped(layer, rng.uniform(size=width) < 0.5)
        if activation.degree is not None:
            network = network.rescaled(layer, rng.uniform(0.2, 5, size=width))
        if activation.name == "exp":
            network = exp_shifted(network, layer, rng.uniform(-1, 1, size=width))
    return network


def exp_shifted(network: Network, layer: int, shifts: np.ndarray) -> Network:
    """``exp(z + s) e^-s = exp(z)``."""
    weights, biases = list(network.weights), list(network.biases)
    biases[layer] = biases[layer] + shifts
    weights[layer + 1] = weights[layer + 1] * np.exp(-shifts)
    return Network(weights, biases, network.activations)
