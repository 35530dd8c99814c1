"""A model seen from afar: ``x -> f(scale x) / scale`` behind the same meter.

Far out a relu-like smooth network is piecewise linear but for windows whose width does not grow with the scale. Seen
from there, methods for piecewise-linear functions work at their usual scale of one, and the ledger, the domain and the
memory stay those of the meter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from unweave.core.domains import Domain
from unweave.core.oracle import Oracle
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Meter


@dataclass(frozen=True)
class ScaledDomain:
    """The points x with ``scale x`` in ``domain``; drawn at the scale of one where that has no end."""

    domain: Domain
    scale: float

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        return self.domain.contains(self.scale * x, slack)

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        return self.domain.nearest(self.scale * x, unit) / self.scale

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        if np.isinf(self.reach(input_size)):
            return self.domain.sample(num_points, input_size, rng)
        return self.domain.sample(num_points, input_size, rng) / self.scale

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        if np.isinf(self.reach(input_size)):
            return self.domain.edge(num_points, input_size, rng)
        return self.domain.edge(num_points, input_size, rng) / self.scale

    def reach(self, input_size: int) -> float:
        return self.domain.reach(input_size) / self.scale


class FarView:
    """What a ``Meter`` offers, with inputs and answers in units of ``scale``."""

    meter: Meter
    scale: float
    input_size: int
    output_size: int
    dtype: str
    is_squashed: bool

    def __init__(self, meter: Meter, scale: float):
        self.meter, self.scale = meter, scale
        self.domain: Domain = ScaledDomain(meter.domain, scale)
        self.whole = self.domain
        self.oracle: Oracle = meter.oracle
        self.ledger: Ledger = meter.ledger
        self.input_size, self.output_size = meter.input_size, meter.output_size
        self.dtype, self.is_squashed = meter.dtype, meter.is_squashed

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.meter.stage(name):
            yield

    @contextmanager
    def allow(self, who: str, num_queries: int) -> Iterator[None]:
        with self.meter.allow(who, num_queries):
            yield

    def check_time(self) -> None:
        self.meter.check_time()

    def snap(self, x: np.ndarray) -> np.ndarray:
        return self.meter.snap(self.scale * x) / self.scale

    def ask(self, x: np.ndarray) -> np.ndarray:
        return self.meter.ask(self.scale * np.asarray(x)) / self.scale

    def blur(self, answers: np.ndarray) -> np.ndarray:
        return self.meter.blur(self.scale * answers) / self.scale

    def transcript(self, *stages: str) -> tuple[np.ndarray, np.ndarray]:
        """Questions and answers so far; those asked closer in than a tenth of the scale do not belong to this view."""
        x, answers = self.meter.transcript(*stages)
        far = np.linalg.norm(x, axis=1) >= 0.1 * self.scale
        return x[far] / self.scale, answers[far] / self.scale
