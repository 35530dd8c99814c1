"""A box as the cube [-1, 1]^d: what a model answers there beyond a network known so far, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

MARGIN = 0.1
"""Places keep this distance from the faces, which leaves room for differences."""
MOST_SUSPECTS = 40
STRANGE = 10.0
"""Multiple of the noise from which on an answer is not that of the network known."""


@dataclass
class Cube:
    """Questions ``middle + half u``; answers are divided by ``scale``, ``noise`` is relative to it."""

    meter: Meter
    middle: np.ndarray
    half: np.ndarray
    scale: float
    noise: float
    known: Network | None = None
    """Taken off the answers; a function of u, relative to ``scale``."""
    _asked: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @staticmethod
    def over(meter: Meter, box: Box, precision: Precision) -> Cube:
        low, high = np.broadcast_to(box.low, meter.input_size), np.broadcast_to(box.high, meter.input_size)
        scale = max(precision.scale, 1e-300)
        return Cube(meter, (low + high) / 2, (high - low) / 2, scale, precision.noise / scale)

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

    def is_strange(self, u: np.ndarray) -> np.ndarray:
        """Whether answers are not those of the network known."""
        return np.max(np.abs(self.ask(u)), axis=1) > STRANGE * self.noise

    def suspects(self) -> np.ndarray:
        """Places asked before at which answers differ most from those of the network known."""
        return np.clip(self.strange_answers(MOST_SUSPECTS, 0.0)[0], MARGIN - 1, 1 - MARGIN)

    def strange_answers(self, most: float, least: float = STRANGE) -> tuple[np.ndarray, np.ndarray]:
        """Places with their answers that differ most from those of the network known, by a multiple of the noise."""
        u, answers = (np.concatenate(part) for part in zip(*self._asked, strict=True))
        rest = np.max(np.abs(answers - (0.0 if self.known is None else self.known(u))), axis=1)
        order = np.argsort(-rest)[: int(most)]
        order = order[rest[order] > least * self.noise]
        return u[order], answers[order]

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
