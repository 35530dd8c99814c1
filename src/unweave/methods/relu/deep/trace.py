"""A unit above known layers as far as its zero set has been followed: a row in their features, known in part.

At the kink where it begins the row is known in as many directions as there are inputs. Every border that the zero set
is followed across adds one: the share that the features changing there have in the unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NEW = 1e-5
"""A direction closer than this to what is known brings nothing new."""


@dataclass
class Trace:
    """``row`` (weights, bias) with ``gauge . row = 1`` and ``system row = 0``."""

    seed: int
    places: np.ndarray
    """Points of the zero set around which the row is known; the first is where it began."""
    gauge: np.ndarray
    system: np.ndarray
    errors: np.ndarray
    span: np.ndarray
    """Orthonormal directions (p + 1, r) in which the row is known, and those in which it is not."""
    null: np.ndarray
    crossed: int = 0
    failures: dict[int, int] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    """Borders beyond which it should show, and did not."""
    dead_ends: list[tuple[int, np.ndarray]] = field(default_factory=list)
    """Borders and places at which it was asked for in vain."""
    row: np.ndarray = field(init=False)
    root: np.ndarray = field(init=False)
    """The covariance of the row is ``root root'``."""

    def __post_init__(self) -> None:
        self.solve()

    @staticmethod
    def begin(
        seed: int, x: np.ndarray, h: np.ndarray, jac: np.ndarray, normal: np.ndarray, errors: np.ndarray
    ) -> Trace:
        """From one kink: ``jac' row`` is its normal, and the row vanishes there."""
        d = len(normal)
        normals = np.hstack([jac.T, np.zeros((d, 1))])
        gauge = normal @ normals
        place = np.append(h, 1.0)
        both = np.vstack([normals, place])
        _, s, vt = np.linalg.svd(both / np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-300))
        rank = int(np.sum(s > NEW * s[0]))
        system = np.vstack([normals - normal[:, None] * gauge, place])
        return Trace(seed, x[None], gauge, system, errors, vt[:rank].T, vt[rank:].T)

    @property
    def num_failures(self) -> int:
        return sum(self.failures.values())

    @property
    def seen(self) -> np.ndarray:
        """Which entries of the row are known."""
        return np.linalg.norm(self.null, axis=1) <= 0.1 * NEW

    def is_known(self, w: np.ndarray) -> np.ndarray:
        """Whether the row is known in the directions (n, p + 1)."""
        size = np.maximum(np.linalg.norm(w, axis=1), 1e-300)
        return np.linalg.norm(w @ self.null, axis=1) <= 10 * NEW * size

    def learn(self, w: np.ndarray, value: float, error: float) -> None:
        """One more equation ``w . row = value``; ``solve`` takes it in."""
        self.system = np.vstack([self.system, w - value * self.gauge])
        self.errors = np.append(self.errors, error)
        self.crossed += 1
        inside = self.null.T @ w
        if np.linalg.norm(inside) > 10 * NEW * np.linalg.norm(w):
            turned = self.null @ np.linalg.svd(inside[None])[2].T
            self.span, self.null = np.column_stack([self.span, turned[:, 0]]), turned[:, 1:]

    def obey(self, system: np.ndarray, errors: np.ndarray) -> None:
        """Equations ``system row = 0``, in units of which the errors are; the row that obeys them."""
        self.system, self.errors = np.vstack([self.system, system]), np.append(self.errors, errors)
        size = np.linalg.norm(system, axis=1)
        told = (system @ self.null)[size > 0] / size[size > 0, None]
        _, s, vt = np.linalg.svd(told)
        rank = int(np.sum(s > 10 * NEW))
        turned = self.null @ vt.T
        self.span, self.null = np.column_stack([self.span, turned[:, :rank]]), turned[:, rank:]
        self.solve()

    def solve(self) -> None:
        """The row by least squares from all equations, each in units of its error."""
        gauge = self.span.T @ self.gauge
        size = np.linalg.norm(gauge)
        free = np.linalg.svd(gauge[None])[2][1:].T
        a = (self.system / self.errors[:, None]) @ self.span
        start = gauge / size**2
        if not free.shape[1]:  # one direction alone is known
            self.row, self.root = self.span @ start, np.zeros((len(self.span), 0))
            return
        scale = np.maximum(np.linalg.norm(a @ free, axis=0), 1e-300)
        u, s, vt = np.linalg.svd((a @ free) / scale, full_matrices=False)
        s = np.maximum(s, 1e-13 * s[0])
        step = (vt.T @ ((u.T @ -(a @ start)) / s)) / scale
        self.row = self.span @ (start + free @ step)
        self.root = self.span @ (free @ ((vt.T / s) / scale[:, None]))

    def spread(self, h: np.ndarray) -> np.ndarray:
        """Standard errors of ``h . row`` for rows of features with a one."""
        return np.linalg.norm(h @ self.root, axis=1)
