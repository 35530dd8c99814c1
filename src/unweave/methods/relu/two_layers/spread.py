"""Points that show every parameter of a relu network known to some digits: all over, and where units are rarely on.

Points are drawn at the sizes at which units of all layers change side. A unit that few of them find on one of its
sides gets points there, beside questions asked before; weights between two units that hardly ever are on together are
shown by the questions that found them.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.beside import points_beside
from unweave.probes.inquiry import Inquiry

SPREADS = (1.0, 3.0, 10.0)
"""Sizes of these points in an unbounded domain, in units of the least at which units of all layers change side."""
LADDER = 2.0 ** np.arange(-4, 20)
"""Sizes that are tried for it, in units of the distance of the first layer's hyperplanes from the origin."""
ROWS, MOST_RARE = 2.0, 0.5
"""Points wanted on either side of a unit, for each of its weights, and the share of all points these may be."""
TELLING = 2
"""Points at which each unit below is strongest, among these."""
TRIES = 8
"""Points looked at for each that lies on the side wanted."""
OFTEN, MOSTLY = 0.05, 0.9
"""A unit changes side where this share of points lies on either; of the most units that do, this share must."""


def spread_points(
    network: Network, inquiry: Inquiry, num_points: int, rng: np.random.Generator
) -> np.ndarray:
    """About so many points to ask; beside them some that have been asked already."""
    x = _anywhere(network, inquiry, num_points, rng)
    rare = _rare_points(network, x, inquiry, rng)
    x = np.concatenate([x[: max(num_points - len(rare), num_points // 2)], rare])
    return np.concatenate([x, _together(network, x, inquiry)])


def _anywhere(network: Network, inquiry: Inquiry, num_points: int, rng: np.random.Generator) -> np.ndarray:
    """Points of a bounded domain; elsewhere at the scale of the first layer's hyperplanes."""
    domain, d = inquiry.meter.domain, inquiry.input_size
    if np.isfinite(domain.reach(d)):
        return domain.sample(num_points, d, rng)
    points = rng.standard_normal((num_points, d))
    return _bending_size(network, points[:300]) * rng.choice(SPREADS, size=(num_points, 1)) * points


def _rare_points(network: Network, x: np.ndarray, inquiry: Inquiry, rng: np.random.Generator) -> np.ndarray:
    """Points on a side of a unit on which few of ``x`` lie, too few for its row; with what the unit reads on."""
    seen = inquiry.meter.transcript()[0]
    found, num_left = [x[:0]], int(MOST_RARE * len(x))
    for layer, (at, known) in enumerate(zip(_sides(network, x), _sides(network, seen), strict=True)):
        wanted = int(ROWS * (network.weights[layer].shape[1] + 1))
        for unit, side in product(range(at.shape[1]), (True, False)):
            lacking = min(wanted - int(np.sum(at[:, unit] == side)), num_left)
            there = np.flatnonzero(known[:, unit] == side) if lacking > 0 else []
            if len(there):
                base = seen[rng.permutation(there)[: TRIES * lacking]]
                points = points_beside(base, TRIES * lacking, inquiry.meter.domain, rng)
                points = points[_sides(network, points)[layer][:, unit] == side]
                points = np.concatenate([points[:lacking], _telling(network, layer, points, base)])
                found.append(points)
                num_left -= lacking
    return np.concatenate(found)


def _telling(network: Network, layer: int, fresh: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Of these points those that show what a unit of ``layer`` reads from each unit below best."""
    x = np.concatenate([fresh, seen])
    shares = _shares(x if layer == 0 else _outputs(network, x)[layer - 1])
    best = np.argsort(-shares, axis=0)[:TELLING]
    return x[np.unique(best[shares[best, np.arange(shares.shape[1])] > 0])]


def _together(network: Network, x: np.ndarray, inquiry: Inquiry) -> np.ndarray:
    """Points asked already at which two units, one above the other, are on that hardly ever are on at ``x``."""
    seen = inquiry.meter.transcript()[0]
    at, known = _outputs(network, x), _outputs(network, seen)
    chosen: set[int] = set()
    for layer in range(1, len(at)):
        counts = (at[layer] > 0).T.astype(float) @ (at[layer - 1] > 0)
        shares = _shares(known[layer - 1])
        for unit, below in np.argwhere(counts < TELLING):
            strength = np.where(known[layer][:, unit] > 0, shares[:, below], 0.0)
            best = np.argsort(-strength)[:TELLING]
            chosen.update(best[strength[best] > 0].tolist())
    return seen[sorted(chosen)]


def _shares(h: np.ndarray) -> np.ndarray:
    return np.abs(h) / (1e-300 + np.linalg.norm(h, axis=1, keepdims=True))


def _outputs(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """Of each hidden layer at the rows of ``x``."""
    outputs, h = [], x
    for w, b in zip(network.weights[:-1], network.biases, strict=False):
        h = np.maximum(h @ w.T + b, 0.0)
        outputs.append(h)
    return outputs


def _sides(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """Which units of each hidden layer are on."""
    return [h > 0 for h in _outputs(network, x)]


def _bending_size(network: Network, points: np.ndarray) -> float:
    """The least multiple of ``points`` on which nearly as many units, of all layers, change side as on any."""
    lengths = np.maximum(np.linalg.norm(network.weights[0], axis=1), 1e-300)
    sizes = max(float(np.median(np.abs(network.biases[0]) / lengths)), 1e-300) * LADDER
    counts = np.zeros(len(sizes))
    for i, size in enumerate(sizes):
        active = np.concatenate([np.mean(on, axis=0) for on in _sides(network, size * points)])
        counts[i] = np.sum((active > OFTEN) & (active < 1 - OFTEN))
    return float(sizes[np.argmax(counts >= MOSTLY * counts.max())])
