"""How much of a relu network another one reproduces: the function, and every unit whose output shows.

What no query shows does not count against it: units that never switch (only sums of them show), entries that are never
active together with their unit. A unit's output on points contains exactly the rest: it is right if it is the same up
to a factor.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network

SHARE = 1e-3
"""Share of the points below which nothing is visible, and on which a function may differ and be called right."""


def spread_points(num: int, d: int, seed: int, spread: float = 1.2) -> np.ndarray:
    """Points at all scales around the origin."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((num, d)) * np.exp(spread * rng.standard_normal((num, 1)))


def wrong_share(reference: Network, other: Network, x: np.ndarray, tolerance: float = 1e-8) -> float:
    """The share of the points at which the outputs differ by more than ``tolerance`` of their typical size."""
    size = 1e-3 + np.linalg.norm(x, axis=1)
    values = reference(x)
    errors = np.max(np.abs(values - other(x)), axis=1) / size
    typical = np.median(np.max(np.abs(values), axis=1) / size)
    return float(np.mean(~(errors <= tolerance * typical)))


def visible_error(reference: Network, other: Network, x: np.ndarray) -> float:
    """The largest relative error of the output of a unit that switches, on all but a share of the points.

    Infinite where the networks have different numbers of layers or such a unit is missing.
    """
    if len(reference.hidden) != len(other.hidden):
        return float("inf")
    worst, size = 0.0, 1e-3 + np.linalg.norm(x, axis=1, keepdims=True)
    for outputs, theirs, on in zip(
        _outputs(reference, x), _outputs(other, x), _shares(reference, x), strict=True
    ):
        a, b = _unit_columns(outputs / size), _unit_columns(theirs / size)
        match = np.argmax(a.T @ b, axis=1) if b.shape[1] else np.zeros(0, dtype=int)
        for unit in np.flatnonzero((on > SHARE) & (on < 1 - SHARE)):
            if not b.shape[1]:
                return float("inf")
            apart = np.abs(a[:, unit] - b[:, match[unit]])
            typical = np.median(np.abs(a[:, unit][a[:, unit] != 0]))
            worst = max(worst, float(np.quantile(apart, 1 - SHARE) / typical))
    return worst


def _outputs(network: Network, x: np.ndarray) -> list[np.ndarray]:
    h, out = x, []
    layers = zip(network.weights, network.biases, network.hidden_activations, strict=False)
    for w, b, name in layers:
        h = act.get(name)(h @ w.T + b)
        out.append(h)
    return out


def _shares(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """How often each unit is on."""
    below = [x, *_outputs(network, x)]
    rows = zip(below, network.weights[: len(network.hidden)], network.biases, strict=False)
    return [np.mean(h @ w.T + b > 0, axis=0) for h, w, b in rows]


def _unit_columns(a: np.ndarray) -> np.ndarray:
    return a / np.maximum(np.linalg.norm(a, axis=0), 1e-300)
