"""The last digits of a relu network: from questions already asked, or, of a large one, from points all over.

Questions along lines and around kinks determine a small network well enough for a factor of all its parameters. Beyond
that size steps are conjugate gradients, which need points that show every parameter alike; with several outputs these
are few beside what the network has cost.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.beside import points_beside
from unweave.probes.inquiry import Inquiry
from unweave.solve.gauss_newton import MOST_COUPLED, polish_weighted

LARGE = 3000
"""Parameters from which on two answers a parameter must do instead of four: the cost of a step is cubic."""
OUTLIER = 1e3
"""Points that miss by so many times the median say nothing: a unit not known yet, or a window, disturbs them."""
FAR_OFF = 1e5
"""The same where all units are known; some may have rows with fewer digits."""


EACH = 2.0
"""Answers a parameter, from all over the domain, for a large network."""
MANY_OUTPUTS = 4
"""Outputs from which on these are half a question a parameter or less."""
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


def is_large(network: Network) -> bool:
    """Whether no factor of all parameters is to be had."""
    return network.num_parameters > MOST_COUPLED


def wants_spread(network: Network) -> bool:
    """Whether points all over are needed, or few beside what the network has cost."""
    return is_large(network) or network.output_size >= MANY_OUTPUTS


def refine_spread(network: Network, inquiry: Inquiry, rng: np.random.Generator) -> Network:
    """The network after Gauss-Newton steps on fresh answers that show every parameter."""
    num_points = int(EACH * network.num_parameters / network.output_size)
    with inquiry.meter.stage("polish"):
        x = _spread_points(network, inquiry, num_points, rng)
        rare = _rare_points(network, x, inquiry, rng)
        x = np.concatenate([x[: max(num_points - len(rare), num_points // 2)], rare])
        answers = inquiry.meter.ask(x)
    bars = inquiry.bars(x, answers)
    misses = np.max(np.abs(network(x) - answers), axis=1) / bars
    sound = misses <= FAR_OFF * max(float(np.median(misses)), 1.0)
    return polish_weighted(network, x[sound], answers[sound], bars[sound], max_steps=3, patience=1).network


def _spread_points(
    network: Network, inquiry: Inquiry, num_points: int, rng: np.random.Generator
) -> np.ndarray:
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
            base = seen[known[:, unit] == side] if lacking > 0 else seen[:0]
            if len(base):
                points = points_beside(base, TRIES * lacking, inquiry.meter.domain, rng)
                points = points[_sides(network, points)[layer][:, unit] == side]
                base = base[rng.permutation(len(base))[: TRIES * lacking]]
                points = np.concatenate([points[:lacking], _telling(network, layer, points, base)])
                found.append(points)
                num_left -= lacking
    return np.concatenate(found)


def _telling(network: Network, layer: int, fresh: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Of these points those that show what a unit of ``layer`` reads from each unit below best."""
    x = np.concatenate([fresh, seen])
    h = x
    for w, b in zip(network.weights[:layer], network.biases, strict=False):
        h = np.maximum(h @ w.T + b, 0.0)
    shares = np.abs(h) / (1e-300 + np.linalg.norm(h, axis=1, keepdims=True))
    best = np.argsort(-shares, axis=0)[:TELLING]
    return x[np.unique(best[shares[best, np.arange(h.shape[1])] > 0])]


def _sides(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """Which units of each hidden layer are on at the rows of ``x``."""
    sides, h = [], x
    for w, b in zip(network.weights[:-1], network.biases, strict=False):
        z = h @ w.T + b
        sides.append(z > 0)
        h = np.maximum(z, 0.0)
    return sides


def _bending_size(network: Network, points: np.ndarray) -> float:
    """The least multiple of ``points`` on which nearly as many units, of all layers, change side as on any."""
    lengths = np.maximum(np.linalg.norm(network.weights[0], axis=1), 1e-300)
    sizes = max(float(np.median(np.abs(network.biases[0]) / lengths)), 1e-300) * LADDER
    counts = np.zeros(len(sizes))
    for i, size in enumerate(sizes):
        active = np.concatenate([np.mean(on, axis=0) for on in _sides(network, size * points)])
        counts[i] = np.sum((active > OFTEN) & (active < 1 - OFTEN))
    return float(sizes[np.argmax(counts >= MOSTLY * counts.max())])


def refine_network(
    network: Network, x: np.ndarray, answers: np.ndarray, bars: np.ndarray, *, num_steps: int = 4
) -> Network:
    """The network after Gauss-Newton steps on the points it already explains roughly."""
    scale = np.median(np.abs(answers)) + 1e-300
    misses = np.max(np.abs(network(x) - answers), axis=1)
    near = np.flatnonzero(misses <= 1e-5 * (scale + np.max(np.abs(answers), axis=1)))
    num_unknowns = network.num_parameters
    each = 4 if num_unknowns <= LARGE else 2
    limit = max(each * num_unknowns // network.output_size, 4000 * each // 4)
    if len(near) < num_unknowns + 10:
        return network
    if len(near) > limit:
        near = near[np.linspace(0, len(near) - 1, limit).astype(int)]
    x, answers, bars = x[near], answers[near], bars[near]
    for _ in range(2):
        sizes = np.max(np.abs(network(x) - answers), axis=1) / bars
        sound = sizes <= OUTLIER * max(float(np.median(sizes)), 1.0)
        network = polish_weighted(
            network, x[sound], answers[sound], bars[sound], max_steps=num_steps, patience=2
        ).network
        if sound.all():
            break
    return network
