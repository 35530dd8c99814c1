"""Whitening: inputs N(mean, covariance) brought to N(0, I), and a network brought back.

``u = (x - mean) @ matrix``. The moments are given or estimated from the rows. Directions in which the inputs do not
move are left out; no answer depends on the weights along them, so they come back as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.errors import InputError
from unweave.core.network import Network


@dataclass(frozen=True)
class Whitening:
    """``u = (x - mean) @ matrix`` with ``matrix`` (inputs, directions)."""

    mean: np.ndarray
    matrix: np.ndarray
    origin: str
    """"none", "given" or "estimated"."""

    @staticmethod
    def none(input_size: int) -> Whitening:
        return Whitening(np.zeros(input_size), np.eye(input_size), "none")

    @staticmethod
    def of(mean: np.ndarray, covariance: np.ndarray, origin: str) -> Whitening:
        """The symmetric root of the inverse covariance; a covariance with zero directions loses them."""
        mean, covariance = (
            np.asarray(mean, dtype=np.float64).reshape(-1),
            np.asarray(covariance, dtype=np.float64),
        )
        size = len(mean)
        if covariance.shape != (size, size) or not np.allclose(
            covariance, covariance.T, rtol=1e-6, atol=1e-12
        ):
            raise InputError(
                f"covariance must be symmetric of shape {(size, size)} to fit the mean, got {covariance.shape}"
            )
        if np.any(np.diag(covariance) < 0):
            raise InputError("covariance has a negative variance; give a positive definite matrix")
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(covariance))):
            raise InputError("mean and covariance must be finite numbers")
        scales = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        moves = scales > 0
        inverse = np.where(moves, 1 / np.where(moves, scales, 1.0), 0.0)
        values, vectors = np.linalg.eigh(inverse[:, None] * covariance * inverse)
        if origin == "given" and values[0] < -1e-8:
            raise InputError("covariance has a negative eigenvalue; give a positive definite matrix")
        keep = values > 1e-10
        root = vectors[:, keep] / np.sqrt(values[keep])
        matrix = root @ vectors[:, keep].T if keep.all() else root
        return Whitening(mean, inverse[:, None] * matrix, origin)

    @property
    def num_lost(self) -> int:
        """Input directions in which the data do not move."""
        return self.matrix.shape[0] - self.matrix.shape[1]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x if self.origin == "none" else (x - self.mean) @ self.matrix

    def undo(self, network: Network) -> Network:
        """The same function of the original inputs."""
        if self.origin == "none":
            return network
        weights, biases = list(network.weights), list(network.biases)
        weights[0] = weights[0] @ self.matrix.T
        biases[0] = biases[0] - weights[0] @ self.mean
        return Network(weights, biases, network.activations, network.upper)
