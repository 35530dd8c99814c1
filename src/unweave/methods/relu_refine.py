"""Gauss-Newton on a relu network and the questions already asked: no query is spent.

On each activation pattern the network is multilinear in its parameters, so a few steps from a start correct to many
digits reach rounding. The scales between layers are free; a tiny ridge keeps them where they are. Large networks
keep their first layer, measured directly, and refine the layers behind it, whose number of parameters is small.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from unweave.network import Network

MAX_UNKNOWNS = 1300


def refine_network(
    network: Network, x: np.ndarray, answers: np.ndarray, bars: np.ndarray, *, num_steps: int = 4
) -> Network:
    """The network after Gauss-Newton steps on the points it already explains roughly."""
    first = 0 if network.num_parameters <= MAX_UNKNOWNS else 1
    scale = np.median(np.abs(answers)) + 1e-300
    misses = np.max(np.abs(network(x) - answers), axis=1)
    near = np.flatnonzero(misses <= 1e-5 * (scale + np.max(np.abs(answers), axis=1)))
    num_unknowns = sum(w.size + len(w) for w in network.weights[first:])
    limit = max(4 * num_unknowns, 1500)
    if len(near) < num_unknowns + 10:
        return network
    if len(near) > limit:
        near = near[np.linspace(0, len(near) - 1, limit).astype(int)]
    x, answers, weights = x[near], answers[near], 1 / bars[near]
    best, best_size = network, _size(network, x, answers, weights)
    for _ in range(num_steps):
        jacobian = _jacobian(best, x, first) * np.repeat(weights, network.output_size)[:, None]
        residual = ((answers - best(x)) * weights[:, None]).ravel()
        columns = np.maximum(np.linalg.norm(jacobian, axis=0), 1e-300)
        jacobian /= columns
        ridge = 1e-9 * np.eye(jacobian.shape[1])
        q, r = np.linalg.qr(np.vstack([jacobian, ridge]))
        step = scipy.linalg.solve_triangular(r, q[: len(residual)].T @ residual) / columns
        trial = _moved(best, step, first)
        size = _size(trial, x, answers, weights)
        if not size < 0.9 * best_size:
            return trial if size < best_size else best
        best, best_size = trial, size
    return best


def _size(network: Network, x, answers, weights) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean(((network(x) - answers) * weights[:, None]) ** 2)))


def _moved(network: Network, step: np.ndarray, first: int) -> Network:
    weights, biases, start = list(network.weights), list(network.biases), 0
    for i in range(first, network.num_layers):
        block = step[start : start + weights[i].size + len(weights[i])].reshape(len(weights[i]), -1)
        weights[i], biases[i] = weights[i] + block[:, :-1], biases[i] + block[:, -1]
        start += block.size
    return Network(weights, biases, network.activations)


def _jacobian(network: Network, x: np.ndarray, first: int) -> np.ndarray:
    """Derivatives of all outputs (point by point) by the rows with bias of the layers from ``first`` on."""
    inputs, h = [], x
    for w, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        inputs.append(h)
        h = np.maximum(h @ w.T + b, 0.0)
    inputs.append(h)
    n, k = len(x), network.output_size
    back = np.broadcast_to(np.eye(k), (n, k, k))
    blocks: list[np.ndarray] = []
    for i in range(network.num_layers - 1, first - 1, -1):
        extended = np.hstack([inputs[i], np.ones((n, 1))])
        blocks.append((back[:, :, :, None] * extended[:, None, None, :]).reshape(n * k, -1))
        if i > first:
            back = (back @ network.weights[i]) * (inputs[i] > 0)[:, None, :]
    return np.hstack(blocks[::-1])
