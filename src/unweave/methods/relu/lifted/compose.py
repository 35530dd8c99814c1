"""From a ridge sum to a network that is the model inside a bounded domain.

What is linear beside the units is carried by as few always active units as its rank. A unit keeps its sign beyond
planes that its zero set never meets; the size of such a weight shows nowhere in the domain.
"""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.lifted.assemble import Assembly, largest_value, low_rank
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

EPS = float(np.finfo(float).eps)


def compose(
    point: RidgeSum, sides: np.ndarray, x: np.ndarray, y: np.ndarray, domain: Domain, *, least: float = 1e-9
) -> Assembly:
    """The network; ``sides`` (n,) the active side of each plane, answers ``y`` to ``x`` for the scales of both.

    ``least``: singular values of the affine rests, relative to the largest, up to which they are nothing.
    """
    (m, n), d = point.beta.shape, x.shape[1]
    gamma, beta, outputs = point.gamma, point.beta, point.output
    normals, offsets1 = point.rows[:, :-1], point.rows[:, -1]
    half, tilt, constant = np.split(point.above, [n, n + d])
    # |u| = 2 relu(s u) - s u
    e, constant = 2 * half, constant[0] - (sides * offsets1) @ half
    tilt = tilt - (sides[:, None] * normals).T @ half
    rest = gamma[:, :d] - (beta * sides) @ normals
    offsets = gamma[:, d] - (beta * sides) @ offsets1
    reach = np.std(x, axis=0) + 1e-300
    scale = np.concatenate(
        [1 / np.linalg.norm(gamma[:, :d] * reach, axis=1), 1 / (np.std(y, axis=0) + 1e-300)]
    )
    linear = np.concatenate([rest, tilt.T]) * reach * scale[:, None]
    rows, shares = low_rank(linear, 0.0, least)
    rows, shares = rows / reach, shares / scale[:, None]
    height = 1.1 * largest_value(domain, rows) + 1.0 if len(rows) else np.zeros(0)
    weights1 = np.vstack([sides[:, None] * normals, rows])
    biases1 = np.append(sides * offsets1, height)
    weights2 = np.hstack([2 * beta, shares[:m]])
    biases2 = offsets - shares[:m] @ height
    above = np.vstack([e, shares[m:].T])
    constant = constant - shares[m:] @ height
    features = np.maximum(x @ weights1.T + biases1, 0.0)
    size = np.sqrt(np.mean(features**2, axis=0)) + 1e-300
    tops, loads = low_rank((above * size[:, None]).T, 1e-9 * float(np.std(y)))
    tops = tops / size
    lift = 1.5 * np.max(np.abs(features @ tops.T), axis=0) + 1.0 if len(tops) else np.zeros(0)
    weights3 = np.hstack([outputs.T, loads])
    network = Network(
        [weights1, np.vstack([weights2, tops]), weights3],
        [biases1, np.append(biases2, lift), constant - loads @ lift],
        ["relu", "relu", "identity"],
    )
    return Assembly(network, 0.0, (len(rows), len(tops)), (True, True))


def evaluation_error(network: Network, x: np.ndarray) -> np.ndarray:
    """Rounding (n,) of the sums of a relu network itself: four last digits of all that is added up."""
    h, size = x, np.abs(x)
    for number, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        h = h @ w.T + b
        size = size @ np.abs(w).T + np.abs(b)
        if number < network.num_layers - 1:
            size = size * (h > 0)
            h = np.maximum(h, 0.0)
    return 4 * EPS * np.max(size, axis=1)
