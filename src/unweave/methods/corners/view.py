"""A box as the cube [-1, 1]^d: what a model answers there beyond a network known so far, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import gradient_norms

MARGIN = 0.1
"""Places keep this distance from the faces, which leaves room for differences."""
MOST_SUSPECTS = 40
SINGLE = float(np.finfo(np.float32).eps)
STRANGE = 10.0
"""Multiple of the noise from which on an answer is not that of the network known; in single precision, whose rounding
varies from place to place, multiple of the error bar of that answer."""


@dataclass
class Cube:
    """Questions ``middle + half u``; answers are divided by ``scale``, ``noise`` is relative to it."""

    meter: Meter
    middle: np.ndarray
    half: np.ndarray
    scale: float
    noise: float
    rounded: bool = False
    """Whether answers are those of single precision."""
    known: Network | None = None
    """Taken off the answers; a function of u, relative to ``scale``."""
    _asked: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @staticmethod
    def over(meter: Meter, box: Box, precision: Precision) -> Cube:
        low, high = np.broadcast_to(box.low, meter.input_size), np.broadcast_to(box.high, meter.input_size)
        scale = max(precision.scale, 1e-300)
        rounded = precision.kind != "float64"
        return Cube(meter, (low + high) / 2, (high - low) / 2, scale, precision.noise / scale, rounded)

    @property
    def size(self) -> int:
        return len(self.half)

    def ask(self, u: np.ndarray) -> np.ndarray:
        """Answers beyond what is known."""
        answers = self.answer(u)
        return answers if self.known is None else answers - self.known(u)

    def answer(self, u: np.ndarray) -> np.ndarray:
        """Answers as they are."""
        answers = self.meter.ask(self.meter.snap(self.outside(u))) / self.scale
        self._asked.append((u, answers))
        return answers

    def strangeness(self, u: np.ndarray) -> np.ndarray:
        """How far answers are from those of the network known, in multiples of their error."""
        return self._strangeness(u, self.ask(u))

    def _strangeness(self, u: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """What is left of answers, in multiples of their error."""
        errors = np.full(rest.shape, self.noise)
        if self.rounded and self.known is not None:
            far = np.linalg.norm(self.outside(u) / self.half, axis=1)[:, None] * gradient_norms(self.known, u)
            errors = np.hypot(errors, SINGLE * (far + np.abs(self.known(u))))
        return np.max(np.abs(rest) / errors, axis=1)

    def suspects(self) -> np.ndarray:
        """Places asked before at which answers differ most from those of the network known."""
        return np.clip(self.strange_answers(MOST_SUSPECTS, 0.0)[0], MARGIN - 1, 1 - MARGIN)

    def strange_answers(self, most: float, least: float = STRANGE) -> tuple[np.ndarray, np.ndarray]:
        """Places with their answers that differ most from those of the network known, by a multiple of their error."""
        u, answers = (np.concatenate(part) for part in zip(*self._asked, strict=True))
        rest = self._strangeness(u, answers - (0.0 if self.known is None else self.known(u)))
        order = np.argsort(-rest)[: int(most)]
        order = order[rest[order] > least]
        return u[order], answers[order]

    def some_answers(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Some of the places asked before, with their answers."""
        u, answers = (np.concatenate(part) for part in zip(*self._asked, strict=True))
        chosen = rng.choice(len(u), min(count, len(u)), replace=False)
        return u[chosen], answers[chosen]

    def outside(self, u: np.ndarray) -> np.ndarray:
        """The questions themselves."""
        return self.meter.domain.nearest(self.middle + self.half * u)

    @property
    def step(self) -> float:
        """Of a first difference along one input: rounding and bend cost about the same."""
        return min(3 * float(np.cbrt(self.noise)), MARGIN / 2)

    def slopes(self, u: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Derivatives (n, outputs, k) at places u (n, d) along directions (k, d), by central differences.

        Units move as far along one of a few directions of their span as along one of as many inputs.
        """
        lengths = np.linalg.norm(directions, axis=1)
        steps = self.step * np.sqrt(len(directions) / self.size) / lengths
        moves = steps[:, None] * directions
        points = np.concatenate([u[:, None] + moves, u[:, None] - moves], axis=1).reshape(-1, self.size)
        answers = self.ask(points).reshape(len(u), 2, len(directions), -1)
        return np.swapaxes((answers[:, 0] - answers[:, 1]) / (2 * steps[:, None]), 1, 2)

    def rounding(self, num_directions: int) -> float:
        """What rounding makes of a derivative along one of so many unit directions."""
        return self.noise / (self.step * float(np.sqrt(num_directions / self.size)))
