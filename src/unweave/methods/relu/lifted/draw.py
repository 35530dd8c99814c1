"""Lines on which kinks are looked for: across everything, through corners of a box, and through given points."""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Box, Domain
from unweave.probes.lines import Lines, draw_lines, line_through

NEAR = 14.0
"""How far a line through an unbounded domain is followed, in units of its own scale."""

INSIDE = 1e-3
"""How far from the end of a box, relative to its length, lines along its edges run."""


def fair_lines(
    domain: Domain, num_lines: int, d: int, rng: np.random.Generator, gradients: np.ndarray | None = None
) -> Lines:
    """Random lines. In a box of many inputs uniform points keep to its middle: half of the lines join corners.

    The corners are those to which measured ``gradients`` (n, d) point, a different one at either end.
    """
    if isinstance(domain, Box) and gradients is not None and len(gradients) and d > 3:
        corner = corner_lines(domain, num_lines - num_lines // 2, d, rng, gradients)
        plain = fair_lines(domain, num_lines // 2, d, rng)
        return Lines(*(np.concatenate(pair) for pair in zip(_fields(corner), _fields(plain), strict=True)))
    if isinstance(domain, Box):
        low, high = np.broadcast_to(domain.low, d), np.broadcast_to(domain.high, d)
        ends = low + (high - low) * rng.beta(0.6, 0.6, size=(2, num_lines, d))
        return lines_through(domain, ends[0], ends[1])
    lines = draw_lines(domain, num_lines, d, rng)
    return shorten(lines) if np.isinf(domain.reach(d)) else lines


def corner_lines(
    domain: Box, num_lines: int, d: int, rng: np.random.Generator, gradients: np.ndarray
) -> Lines:
    """Lines between corners to which two random mixtures of gradients point, one there and one back."""
    low, high = np.broadcast_to(domain.low, d), np.broadcast_to(domain.high, d)
    ends = []
    for side in (1.0, -1.0):
        mixed = rng.standard_normal((num_lines, min(len(gradients), 3)))
        chosen = gradients[rng.integers(len(gradients), size=mixed.shape)]
        push = side * np.einsum("ng,ngd->nd", np.abs(mixed), chosen)
        place = np.where(push > 0, 0.999, 0.001)
        free = rng.uniform(size=place.shape) < 0.15
        place = np.where(free, rng.uniform(0.001, 0.999, size=place.shape), place)
        ends.append(low + (high - low) * place)
    return lines_through(domain, ends[0], ends[1])


def lines_through(domain: Domain, starts: np.ndarray, goals: np.ndarray) -> Lines:
    """Lines through pairs of points, not followed to the end of an unbounded domain."""
    apart = np.linalg.norm(goals - starts, axis=1)
    keep = apart > 1e-9 * (1 + np.linalg.norm(starts, axis=1))
    lines = line_through(domain, starts[keep], goals[keep])
    return shorten(lines) if np.isinf(domain.reach(starts.shape[1])) else lines


def ways_between(domain: Domain, starts: np.ndarray, goals: np.ndarray) -> Lines:
    """Lines through pairs of points, followed only so far beyond either as they lie apart."""
    lines = lines_through(domain, starts, goals)
    apart = np.linalg.norm(goals - starts, axis=1)
    apart = apart[apart > 1e-9 * (1 + np.linalg.norm(starts, axis=1))]
    low, high = np.maximum(lines.low, -apart), np.minimum(lines.high, 2 * apart)
    return Lines(lines.origins, lines.directions, low, high, np.maximum(high, -low))


def box_faces(low: np.ndarray, high: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points on faces of a box of all dimensions: each coordinate at an end, more often than not, or anywhere."""
    d = len(low)
    ends = rng.integers(2, size=(count, d)).astype(float)
    free = rng.uniform(size=(count, d)) < rng.choice([0.1, 0.3, 0.6], size=(count, 1))
    return low + (high - low) * np.where(free, rng.uniform(size=(count, d)), ends)


def edge_lines(
    domain: Domain, low: np.ndarray, high: np.ndarray, most: int, rng: np.random.Generator
) -> Lines:
    """Lines along edges of a box, a little inside: all of them, or so many."""
    d = len(low)
    if d * 2 ** (d - 1) <= most:
        bits = np.array(np.meshgrid(*[[0.0, 1.0]] * d)).reshape(d, -1).T
        pairs = [(bit, axis) for axis in range(d) for bit in bits if bit[axis] == 0]
        starts, axes = np.array([bit for bit, _ in pairs]), np.array([axis for _, axis in pairs])
    else:
        starts, axes = rng.integers(2, size=(most, d)).astype(float), rng.integers(d, size=most)
    rows = np.arange(len(axes))
    starts = np.clip(starts, INSIDE, 1 - INSIDE)
    goals = starts.copy()
    starts[rows, axes], goals[rows, axes] = INSIDE, 1 - INSIDE
    return lines_through(domain, low + (high - low) * starts, low + (high - low) * goals)


def spread_out(x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of ``x`` that lie far apart, at most ``count``: a random one, then always the farthest from those taken."""
    chosen = [int(rng.integers(len(x)))]
    apart = np.linalg.norm(x - x[chosen[0]], axis=1)
    while len(chosen) < min(count, len(x)):
        chosen.append(int(np.argmax(apart * rng.uniform(0.5, 1, size=len(x)))))
        apart = np.minimum(apart, np.linalg.norm(x - x[chosen[-1]], axis=1))
    return np.array(chosen)


def shorten(lines: Lines) -> Lines:
    return Lines(lines.origins, lines.directions, -NEAR * lines.scale, NEAR * lines.scale, lines.scale)


def _fields(lines: Lines):
    return lines.origins, lines.directions, lines.low, lines.high, lines.scale
