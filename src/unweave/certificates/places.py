"""Where a missing or wrong unit would show: directions, zero sets and closely spaced lines. Nothing is asked here."""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.evidence.meter import Meter

FAR = 1e3
"""Radius of far directions in an unbounded domain, in units of the network's own scale."""


def own_scale(network: Network) -> float:
    """How far from the origin the network's first-layer hyperplanes lie, at least one."""
    lengths = np.linalg.norm(network.weights[0], axis=1)
    distances = np.abs(network.biases[0]) / np.where(lengths > 0, lengths, np.inf)
    return 1.0 + float(np.median(distances)) if len(distances) else 1.0


def mixed_radii(count: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Two thirds far out, where biases do not matter, the rest from a third of the scale to a hundred times it."""
    radii = np.full(count, FAR * scale)
    near = np.arange(count) % 3 == 0
    radii[near] = scale * 10 ** rng.uniform(-0.5, 2, size=int(near.sum()))
    return radii


def ordinary_points(meter: Meter, bounded: bool, rng: np.random.Generator, count: int = 64) -> np.ndarray:
    """Ordinary points: of a bounded domain, or standard normal."""
    d = meter.input_size
    return meter.domain.sample(count, d, rng) if bounded else rng.standard_normal((count, d))


def far_points(meter: Meter, count: int, scale: float, bounded: bool, rng: np.random.Generator) -> np.ndarray:
    """Random directions far out; in a bounded domain corners and points of the edge."""
    d = meter.input_size
    if not bounded:
        x = rng.standard_normal((count, d))
        return FAR * scale * x / np.linalg.norm(x, axis=1, keepdims=True)
    corners = rng.choice([-1e6, 1e6], size=(3 * count // 4, d)) * np.std(
        meter.domain.sample(64, d, rng), axis=0
    )
    return np.concatenate([meter.domain.nearest(corners), meter.domain.edge(count - len(corners), d, rng)])


def points_on_planes(
    network: Network, meter: Meter, count: int, scale: float, bounded: bool, rng: np.random.Generator
) -> np.ndarray:
    """Points on the zero sets of all hidden units in turn, where random segments cross them; some of them far out."""
    d, num_segments = meter.input_size, 128
    ends = ordinary_points(meter, bounded, rng, 2 * num_segments)
    if not bounded:
        ends = 1.5 * scale * ends * np.where(np.arange(len(ends)) % 3 == 0, FAR, 1.0)[:, None]
    start, end = ends[:num_segments], ends[num_segments:]
    per_layer = [len(w) for w in network.weights[: len(network.hidden)]]
    which = rng.permutation(sum(per_layer))[np.arange(count) % sum(per_layer)]
    found, first = [np.zeros((0, d))], 0
    for layer, width in enumerate(per_layer):
        turns = np.flatnonzero((which >= first) & (which < first + width))
        units = which[turns] - first
        first += width
        below = _Arguments(network, layer)
        crossing = (below(start) * below(end) < 0)[:, units]
        seen = crossing.any(axis=0)
        # The same unit's turns take different segments.
        segments = np.argmax(crossing * rng.uniform(0.1, 1, size=crossing.shape), axis=0)[seen]
        found.append(below.zeros(start[segments], end[segments], units[seen]))
    return np.concatenate(found)


class _Arguments:
    """What the units of one hidden layer are applied to."""

    def __init__(self, network: Network, layer: int):
        names = (*network.activations[:layer], "identity")
        self._below = Network(network.weights[: layer + 1], network.biases[: layer + 1], names)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self._below(x)

    def zeros(
        self, start: np.ndarray, end: np.ndarray, units: np.ndarray, num_halvings: int = 14
    ) -> np.ndarray:
        """Where the argument of each of ``units`` vanishes between two points at which its signs differ."""
        rows = np.arange(len(units))
        low, high = np.zeros(len(units)), np.ones(len(units))
        left, right = self(start)[rows, units], self(end)[rows, units]
        for step in range(num_halvings + 4):
            secant = low + (high - low) * left / np.where(left == right, 1.0, left - right)
            t = secant if step == 0 or step >= num_halvings else (low + high) / 2
            value = self(start + t[:, None] * (end - start))[rows, units]
            same = np.sign(value) == np.sign(left)
            low, left = np.where(same, t, low), np.where(same, value, left)
            high, right = np.where(same, high, t), np.where(same, right, value)
        t = np.where(np.abs(left) < np.abs(right), low, high)
        return start + t[:, None] * (end - start)


def points_on_lines(
    meter: Meter, count: int, rare: np.ndarray, scale: float, bounded: bool, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Equally spaced points on a line near the origin and on one between two rare patterns; their spacing."""
    d = meter.input_size
    if bounded:
        ends = [_through_middle(meter, rng)]
    else:
        middle = 0.3 * scale * rng.standard_normal(d) / np.sqrt(d)
        direction = rng.standard_normal(d)
        direction *= 1.5 * scale / np.linalg.norm(direction)
        ends = [np.stack([middle - direction, middle + direction])]
    if len(rare) >= 2:
        ends.append(rare[rng.choice(len(rare), size=2, replace=False)])
    shares = [count - count // 3, count // 3] if len(ends) == 2 else [count]
    parts = []
    for (a, b), share in zip(ends, shares, strict=True):
        t = (np.arange(share) + rng.uniform()) / max(share, 1)
        parts.append(a + t[:, None] * (b - a))
    spacing = float(np.linalg.norm(ends[0][1] - ends[0][0])) / max(shares[0], 1)
    return np.concatenate(parts), spacing


def _through_middle(meter: Meter, rng: np.random.Generator) -> np.ndarray:
    """The ends of a line through the middle of a bounded domain."""
    points = meter.domain.sample(64, meter.input_size, rng)
    middle, direction = (
        points.mean(axis=0),
        1e3 * np.std(points, axis=0) * rng.standard_normal(meter.input_size),
    )
    return meter.domain.nearest(np.stack([middle - direction, middle + direction]))
