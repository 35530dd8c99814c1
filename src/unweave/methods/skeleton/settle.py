"""Lengths of rows and biases from a few answers, with the directions of all rows as the skeleton has them.

Two unknowns a unit (its row's length, made good in the layer above, and its bias), the output biases, and single
weights that never show far out: a small problem however large the network is. Answers are asked in the units' windows,
near and far, and weighted by their accuracy; a root mean square of about one at the end says that nothing is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.solve.weighted import answer_accuracy

Free = tuple[tuple[int, int, int], ...]
"""Single weights: (layer, unit, feature)."""


@dataclass(frozen=True)
class Settled:
    """The network after the fit, and its misfit in accuracies of the answers."""

    network: Network
    level: float


def settle(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    noise: float,
    unit: float,
    *,
    max_steps: int = 8,
    free: Free = (),
) -> Settled:
    """Gauss-Newton on lengths, biases and ``free`` weights (layer, unit, feature); no step raises the residual."""
    accuracy = answer_accuracy(network, x, noise, unit)
    level = misfit_level(network, x, y, accuracy)
    damping = 0.0
    for _ in range(max_steps):
        residual = ((network(x) - y) / accuracy).ravel()
        jacobian = jacobian_of_lengths(network, x, free) / accuracy[:, :, None]
        jacobian = jacobian.reshape(len(residual), -1)
        lengths = np.linalg.norm(jacobian, axis=0)
        lengths[lengths < 1e-200] = np.inf  # what no answer shows stays where it is
        damped = np.vstack([jacobian / lengths, damping * np.eye(len(lengths))])
        right = np.concatenate([residual, np.zeros(len(lengths))])
        move = -np.linalg.lstsq(damped, right, rcond=1e-13)[0] / lengths
        trial = move_lengths(network, move, free)
        after = misfit_level(trial, x, y, accuracy)
        if after < level:
            done = after > 0.5 * level
            network, level, damping = trial, after, damping / 10
            if done:
                break
        elif damping > 1.0:
            break
        else:
            damping = max(100 * damping, 1e-6)
    return Settled(network, level)


def misfit_level(network: Network, x: np.ndarray, y: np.ndarray, accuracy: np.ndarray) -> float:
    """Root mean square misfit in accuracies of the answers."""
    with np.errstate(over="ignore", invalid="ignore"):
        level = float(np.sqrt(np.mean(((network(x) - y) / accuracy) ** 2)))
    return level if np.isfinite(level) else float("inf")


def jacobian_of_lengths(network: Network, x: np.ndarray, free: Free = ()) -> np.ndarray:
    """Derivatives (n, outputs, unknowns): log length and bias of each hidden unit, output biases, free weights.

    Of the free ones layers count from 0.
    """
    arguments, values, h = [], [], x
    for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
        arguments.append(h @ w.T + b)
        h = act.get(name)(arguments[-1])
        values.append(h)
    num, k = values[-1].shape
    back = np.broadcast_to(np.eye(k), (num, k, k))
    columns, backs = [back], {}
    for layer in range(network.num_layers - 2, -1, -1):
        flow = back @ network.weights[layer + 1]
        back = flow * act.get(network.activations[layer]).first(arguments[layer], np)[:, None, :]
        columns.append(back)
        backs[layer] = back
        columns.append(back * arguments[layer][:, None, :] - flow * values[layer][:, None, :])
    single = [
        (backs[layer][:, :, unit] * (values[layer - 1] if layer else x)[:, None, feature])[:, :, None]
        for layer, unit, feature in free
    ]
    return np.concatenate([*columns[::-1], *single], axis=2)


def move_lengths(network: Network, move: np.ndarray, free: Free = ()) -> Network:
    """The network with the unknowns of ``jacobian_of_lengths`` changed."""
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    for (layer, unit, feature), change in zip(free, move[len(move) - len(free) :], strict=True):
        weights[layer][unit, feature] += change
    start = 0
    for layer in range(network.num_layers - 1):
        count = len(weights[layer])
        factors = np.exp(np.clip(move[start : start + count], -1, 1))
        biases[layer] = biases[layer] * factors + move[start + count : start + 2 * count]
        weights[layer] *= factors[:, None]
        weights[layer + 1] /= factors
        start += 2 * count
    biases[-1] = biases[-1] + move[start : start + len(biases[-1])]
    return Network(weights, biases, network.activations)


def window_points(
    network: Network,
    counts: int,
    radii: tuple[float, float],
    rng: np.random.Generator,
    *,
    widest: float = 4.0,
) -> np.ndarray:
    """``counts`` points in the window of every hidden unit, at random radii."""
    found = []
    low, high = np.log(radii[0]), np.log(radii[1])
    for layer in range(network.num_layers - 1):
        for unit in range(len(network.weights[layer])):
            x = rng.standard_normal((counts, network.input_size))
            size = np.exp(rng.uniform(low, high, size=(counts, 1)))
            x *= size / np.linalg.norm(x, axis=1, keepdims=True)
            goal = rng.uniform(-widest, widest, size=counts)
            for _ in range(8):
                z, slope = _argument(network, layer, unit, x)
                square = np.maximum(np.einsum("nd,nd->n", slope, slope), 1e-12)
                step = ((goal - z) / square)[:, None] * slope
                length = np.linalg.norm(step, axis=1, keepdims=True)
                x = x + step * np.minimum(1.0, (5 + size) / np.maximum(length, 1e-300))
            found.append(x)
    return np.concatenate(found)


def _argument(network: Network, layer: int, unit: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One unit's argument and its gradient."""
    slopes, h = [], x
    for below in range(layer):
        z = h @ network.weights[below].T + network.biases[below]
        phi = act.get(network.activations[below])
        h = phi(z)
        slopes.append(phi.first(z, np))
    value = h @ network.weights[layer][unit] + network.biases[layer][unit]
    back = np.broadcast_to(network.weights[layer][unit], (len(x), network.weights[layer].shape[1]))
    for below in range(layer - 1, -1, -1):
        back = (back * slopes[below]) @ network.weights[below]
    return value, back
