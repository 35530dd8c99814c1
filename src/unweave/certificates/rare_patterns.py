"""Where a unit could hide: the activation patterns that a recovered network makes rare. No questions, only arithmetic.

A unit above a hidden layer sees its features h(x). It is rarely active when ``c . (h, 1) > 0`` holds only at the rim of
what the features can be, so such a rim is looked for: a vector c is drawn as the units of a network are (a random one,
or a row of the network's own next layer, disturbed), moved until only one point in a hundred to one in ten thousand
has ``c . (h, 1) > 0``, and followed uphill from the best of many points to where ``c . (h, 1) / |(h, 1)|`` is largest.
A rare unit of a trained network is active on some 1 % of such points and on 0.01 % of random directions.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.domains import Domain
from unweave.core.network import Network

NUM_STEPS = 30
NUM_STARTS = 2000
MOST_WORK = 4e9
"""Multiplications that a search may take; a large network starts from fewer points."""


def find_rare_patterns(
    network: Network,
    num_points: int,
    domain: Domain,
    radii: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Points (num_points, d) of ``domain`` where a unit above one of the hidden layers could be active and no other.

    ``radii``, one a point, keep the points of an unbounded domain at these lengths.
    """
    parts = []
    layers = np.arange(num_points) % max(len(network.hidden) - 1, 1)
    for layer in np.unique(layers):
        chosen = layers == layer
        held = None if radii is None else radii[chosen]
        parts.append(_extremes(network, int(layer) + 1, int(chosen.sum()), domain, held, rng))
    return np.concatenate(parts) if parts else np.zeros((0, network.input_size))


def _extremes(
    network: Network,
    depth: int,
    count: int,
    domain: Domain,
    radii: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """For each of ``count`` guesses of a rare unit above ``depth`` hidden layers, where it is most active."""
    size = sum(w.size for w in network.weights[:depth])
    num_starts = int(np.clip(MOST_WORK / (8 * size + count), 50, NUM_STARTS))
    starts = domain.sample(num_starts, network.input_size, rng)
    features = _normalised(_features(network, depth, starts))
    if radii is not None:
        starts = starts / np.linalg.norm(starts, axis=1, keepdims=True)
        scales = np.exp(np.median(np.log(radii)))
        features = _normalised(_features(network, depth, scales * starts))
    guesses = _rare_units(network, depth, count, features, rng)
    best = np.argmax(features @ guesses.T, axis=0)
    x = starts[best] if radii is None else radii[:, None] * starts[best]
    num_steps = int(np.clip(MOST_WORK / (6.0 * size * max(count, 1)), 5, NUM_STEPS))
    return _climb(network, depth, x, guesses, domain, radii, num_steps)


def _rare_units(
    network: Network, depth: int, count: int, features: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (count, width + 1) whose units are active on few of ``features`` (n, width + 1), which have length one."""
    width = features.shape[1]
    guesses = rng.standard_normal((count, width)) / np.sqrt(width)
    rows = np.hstack([network.weights[depth], network.biases[depth][:, None]])
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows[lengths > 0] / lengths[lengths > 0, None]
    half = count // 2
    if len(rows):
        chosen = rows[rng.integers(len(rows), size=half)]
        guesses[:half] = chosen + rng.uniform(0, 1.5, size=(half, 1)) * guesses[:half]
    typical = features.mean(axis=0)
    along = np.maximum(features @ typical, 1e-12)
    values = (features @ guesses.T) / along[:, None]
    shares = np.minimum(1 - 10 ** rng.uniform(-4, -2, size=count), 1 - 1 / len(features))
    shift = np.array([np.quantile(values[:, i], shares[i]) for i in range(count)])
    return guesses - shift[:, None] * typical


def _climb(
    network: Network,
    depth: int,
    x: np.ndarray,
    guesses: np.ndarray,
    domain: Domain,
    radii: np.ndarray | None,
    num_steps: int,
) -> np.ndarray:
    """Steps of falling length along the gradient of ``c . h / |h|``; the best point of each path."""
    reach = np.std(x, axis=0) if radii is None else radii[:, None]
    best, height = x, np.full(len(x), -np.inf)
    for step in range(num_steps):
        arguments = _arguments(network, depth, x)
        h = np.hstack([act.get(network.activations[depth - 1])(arguments[-1]), np.ones((len(x), 1))])
        length = np.linalg.norm(h, axis=1)
        value = np.einsum("nw,nw->n", guesses, h) / length
        better = value > height
        best, height = np.where(better[:, None], x, best), np.where(better, value, height)
        back = (guesses - (value / length)[:, None] * h)[:, :-1] / length[:, None]
        for layer in reversed(range(depth)):
            slopes = act.get(network.activations[layer]).first(arguments[layer], np)
            back = (back * slopes) @ network.weights[layer]
        uphill = back * reach if radii is None else _tangent(back, x)
        uphill /= np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), 1e-300)
        pace = (0.6 if radii is not None else 1.5) * 0.9**step
        x = x + pace * reach * uphill
        x = domain.nearest(x) if radii is None else _with_lengths(x, radii)
    return best


def _tangent(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The part of each row of ``v`` that is orthogonal to ``x``."""
    return v - x * (np.einsum("nd,nd->n", v, x) / np.einsum("nd,nd->n", x, x))[:, None]


def _with_lengths(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return (lengths / np.linalg.norm(x, axis=1))[:, None] * x


def _arguments(network: Network, depth: int, x: np.ndarray) -> list[np.ndarray]:
    """What the units of the first ``depth`` layers are applied to."""
    h, arguments = x, []
    for w, b, name in zip(
        network.weights[:depth], network.biases[:depth], network.activations[:depth], strict=True
    ):
        arguments.append(h @ w.T + b)
        h = act.get(name)(arguments[-1])
    return arguments


def _features(network: Network, depth: int, x: np.ndarray) -> np.ndarray:
    return act.get(network.activations[depth - 1])(_arguments(network, depth, x)[-1])


def _normalised(h: np.ndarray) -> np.ndarray:
    """(h, 1) with length one."""
    h = np.hstack([h, np.ones((len(h), 1))])
    return h / np.linalg.norm(h, axis=1, keepdims=True)
