"""Where a search for one hidden layer asks: lines across the domain, points that would betray a missing unit, corners.

A unit that is on in a corner only shows on lines between corners, and in the corners to which the gradients of what is
known point; a unit that is rarely on wants answers of its rarer side.
"""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Box, Domain
from unweave.methods.relu.one_layer.ridge_fit import Ridges
from unweave.probes.lines import Lines, draw_lines, line_through

LOOSE = 0.15
"""Share of the coordinates in which a line from a corner does not lead to the opposite one."""
TRIES, FREE = 4, (0.05, 0.15, 0.4, 0.8)
"""Points drawn for each one that is asked around a corner, and the shares of their coordinates that lie anywhere."""
CORNER = 0.02
"""How far inside a box its corners are asked, so that there is room for gradients."""


def draw_ways(domain: Domain, count: int, d: int, rng: np.random.Generator) -> Lines:
    """Lines across the domain; in a box half of them between corners that are nearly opposite."""
    plain = draw_lines(domain, count, d, rng)
    if not isinstance(domain, Box) or d < 2:
        return plain
    low, high = np.broadcast_to(domain.low, d), np.broadcast_to(domain.high, d)
    ends = uneven_corners(domain, count, d, rng, inside=1e-3)
    # never through the very middle, where planes without a bias meet
    elsewhere = domain.sample(count, d, rng)
    goals = np.where(rng.uniform(size=(count, d)) < LOOSE, elsewhere, low + high - ends)
    corners = line_through(domain, ends, goals)
    return plain.take(np.arange(count // 2)).join(corners.take(np.arange(count - count // 2)))


def spread_points(domain: Domain, ridges: Ridges, count: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Points of the domain and its edge; around the planes where it has no end, some of them farther out."""
    if np.isfinite(domain.reach(d)):
        third = count // 3
        return np.concatenate([domain.sample(count - third, d, rng), domain.edge(third, d, rng)])
    ridges = ridges.balanced()
    away = np.median(np.abs(ridges.rows[:, -1])) if ridges.num_units else 1.0
    radii = (1.0 + away) * 10 ** rng.choice([0.0, 0.0, 0.3, 1.0], size=(count, 1))
    return radii * rng.standard_normal((count, d))


def telling_corners(box: Box, ridges: Ridges, count: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Corners of a box to which gradients of mixtures of the outputs point, and a few loosened from them."""
    low, high = np.broadcast_to(box.low, d), np.broadcast_to(box.high, d)
    x = box.sample(count, d, rng)
    mixtures = rng.standard_normal((count, ridges.columns.shape[1]))
    if ridges.num_units:  # half of them: one unit as far as it goes
        single = rng.integers(ridges.num_units, size=count)
        towards = rng.choice([-1.0, 1.0], size=count)
    low, high = low + CORNER * (high - low), high - CORNER * (high - low)
    for _ in range(3):
        active = ridges.heights(x) > 0
        push = ((mixtures @ ridges.columns.T) * active) @ ridges.rows[:, :-1]
        push += mixtures @ ridges.affine[:, :-1]
        if ridges.num_units:
            own = towards[:, None] * ridges.rows[single, :-1]
            push = np.where((np.arange(count) % 2 == 0)[:, None], own, push)
        x = np.where(push > 0, high, low)
    loose = rng.uniform(size=x.shape) < rng.choice([0.0, 0.1, 0.3], size=(count, 1))
    return np.where(loose, rng.uniform(low, high, size=x.shape), x)


def uneven_corners(
    box: Box, count: int, d: int, rng: np.random.Generator, inside: float = CORNER
) -> np.ndarray:
    """Corners of a box, each with a share of high coordinates of its own.

    Of corners drawn evenly hardly any shows a unit whose weights lean to one sign and that is on, or off, only where
    few coordinates are high, or nearly all.
    """
    low, high = np.broadcast_to(box.low, d), np.broadcast_to(box.high, d)
    up = rng.uniform(size=(count, d)) < rng.uniform(size=(count, 1))
    return low + (high - low) * np.where(up, 1 - inside, inside)


def farthest_reach(box: Box, row: np.ndarray, above: bool) -> float:
    """How far a unit's argument gets from zero in a box, on one side."""
    low, high = np.broadcast_to(box.low, len(row) - 1), np.broadcast_to(box.high, len(row) - 1)
    sign = 1.0 if above else -1.0
    return float(sign * row[-1] + np.sum(np.maximum(sign * row[:-1] * low, sign * row[:-1] * high)))


def extreme_points(
    box: Box, row: np.ndarray, above: bool, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Points on one side of a unit around the corner that lies farthest from its plane, up to ``count``."""
    d = len(row) - 1
    low, high = np.broadcast_to(box.low, d), np.broadcast_to(box.high, d)
    corner = np.where((row[:-1] > 0) == above, high, low)
    free = rng.uniform(size=(TRIES * count, d)) < rng.choice(FREE, size=(TRIES * count, 1))
    x = np.where(free, rng.uniform(low, high, size=free.shape), corner)
    return x[(x @ row[:-1] + row[-1] > 0) == above][:count]


def rarer_sides(ridges: Ridges, x: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Every unit's row, and whether it is more rarely on than off at these points."""
    on = ridges.heights(x) > 0
    return [(row, bool(share < 0.5)) for row, share in zip(ridges.rows, on.mean(axis=0), strict=True)]
