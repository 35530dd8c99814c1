"""Convex bodies around points: the outer hull in many directions, and the ellipsoid of their covariance.

Both are cut by the box of the points, and both are domains like any other: a method that draws lines or samples stays
inside them. The hull is what half spaces leave that touch the points: along the coordinates, along the principal axes,
and along random directions; with more of them it comes closer to the convex hull, from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

SLACK = 1e-9
"""Relative to the size of the body: rounding of coordinates does not count as leaving."""
NUM_DIRECTIONS = 200
BISECTIONS = 50


@dataclass(frozen=True)
class Body:
    """All x of a box with ``least <= normals (x - middle) <= most``; without bounds ``|normals (x - middle)| <= 1``."""

    points: np.ndarray = field(repr=False)
    """Some of the points, to draw from."""
    middle: np.ndarray = field(repr=False)
    normals: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    bounds: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        """Which rows lie inside."""
        return self._excess(x) <= SLACK + slack

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        """Points inside on the way to the middle; where a point is inside already, the point itself."""
        out = ~self.contains(x, 0.0)
        y = np.array(x, dtype=np.float64)
        if np.any(out):
            y[out] = self._drawn_in(y[out], shrink=1 - 4 * unit)
        return y

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        """Mixtures of up to as many points as there are inputs, and one more: where the points are."""
        return self._mixtures(num_points, rng)

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        """Points of the boundary, seen from the middle in the direction of mixtures."""
        ways = self._mixtures(num_points, rng) - self.middle
        far = self.middle + ways * (4 / np.maximum(self._size(ways), 1e-12))[:, None]
        return self._drawn_in(far)

    def reach(self, input_size: int) -> float:
        """The largest ball around the origin inside, from below."""
        origin = np.zeros((1, input_size))
        if self._excess(origin)[0] > 0:
            return 0.0
        steps = np.concatenate([self.normals, np.eye(input_size)])
        steps = steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
        ends = self._drawn_in(np.concatenate([steps, -steps]) * 1e6, centre=origin[0])
        return float(np.min(np.linalg.norm(ends, axis=1)))

    def _size(self, ways: np.ndarray) -> np.ndarray:
        """How far steps from the middle go, in units of the body."""
        return self._excess(self.middle + ways) + 1

    def _excess(self, x: np.ndarray) -> np.ndarray:
        """By how much each row leaves the body, relative to its size; at most zero inside."""
        x = np.atleast_2d(x)
        extent = np.maximum(self.high - self.low, 1e-300)
        box = np.max(np.maximum(self.low - x, x - self.high) / extent, axis=1)
        shadows = (x - self.middle) @ self.normals.T
        if self.bounds is None:
            rest = np.linalg.norm(shadows, axis=1) - 1
        else:
            least, most = self.bounds
            rest = np.max(
                np.maximum(least - shadows, shadows - most) / np.maximum(most - least, 1e-300), axis=1
            )
        return np.maximum(box, rest)

    def _drawn_in(self, x: np.ndarray, shrink: float = 1.0, centre: np.ndarray | None = None) -> np.ndarray:
        """The last points inside on the way from the centre to the rows of ``x``, by bisection."""
        start = self.middle if centre is None else centre
        inside, outside = np.zeros(len(x)), np.ones(len(x))
        ways = x - start
        for _ in range(BISECTIONS):
            half = (inside + outside) / 2
            good = self._excess(start + half[:, None] * ways) <= 0
            inside, outside = np.where(good, half, inside), np.where(good, outside, half)
        return start + shrink * inside[:, None] * ways

    def _mixtures(self, num_points: int, rng: np.random.Generator) -> np.ndarray:
        count = min(len(self.points), self.points.shape[1] + 1)
        chosen = rng.integers(len(self.points), size=(num_points, count))
        weights = rng.dirichlet(np.full(count, 1.0 / count), size=num_points)
        mixed = np.einsum("nk,nkd->nd", weights, self.points[chosen])
        return self.nearest(mixed)


def hull(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> Body:
    """The outer hull of points inside their box."""
    middle, axes, spreads = _principal(points)
    rng = np.random.default_rng(0)
    random = rng.standard_normal((NUM_DIRECTIONS, len(axes))) @ (axes / spreads[:, None])
    normals = np.concatenate([axes / spreads[:, None], random])
    shadows = (points - middle) @ normals.T
    return Body(_few(points), middle, normals, low, high, (shadows.min(axis=0), shadows.max(axis=0)))


def ellipsoid(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> Body:
    """The ellipsoid of the points' covariance that holds all of them, inside their box."""
    middle, axes, spreads = _principal(points)
    normals = axes / spreads[:, None]
    farthest = float(np.max(np.linalg.norm((points - middle) @ normals.T, axis=1)))
    return Body(_few(points), middle, normals / max(farthest, 1e-300), low, high)


def _principal(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    middle = points.mean(axis=0)
    _, values, axes = np.linalg.svd(points - middle, full_matrices=False)
    spreads = np.maximum(values / np.sqrt(len(points)), 1e-9 * max(float(values[0]), 1e-300))
    return middle, axes, spreads


def _few(points: np.ndarray, most: int = 4000) -> np.ndarray:
    """Enough of the points to draw from."""
    return points if len(points) <= most else points[:: -(-len(points) // most)]
