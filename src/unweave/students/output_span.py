"""Fewer outputs than a model has: its answers in the span of the few that move independently.

A network whose last hidden layer has m units answers with ``mean + B z``, z in at most m directions, however many
outputs there are. The same network with ``B' W`` for its last layer answers with z, and from it the whole is
``B (B' W)``: nothing is lost as long as no answer leaves the span. Students have m instead of thousands of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.network import Network

EPS = float(np.finfo(float).eps)
SAFETY = 5.0
"""How far above the errors of the answers a direction must stand out."""


@dataclass(frozen=True)
class OutputSpan:
    """Answers ``mean + z @ basis.T``; the columns of ``basis`` are orthonormal."""

    mean: np.ndarray
    basis: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, noise: float = 0.0, most: int | None = None) -> OutputSpan:
        """The directions in which answers (n, outputs) move by more than their noise, the first ``most`` of them."""
        mean = y.mean(axis=0)
        _, sizes, rows = np.linalg.svd(y - mean, full_matrices=False)
        error = max(noise, EPS * float(np.max(np.abs(y), initial=0.0)))
        rank = int(np.sum(sizes > SAFETY * error * (np.sqrt(y.shape[0]) + np.sqrt(y.shape[1]))))
        return cls(mean, rows[: max(rank if most is None else min(rank, most), 1)].T)

    @property
    def size(self) -> int:
        return self.basis.shape[1]

    def inside(self, y: np.ndarray) -> np.ndarray:
        """Answers (n, outputs) as (n, size)."""
        return (y - self.mean) @ self.basis

    def outside(self, z: np.ndarray) -> np.ndarray:
        """Answers (n, size) with all outputs."""
        return self.mean + z @ self.basis.T

    def lift(self, network: Network) -> Network:
        """The network with all outputs, of one that answers inside."""
        weights, biases = list(network.weights), list(network.biases)
        return Network(
            [*weights[:-1], self.basis @ weights[-1]],
            [*biases[:-1], self.mean + self.basis @ biases[-1]],
            network.activations,
        )
