"""Second-layer units as far as their zero sets have been followed, over known planes of the first layer.

In the scale in which it enters the outputs a second-layer unit is ``output * relu(z)``, up to what is affine, with
``z(x) = gamma . (x, 1) + sum_i beta_i |u_i(x)|`` and u_i the heights over the planes. A weight is *known* once the zero
set has been followed across its plane; on the planes not crossed yet the unit's *sides* say where the rest holds. So a
trace is exact wherever all of its unknown planes lie on their sides, a convex part of the domain that grows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.units import Unit


@dataclass
class Traces:
    """m units over n planes in d inputs and k outputs."""

    planes: Planes
    gamma: np.ndarray
    """(m, d + 1)"""
    beta: np.ndarray
    """(m, n), 0 where not known."""
    known: np.ndarray
    """(m, n)"""
    sides: np.ndarray
    """(m, n), +-1: where the trace began."""
    output: np.ndarray
    """(m, k), of length one."""
    covariance: np.ndarray
    """(m, d + 1 + n, d + 1 + n) of (gamma, beta)."""
    beta_error: np.ndarray
    """(m, n) standard errors of the weights as they were measured at crossings; infinite where they were not."""
    turn: np.ndarray
    """(m,) standard error of the direction among the outputs."""
    seed: np.ndarray
    """(m,) the kink each began at."""

    def __len__(self) -> int:
        return len(self.gamma)

    @staticmethod
    def none(planes: Planes, num_outputs: int) -> Traces:
        n, d = planes.normals.shape
        wide, empty = np.zeros((0, n)), np.zeros(0)
        return Traces(
            planes,
            np.zeros((0, d + 1)),
            wide,
            wide.astype(bool),
            wide,
            np.zeros((0, num_outputs)),
            np.zeros((0, d + 1 + n, d + 1 + n)),
            wide,
            empty,
            empty.astype(int),
        )

    @property
    def ridges(self) -> np.ndarray:
        return np.hstack([self.planes.normals, self.planes.offsets[:, None]])

    def take(self, rows: np.ndarray) -> Traces:
        return Traces(
            self.planes,
            self.gamma[rows],
            self.beta[rows],
            self.known[rows],
            self.sides[rows],
            self.output[rows],
            self.covariance[rows],
            self.beta_error[rows],
            self.turn[rows],
            self.seed[rows],
        )

    def join(self, other: Traces) -> Traces:
        """With those of another over the same planes."""
        parts = (
            (getattr(self, part.name), getattr(other, part.name))
            for part in fields(self)
            if part.name != "planes"
        )
        return Traces(self.planes, *(np.concatenate(pair) for pair in parts))

    def begin(
        self,
        x: np.ndarray,
        facets: np.ndarray,
        outputs: np.ndarray,
        errors: np.ndarray,
        place_errors: np.ndarray,
        seeds: np.ndarray,
    ) -> Traces:
        """With new traces at kinks ``x`` whose facets are known; nothing is crossed yet.

        ``errors`` of an entry of the facet's gradient, ``place_errors`` of its value at ``x``.
        """
        sides = np.where(self.planes.heights(x) > 0, 1.0, -1.0)
        d, n = x.shape[1], len(self.planes)
        turn = np.concatenate([np.broadcast_to(np.eye(d), (len(x), d, d)), -x[:, None, :]], axis=1)
        covariance = np.zeros((len(x), d + 1 + n, d + 1 + n))
        covariance[:, : d + 1, : d + 1] = errors[:, None, None] ** 2 * turn @ np.swapaxes(turn, 1, 2)
        covariance[:, d, d] += place_errors**2
        return Traces(
            self.planes,
            np.vstack([self.gamma, facets]),
            np.vstack([self.beta, np.zeros_like(sides)]),
            np.vstack([self.known, np.zeros(sides.shape, dtype=bool)]),
            np.vstack([self.sides, sides]),
            np.vstack([self.output, outputs]),
            np.concatenate([self.covariance, covariance]),
            np.vstack([self.beta_error, np.full(sides.shape, np.inf)]),
            np.append(self.turn, errors / np.linalg.norm(facets[:, :-1], axis=1)),
            np.append(self.seed, seeds),
        )

    def over(self, planes: Planes, x: np.ndarray) -> Traces:
        """The same traces over these planes, the last of which are new; ``x`` (m, d) where they began."""
        sides = np.where(planes.heights(x) > 0, 1.0, -1.0)
        old, more = self.known.shape[1], len(planes) - self.known.shape[1]
        sides[:, :old] = self.sides
        wide = np.zeros((len(self), more))
        size = self.gamma.shape[1] + len(planes)
        covariance = np.zeros((len(self), size, size))
        covariance[:, : size - more, : size - more] = self.covariance
        return Traces(
            planes,
            self.gamma,
            np.hstack([self.beta, wide]),
            np.hstack([self.known, wide.astype(bool)]),
            sides,
            self.output,
            covariance,
            np.hstack([self.beta_error, wide + np.inf]),
            self.turn,
            self.seed,
        )

    def values(self, x: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """(points, m) values of the units' pre-activations."""
        return x @ self.gamma[:, :-1].T + self.gamma[:, -1] + np.abs(heights) @ self.beta.T

    def facets(self, units: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """(p, d + 1) affine functions that the numbered units follow in cells of these signs."""
        return self.gamma[units] + (self.beta[units] * signs) @ self.ridges

    def holds(self, signs: np.ndarray) -> np.ndarray:
        """(points, m) whether each unit's value is known in cells of these signs."""
        strange = signs @ (self.sides * ~self.known).T
        return strange >= np.sum(~self.known, axis=1) - 0.5

    def spread(self, units: np.ndarray, x: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Standard errors of the numbered units' values at points, one each."""
        return self._spread(units, np.hstack([x, np.ones((len(x), 1)), np.abs(heights)]))

    def spread_along(self, units: np.ndarray, v: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """The same of their slopes along directions ``v`` (p, d), in cells of these signs."""
        slopes = signs * (v @ self.planes.normals.T)
        return self._spread(units, np.hstack([v, np.zeros((len(v), 1)), slopes]))

    def _spread(self, units: np.ndarray, features: np.ndarray) -> np.ndarray:
        found = np.zeros(len(features))
        for j in np.unique(units):
            rows = np.flatnonzero(units == j)
            part = features[rows]
            found[rows] = np.sqrt(np.maximum(np.einsum("np,np->n", part @ self.covariance[j], part), 0.0))
        return found

    def cross(self, unit: int, plane: int, beta: float, error: float) -> None:
        """A weight that was measured at the border of what the trace knew."""
        moved = self.sides[unit, plane] * self.ridges[plane]
        self.gamma[unit] -= beta * moved
        change = np.zeros(self.covariance.shape[1])
        change[: len(moved)], change[len(moved) + plane] = -moved, 1.0
        self.covariance[unit] += error**2 * np.outer(change, change)
        self.beta[unit, plane], self.beta_error[unit, plane] = beta, error
        self.known[unit, plane] = True

    def units(self, members: list[np.ndarray]) -> list[Unit]:
        """In the form that networks are put together from."""
        return [
            Unit(
                self.beta[j],
                self.gamma[j],
                self.known[j],
                self.known[j],
                self.sides[j],
                self.output[j],
                members[j],
                0.0,
            )
            for j in range(len(self))
        ]
