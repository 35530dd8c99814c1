"""Where a unit could hide that a part of the domain does not show, and where answers still tell. No questions.

In front of a squashing a network is found in a part of the domain, and farther out most answers saturate. Not all:
between a point where an output is too large and one where it is too small lies a point where it is not. The farther
out the two are, the more often a unit is on whose hyperplane the part does not meet. So such points are taken at
several scales, some at random and the others where the features of a hidden layer are at the rim of what they can be,
as ``rare_patterns`` has it.
"""

from __future__ import annotations

import numpy as np

from unweave.certificates.rare_patterns import MOST_WORK
from unweave.core import activations as act
from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.core.outputs import ROWWISE, Squashing

NUM_ENDS, NUM_HALVINGS = 2000, 24
SCALES = -0.5, 2.0
"""Powers of ten, in radii of the part, between which the points lie in a domain without end."""
NUM_RANDOM, EACH, EACH_DEEP = 48, 2, 5
"""Points at random, and for each unit of one hidden layer and of several."""


def count_beyond(network: Network) -> int:
    """How many points are worth asking: none of a smooth network, whose units all show everywhere."""
    if not network.hidden or not network.is_piecewise_linear:
        return 0
    return NUM_RANDOM + (EACH if len(network.hidden) == 1 else EACH_DEEP) * sum(network.hidden)


def points_beyond(
    network: Network, view: Squashing, part: Domain, domain: Domain, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Up to ``count`` points of ``domain`` at which an output in front of ``view`` is as it is in ``part``."""
    size = sum(w.size for w in network.weights)
    num = int(np.clip(MOST_WORK / (NUM_HALVINGS * size), count, NUM_ENDS))
    d = network.input_size
    inside = network(part.sample(num, d, rng))
    inside = _margins(inside[np.isfinite(view.errors(view.restore(inside), 0.0, 1.0))], view)
    if not len(inside) or not count:
        return np.zeros((0, d))
    low, high = (_ends(num, d, part, domain, rng) for _ in range(2))
    rows, output = np.arange(num), rng.integers(inside.shape[1], size=num)
    level = inside[rng.integers(len(inside), size=num), output]

    def above(x: np.ndarray) -> np.ndarray:
        return _margins(network(x), view)[rows, output] > level

    first, second = above(low), above(high)
    low, high = np.where(first[:, None], high, low), np.where(first[:, None], low, high)
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        beyond = above(middle)[:, None]
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    x = np.where(rng.uniform(size=(num, 1)) < 0.5, low, high)[first != second]
    x = x[domain.contains(x)]
    return x[_choose(network, x, count, rng)]


def _ends(num: int, d: int, part: Domain, domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """Points from inside the part to far beyond it; of a bounded domain all over it and its edge."""
    if not np.isinf(domain.reach(d)):
        half = num // 2
        return rng.permutation(np.concatenate([domain.sample(half, d, rng), domain.edge(num - half, d, rng)]))
    x = rng.standard_normal((num, d))
    radii = part.reach(d) * 10 ** rng.uniform(*SCALES, size=(num, 1))
    return radii * x / np.linalg.norm(x, axis=1, keepdims=True)


def _margins(z: np.ndarray, view: Squashing) -> np.ndarray:
    """What decides whether an answer tells: the outputs; of a softmax how far each is above all others."""
    if view.name not in ROWWISE or z.shape[1] == 1:
        return z
    ordered = np.sort(z, axis=1)
    return z - np.where(z == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])


def _choose(network: Network, x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Some of ``x`` at random, then the extremes of random directions of the features of each hidden layer in turn."""
    if len(x) <= count:
        return np.arange(len(x))
    chosen = list(rng.permutation(len(x))[:NUM_RANDOM])
    layers = _features(network, x)
    for turn in range(count - len(chosen)):
        h = layers[turn % len(layers)]
        heights = h @ rng.standard_normal(h.shape[1])
        heights[chosen] = -np.inf
        chosen.append(int(np.argmax(heights)))
    return np.array(chosen)


def _features(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """The inputs and what every hidden layer makes of them, each row with length one."""
    layers, h = [x], x
    for w, b, name in zip(network.weights, network.biases, network.hidden_activations, strict=False):
        h = act.get(name)(h @ w.T + b)
        layers.append(h)
    return [h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-300) for h in layers]
