"""The truncated Hermite risk ``R = sum_k |T_k(theta) - T_k|_F^2 / k!`` of relu units, as least squares.

Over all k it is the squared loss ``E (f_theta - f)^2`` itself (Proposition B.1 of Awasthi, Tang and Vijayaraghavan), so
a few tensors give a loss that needs no rows. From k = 2 on it does not see the signs of (w_i, b_i): all sign patterns
are minima. Parameters are a_i, b_i and free rows v_i with ``w_i = v_i / |v_i|``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import factorial

import numpy as np

from unweave.algebra.symmetric import multi_indices, multiplicities, powers
from unweave.moments.population import ReluUnits, relu_coefficients
from unweave.solve.descend import Minimum, Settings, minimise


@dataclass(frozen=True)
class HermiteRisk:
    """Risk of ``num_units`` units against packed ``tensors[k]`` for k in ``orders``."""

    tensors: Sequence[np.ndarray] = field(repr=False)
    """``T_0, T_1, ...``; those not in ``orders`` are not looked at."""
    input_size: int
    orders: tuple[int, ...] = (2, 3, 4)

    def value(self, units: ReluUnits) -> float:
        r = self.residual(encode(units))
        return float(r @ r)

    def gradient(self, units: ReluUnits) -> np.ndarray:
        """Of the value, in the parameters of ``encode``."""
        r, jacobian = self.linearise(encode(units))
        return 2 * jacobian.T @ r

    def residual(self, theta: np.ndarray) -> np.ndarray:
        """Scaled so that its squared norm is the risk."""
        units, _ = self._units(theta)
        coefficients = units.weights * relu_coefficients(units.biases, max(self.orders))
        return np.concatenate(
            [
                self._scale(k) * (coefficients[k] @ powers(units.directions, k) - self.tensors[k])
                for k in self.orders
            ]
        )

    def linearise(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual and Jacobian; columns are a, b, then the rows v_1, v_2, ..."""
        units, norms = self._units(theta)
        num, size = units.directions.shape
        plain = relu_coefficients(units.biases, max(self.orders) + 1)
        residuals, blocks = [], []
        for k in self.orders:
            scale, p = self._scale(k), powers(units.directions, k)
            residuals.append(scale * ((units.weights * plain[k]) @ p - self.tensors[k]))
            slopes = _power_slopes(units.directions, k)
            # the norm of v does not matter: only the part across w
            along = np.einsum("nce,ne->nc", slopes, units.directions)
            slopes -= along[:, :, None] * units.directions[:, None, :]
            slopes *= (units.weights * plain[k] / norms)[:, None, None]
            columns = [
                (plain[k][:, None] * p).T,
                ((units.weights * plain[k + 1])[:, None] * p).T,
                slopes.transpose(1, 0, 2).reshape(-1, num * size),
            ]
            blocks.append(scale[:, None] * np.concatenate(columns, axis=1))
        return np.concatenate(residuals), np.concatenate(blocks)

    def minimise(self, start: ReluUnits, settings: Settings | None = None) -> tuple[ReluUnits, Minimum]:
        """Levenberg-Marquardt from ``start``; the offset is left as it was."""
        scale = np.sqrt(sum(float(np.sum((self._scale(k) * self.tensors[k]) ** 2)) for k in self.orders))
        num_residuals = sum(len(self.tensors[k]) for k in self.orders)
        settings = Settings(target=1e-15, stall_steps=0) if settings is None else settings
        end = minimise(
            self.residual,
            self.linearise,
            encode(start),
            scale=max(float(scale), 1e-300) / np.sqrt(num_residuals),
            settings=settings,
        )
        return decode(end.parameters, self.input_size, start.offset), end

    def _units(self, theta: np.ndarray) -> tuple[ReluUnits, np.ndarray]:
        num = len(theta) // (self.input_size + 2)
        norms = np.linalg.norm(theta[2 * num :].reshape(num, self.input_size), axis=1)
        return decode(theta, self.input_size), np.maximum(norms, 1e-300)

    def _scale(self, k: int) -> np.ndarray:
        return np.sqrt(multiplicities(self.input_size, k) / factorial(k))


def encode(units: ReluUnits) -> np.ndarray:
    """Parameters (m (d + 2),): all a, all b, then the rows."""
    return np.concatenate([units.weights, units.biases, units.directions.ravel()])


def decode(theta: np.ndarray, input_size: int, offset: float = 0.0) -> ReluUnits:
    num = len(theta) // (input_size + 2)
    rows = theta[2 * num :].reshape(num, input_size)
    norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return ReluUnits(rows / norms, theta[num : 2 * num].copy(), theta[:num].copy(), offset)


def _power_slopes(vectors: np.ndarray, order: int) -> np.ndarray:
    """``d w^k / d w`` (n, length, d) of packed powers."""
    num, size = vectors.shape
    indices = multi_indices(size, order)
    slopes = np.zeros((num, len(indices), size))
    places = np.arange(len(indices))
    for t in range(order):
        others = np.ones((num, len(indices)))
        for s in range(order):
            if s != t:
                others *= vectors[:, indices[:, s]]
        slopes[:, places, indices[:, t]] += others
    return slopes
