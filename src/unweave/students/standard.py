"""Standard coordinates for fitting: inputs whitened, outputs centred and scaled, and the exact way back.

Starts and damping are made for inputs of unit spread in every direction. Directions in which the data do not
move at all (constant or redundant columns) are left out; the weights along them come back as zero and are
reported as undetermined, because no answer depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.network import Network


@dataclass(frozen=True)
class Standard:
    """``u = (x - mean) @ whiten`` and ``v = (y - centre) / spread``."""

    mean: np.ndarray
    whiten: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, *, common: bool = False) -> Standard:
        """From data; ``common`` gives all outputs one scale (right for noisy answers)."""
        mean, centre = x.mean(axis=0), y.mean(axis=0)
        deviation = x.std(axis=0)
        moves = deviation > 1e-12 * max(float(np.max(np.abs(x), initial=0.0)), 1e-300)
        scaled = np.where(moves, 1 / np.where(moves, deviation, 1.0), 0.0)
        correlation = (x - mean) * scaled
        values, vectors = np.linalg.eigh(correlation.T @ correlation / len(x))
        if moves.all() and values[0] > 0.2:  # nearly uncorrelated: keep the coordinates
            whiten = np.diag(scaled)
        else:
            keep = values > 1e-10
            whiten = scaled[:, None] * vectors[:, keep] / np.sqrt(values[keep])
        spread = y.std(axis=0)
        if common:
            spread = np.full_like(spread, np.sqrt(np.mean(spread**2)))
        return Standard(mean, whiten, centre, np.where(spread > 0, spread, 1.0))

    @property
    def num_lost(self) -> int:
        """Input directions in which the data do not move."""
        return self.whiten.shape[0] - self.whiten.shape[1]

    def inputs(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) @ self.whiten

    def outputs(self, y: np.ndarray) -> np.ndarray:
        return (y - self.centre) / self.spread

    def rows(self, weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
        """A first layer of the original coordinates in these, biases in the last column."""
        turned = np.linalg.lstsq(self.whiten, weights.T, rcond=None)[0].T
        return np.column_stack([turned, biases + weights @ self.mean])

    def apply(self, network: Network) -> Network:
        """A network of the original coordinates in these."""
        weights, biases = list(network.weights), list(network.biases)
        rows = self.rows(weights[0], biases[0])
        weights[0], biases[0] = rows[:, :-1], rows[:, -1]
        biases[-1] = (biases[-1] - self.centre) / self.spread
        weights[-1] = weights[-1] / self.spread[:, None]
        return Network(weights, biases, network.activations)

    def undo(self, network: Network) -> Network:
        """The same function in the original coordinates."""
        weights, biases = list(network.weights), list(network.biases)
        weights[0] = weights[0] @ self.whiten.T
        biases[0] = biases[0] - weights[0] @ self.mean
        weights[-1] = self.spread[:, None] * weights[-1]
        biases[-1] = self.centre + self.spread * biases[-1]
        return Network(weights, biases, network.activations)
