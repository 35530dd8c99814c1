"""Hermite tensors of one hidden layer of relu units in closed form: what infinitely many samples would give.

For ``f(x) = sum_i a_i relu(w_i.x + b_i)`` with unit w_i and x ~ N(0, I), ``T_k = E[f He_k] = sum_i c_k(i) w_i^k`` with
``c_0 = a (b N(b) + n(b))``, ``c_1 = a N(b)`` and ``c_k = (-1)^k a He_{k-2}(b) n(b)`` from k = 2 on (Lemma 3.5 of
Awasthi, Tang and Vijayaraghavan 2021); n and N are the standard normal density and distribution. Each is the
derivative of the one before: ``d c_k / d b = c_{k+1}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from unweave.algebra.symmetric import powers
from unweave.core.errors import InputError
from unweave.core.network import Network


@dataclass(frozen=True)
class ReluUnits:
    """``f(x) = offset + sum_i a_i relu(w_i.x + b_i)`` with unit rows w_i."""

    directions: np.ndarray = field(repr=False)
    """(m, d), unit rows."""
    biases: np.ndarray
    """(m,)"""
    weights: np.ndarray
    """(m,), a_i."""
    offset: float = 0.0

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def input_size(self) -> int:
        return self.directions.shape[1]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values (n,) at rows x (n, d)."""
        return np.maximum(x @ self.directions.T + self.biases, 0.0) @ self.weights + self.offset

    def network(self) -> Network:
        return Network(
            [self.directions, self.weights[None]],
            [self.biases, np.array([self.offset])],
            ["relu", "identity"],
        )

    @staticmethod
    def of(network: Network) -> ReluUnits:
        """The units of a network with one hidden layer of relus and one output, norms moved to the output."""
        if network.activations != ("relu", "identity") or network.output_size != 1:
            raise InputError(
                f"{network.describe()}: closed forms are for one hidden layer of relus, one output"
            )
        rows, biases = network.weights[0], network.biases[0]
        norms = np.linalg.norm(rows, axis=1)
        live = norms > 0
        constant = network.weights[1][0][~live] @ np.maximum(biases[~live], 0.0)
        rows, biases, norms = rows[live], biases[live], norms[live]
        return ReluUnits(
            rows / norms[:, None],
            biases / norms,
            network.weights[1][0][live] * norms,
            float(network.biases[1][0] + constant),
        )


def relu_coefficients(biases: np.ndarray, order: int) -> np.ndarray:
    """``c_0 .. c_order`` (order + 1, m) of ``relu(z + b)``."""
    density = np.exp(-0.5 * biases**2) / np.sqrt(2 * np.pi)
    found = np.empty((max(order, 1) + 1, len(biases)))
    found[0], found[1] = biases * ndtr(biases) + density, ndtr(biases)
    lower, hermite = np.zeros_like(biases), np.ones_like(biases)
    for k in range(2, order + 1):
        found[k] = (-1) ** k * hermite * density
        lower, hermite = hermite, biases * hermite - (k - 2) * lower
    return found[: order + 1]


def population_tensor(units: ReluUnits, k: int) -> np.ndarray:
    """``T_k`` in packed form."""
    coefficients = units.weights * relu_coefficients(units.biases, k)[k]
    return coefficients @ powers(units.directions, k) + (units.offset if k == 0 else 0.0)


def population_tensors(units: ReluUnits, order: int) -> tuple[np.ndarray, ...]:
    """``T_0 .. T_order`` in packed form."""
    return tuple(population_tensor(units, k) for k in range(order + 1))
