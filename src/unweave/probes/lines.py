"""Straight lines through a domain, parametrised by an angle so that far reaches cost no more than near ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.columns import Columns
from unweave.core.domains import Domain

FAR = 1e5
"""How far out, in units of the line's own scale, a line through an unbounded domain is followed."""


@dataclass(frozen=True)
class Lines(Columns):
    """``origins + t * directions`` for ``low <= t <= high``; directions have length one.

    The angle ``atan(t / scale)`` spreads the queries: halving it separates kinks near and far alike.
    """

    origins: np.ndarray
    directions: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scale: np.ndarray

    def rounding(self, line: np.ndarray, t: np.ndarray) -> np.ndarray:
        """How far rounding moves the points: near the origin of space, by what is far along their line."""
        return 2e-16 * (np.linalg.norm(self.origins, axis=1)[line] + np.abs(t))

    def points(self, lines: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The points at parameters ``t`` of the numbered ``lines``."""
        return self.origins[lines] + t[:, None] * self.directions[lines]

    def middle(self, line: int, a: float, b: float) -> float:
        """The parameter halfway between ``a`` and ``b`` in angle."""
        scale = self.scale[line]
        return float(scale * np.tan((np.arctan(a / scale) + np.arctan(b / scale)) / 2))


def draw_lines(
    domain: Domain,
    num_lines: int,
    input_size: int,
    rng: np.random.Generator,
    through: np.ndarray | None = None,
) -> Lines:
    """Random lines, clipped to the domain; with ``through`` each passes through that point of its own."""
    origins = domain.sample(num_lines, input_size, rng) if through is None else through
    bounded = not bool(np.all(domain.contains(FAR * rng.standard_normal((4, input_size)))))
    if bounded:
        towards = domain.edge(num_lines, input_size, rng) - origins
    else:
        origins = rng.standard_normal((num_lines, input_size)) if through is None else origins
        towards = rng.standard_normal((num_lines, input_size))
    directions = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    if not bounded:
        scale = np.maximum(np.linalg.norm(origins, axis=1), 1.0)
        return Lines(origins, directions, -FAR * scale, FAR * scale, scale)
    high = clip_to_domain(domain, origins, directions)
    low = -clip_to_domain(domain, origins, -directions)
    scale = np.maximum(np.maximum(high, -low), 1e-300)
    return Lines(origins, directions, low, high, scale)


def line_through(domain: Domain, starts: np.ndarray, goals: np.ndarray) -> Lines:
    """The lines through pairs of points, clipped to the domain."""
    directions = goals - starts
    apart = np.linalg.norm(directions, axis=1)
    directions = directions / apart[:, None]
    if np.all(domain.contains(FAR * directions)):
        scale = np.maximum(np.linalg.norm(starts, axis=1), apart)
        return Lines(starts, directions, -FAR * scale, FAR * scale, scale)
    high = clip_to_domain(domain, starts, directions)
    low = -clip_to_domain(domain, starts, -directions)
    return Lines(starts, directions, low, high, np.maximum(np.maximum(high, -low), 1e-300))


def clip_to_domain(domain: Domain, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """How far each ray from ``origins`` may go before it leaves a convex bounded domain."""
    reach = np.full(len(origins), 1.0)
    for _ in range(200):
        inside = domain.contains(origins + reach[:, None] * directions)
        if not inside.any():
            break
        reach = np.where(inside, 2 * reach, reach)
    inner, outer = np.zeros(len(origins)), reach
    for _ in range(60):
        middle = (inner + outer) / 2
        inside = domain.contains(origins + middle[:, None] * directions)
        inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
    return inner * (1 - 1e-9)
