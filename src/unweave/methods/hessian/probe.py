"""What every method on second derivatives begins with: the length over which the network bends, steps of
differences chosen from it and from the accuracy of the answers, base points inside the domain, and the
directions in which the answers vary at all (Algorithm 1 of Fornasier, Klock and Rauchensteiner 2019).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.algebra.active_subspace import estimate_active_subspace
from unweave.core import activations as act
from unweave.evidence.meter import Meter
from unweave.methods.base import Problem
from unweave.probes.derivatives import (
    Differences,
    Scheme,
    estimate_gradients,
    estimate_hessians,
    estimate_length,
)

EXACT_GAP = 300.0
"""A spectrum that ends, rather than decays, falls by more than this from one value to the next."""
MOST_GRADIENTS = 0.6
"""Gradients asked for, per input: a subspace of more directions would save little."""
BENDS = 2.5
"""A unit of slope one bends over about 1/2.5 of its argument."""


FLAT = "Hessians of piecewise linear networks vanish; use method='relu-lines'"


def smooth_activations(problem: Problem) -> tuple[str, ...]:
    """The candidates that have second derivatives; without any the reason is ``FLAT``."""
    return tuple(a for a in problem.activations if act.get(a).smooth and a != "identity")


@dataclass
class HessianProbe:
    """A model under second differences; ``details`` gathers the spectra."""

    meter: Meter
    problem: Problem
    activations: tuple[str, ...]
    scheme: Scheme | None = None
    """None: central differences of exact answers, Richardson's of others."""
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng: np.random.Generator = self.problem.rng("hessians")
        self.exact: bool = self.problem.precision.relative < 1e-12
        self.size: int = self.meter.input_size

    def keep(self, name: str, spectrum: np.ndarray, rank: int) -> None:
        """Put a spectrum and the rank read from it into ``details``."""
        self.details[name] = spectrum
        self.details["ranks"] = {**self.details.get("ranks", {}), name: rank}

    def measure_length(self) -> None:
        points = self.points(10, 1.0)
        cloud = self.points(32, 1.0)
        longest = float(np.sqrt(np.mean(np.var(cloud, axis=0)))) * np.sqrt(self.size) / 2
        with self.meter.stage("length"):
            self.length: float = estimate_length(
                self.meter, self.problem.precision, points, self.rng, longest=longest
            )
        self.unit: float = (
            BENDS * self.length / np.sqrt(self.size)
        )  # spread at which arguments are of order one
        self.details["length"] = self.length

    def points(self, count: int, spread: float) -> np.ndarray:
        """Points of the domain drawn towards its middle; normal with this spread where it has no end."""
        if np.isinf(self.meter.domain.reach(self.size)):
            return spread * self.rng.standard_normal((count, self.size))
        points = self.meter.domain.sample(count, self.size, self.rng)
        return self.middle() + 0.9 * (points - self.middle())

    def inner_points(self, count: int) -> np.ndarray:
        """Points of the domain at which units of ordinary size are not yet saturated."""
        offsets = self.points(count, self.unit) - self.middle()
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        return self.middle() + offsets * np.minimum(1.0, self.unit * np.sqrt(self.size) / lengths)

    def middle(self) -> np.ndarray:
        """The middle of the domain, or the origin where it has no end."""
        if np.isinf(self.meter.domain.reach(self.size)):
            return np.zeros(self.size)
        return self.meter.domain.sample(256, self.size, np.random.default_rng(0)).mean(axis=0)

    def differences(self, num_directions: int) -> Differences:
        length = self.length * np.sqrt(num_directions / self.size)
        scheme = self.scheme or ("central" if self.exact else "richardson")
        return Differences.chosen(scheme, self.problem.precision, length)

    def least_gap(self, floor: float) -> float:
        """How far a spectrum must fall at its end, given where its floor is."""
        return float(np.clip(0.03 / floor, 8.0, EXACT_GAP))

    def active_directions(self) -> np.ndarray:
        """Algorithm 1 with as few gradients as show the dimension; all coordinates when it would save nothing."""
        steps = self.differences(self.size)
        gradients = np.zeros((0, self.size))
        floor = 10 * steps.error(1, self.problem.precision, self.length)
        count = 4
        while self.size >= 6 and len(gradients) + count <= MOST_GRADIENTS * self.size + 2:
            with self.meter.stage("active subspace"):
                found = estimate_gradients(self.meter, self.points(count, 2 * self.unit), steps)
            gradients = np.concatenate([gradients, np.swapaxes(found, 1, 2).reshape(-1, self.size)])
            subspace = estimate_active_subspace(gradients, floor=floor, least_gap=self.least_gap(floor))
            self.keep("gradient_spectrum", subspace.spectrum, subspace.dimension)
            if subspace.dimension < min(len(gradients), self.size) - 1:
                return subspace.basis
            count = max(len(gradients) // 2, 2)
        return np.eye(self.size)

    def hessians(self, points: np.ndarray, basis: np.ndarray) -> np.ndarray:
        with self.meter.stage("hessians"):
            return estimate_hessians(self.meter, points, self.differences(basis.shape[1]), basis)
