"""What the answers so far leave open, and where to ask so that they do not.

The normal matrix of the weighted fit, with the directions that only rescale units held fixed, gives the standard error
of every parameter. Its weak eigenvectors are combinations of parameters that hardly show in any answer yet; of many
candidate points those are asked at which these combinations would show most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.lifted.refit import DENSE, Stack, normal_matrix

MOST_WEAK = 60


@dataclass(frozen=True)
class Information:
    """Standard errors relative to each unit's largest weight, by unit, and the weak directions."""

    network: Network
    """The network in the scale in which the directions are given: rows of length one."""
    units: list[np.ndarray]
    entries: list[np.ndarray]
    """Relative standard error of each parameter, a block a layer."""
    weak: np.ndarray
    """(parameters, directions), each times its standard deviation."""

    @property
    def worst(self) -> float:
        return max(float(np.max(u, initial=0.0)) for u in self.units)


def can_measure(network: Network) -> bool:
    """Whether the normal matrix is small enough to be decomposed."""
    return network.num_parameters <= DENSE


def measure_information(network: Network, x: np.ndarray, bars: np.ndarray, *, goal: float) -> Information:
    """What the answers to ``x``, with standard errors ``bars``, say about the network's parameters."""
    network = balance(network)
    stack = Stack(network)
    p = stack.flat(network)
    matrix, _ = normal_matrix(stack, p, x, bars, np.arange(stack.size))
    gauge = _gauge(stack, p)
    matrix += gauge.T @ gauge * (np.trace(matrix) / stack.size)
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 1e-30 * values[-1])
    errors = np.sqrt(np.sum(vectors**2 / values, axis=1))
    blocks, errors_of = stack.blocks(p), stack.blocks(errors)
    entries = [
        e / np.maximum(np.max(np.abs(b), axis=1, keepdims=True), 1e-300)
        for b, e in zip(blocks, errors_of, strict=True)
    ]
    deviations = 1 / np.sqrt(values)
    weak = np.flatnonzero(deviations > goal)[:MOST_WEAK]
    spread = vectors[:, weak] * np.minimum(deviations[weak], 1e6 * goal)
    return Information(network, [np.max(e, axis=1) for e in entries], entries, spread)


def choose_points(
    information: Information,
    candidates: np.ndarray,
    bars_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    num_points: int,
) -> np.ndarray:
    """Those candidates at which the weak directions show most, in error bars."""
    stack = Stack(information.network)
    p = stack.flat(information.network)
    k = stack.shapes[-1][0]
    remaining = np.zeros((len(candidates), information.weak.shape[1]))
    step = max(16, 2_000_000 // (k * stack.size))
    for start in range(0, len(candidates), step):
        x = candidates[start : start + step]
        shown = (stack.jacobian(p, x) @ information.weak).reshape(len(x), k, -1)
        bars = bars_of(x, stack.forward(p, x)[0])
        remaining[start : start + step] = np.sqrt(np.sum(shown**2, axis=1)) / bars[:, None]
    # each direction in turn gets the point at which it shows most; what many points show counts less and less
    chosen: list[int] = []
    weights = np.ones(remaining.shape[1])
    for _ in range(min(num_points, len(candidates))):
        gain = remaining**2 @ weights
        best = int(np.argmax(gain))
        chosen.append(best)
        weights = weights / (1 + weights * remaining[best] ** 2)
        remaining[best] = 0.0
    return candidates[chosen]


def balance(network: Network) -> Network:
    """The same function with rows of length one in every hidden layer."""
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    for i in range(len(weights) - 1):
        size = np.linalg.norm(weights[i], axis=1)
        size = np.where(size > 0, size, 1.0)
        weights[i], biases[i] = weights[i] / size[:, None], biases[i] / size
        weights[i + 1] = weights[i + 1] * size
    return Network(weights, biases, network.activations)


def _gauge(stack: Stack, p: np.ndarray) -> np.ndarray:
    """Directions that rescale a hidden unit and change no answer, of length one."""
    rows, blocks = [], stack.blocks(p)
    for layer in range(len(blocks) - 1):
        for unit in range(len(blocks[layer])):
            row = np.zeros(stack.size)
            parts = stack.blocks(row)
            parts[layer][unit] = blocks[layer][unit]
            parts[layer + 1][:, unit] = -blocks[layer + 1][:, unit]
            rows.append(row / np.linalg.norm(row))
    return np.array(rows)


def without_units(network: Network, kept: list[np.ndarray]) -> Network:
    """The network with only the ``kept`` units of every hidden layer."""
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    for layer, rows in enumerate(kept):
        weights[layer], biases[layer] = weights[layer][rows], biases[layer][rows]
        weights[layer + 1] = weights[layer + 1][:, rows]
    return Network(weights, biases, network.activations)
