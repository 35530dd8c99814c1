"""Least squares on more rows than fit into memory: normal equations as sums over chunks.

``J'J``, ``J'r`` and ``|r|^2`` of a plain network are sums over rows, so any number of rows is read in chunks of bounded
size. A homogeneous unit (relu) has a free positive scale: its row is held at its length, and steps and standard errors
are those of the other directions, ``Z (Z' J'J Z)^-1 Z'`` with Z the tangent directions. Normal equations lose half
the digits, which is harmless for standard errors and for steps that are repeated; the last digits of an exact fit
belong to ``solve.polish``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.solve.layout import Layout

Batches = Iterable[tuple[np.ndarray, np.ndarray]]
MOST_PARAMETERS = 4000
MOST_ENTRIES = 4_000_000
"""Entries of one chunk's Jacobian."""
SINGULAR = 1e-14
"""Relative size of eigenvalues of the scaled normal matrix that count as zero."""


@dataclass(frozen=True)
class NormalSums:
    """``J'J``, ``J'r`` and ``|r|^2`` over all rows."""

    matrix: np.ndarray
    gradient: np.ndarray
    loss: float
    num_residuals: int


@dataclass(frozen=True)
class ParameterErrors:
    """Standard error of every parameter in ``Network.flat``'s order; infinite where nothing is determined."""

    errors: np.ndarray
    condition: float

    def unit_errors(self, network: Network) -> np.ndarray:
        """Largest standard error among each unit's incoming parameters, relative to the largest of those."""
        units, start = [], 0
        for w, b in zip(network.weights, network.biases, strict=True):
            block = self.errors[start : start + w.size + b.size].reshape(len(w), -1)
            largest = np.max(np.abs(np.hstack([w, b[:, None]])), axis=1)
            units.append(np.max(block, axis=1) / np.maximum(largest, 1e-300))
            start += block.size
        return np.concatenate(units)


def sum_normal_equations(network: Network, batches: Batches) -> NormalSums:
    """The sums over all rows of ``batches``."""
    layout, theta = Layout.of(network), network.flat()
    size = layout.num_parameters
    matrix, gradient, loss, count = np.zeros((size, size)), np.zeros(size), 0.0, 0
    step = max(1, MOST_ENTRIES // (size * network.output_size))
    for x, y in batches:
        for start in range(0, len(x), step):
            outputs, jacobian = layout.linearise(theta, x[start : start + step])
            r = (outputs - y[start : start + step]).ravel()
            matrix += jacobian.T @ jacobian
            gradient += jacobian.T @ r
            loss += float(r @ r)
            count += len(r)
    return NormalSums(matrix, gradient, loss, count)


def parameter_errors(network: Network, batches: Batches, *, noise: float) -> ParameterErrors | None:
    """Standard errors at ``noise`` with the length of homogeneous units' rows held; None for too many parameters."""
    if network.num_parameters > MOST_PARAMETERS:
        return None
    return errors_from(sum_normal_equations(network, batches), network, noise)


def errors_from(sums: NormalSums, network: Network, noise: float) -> ParameterErrors:
    """Standard errors from sums already at hand."""
    system = _Tangent(network, sums.matrix)
    return ParameterErrors(noise * system.deviations(), system.condition)


def fit_streamed(
    network: Network, batches: Callable[[], Batches], *, max_steps: int = 8, gain: float = 1e-6
) -> tuple[Network, NormalSums]:
    """Gauss-Newton on all rows from a start inside the basin; each step is kept only if the residual falls."""
    here = sum_normal_equations(network, batches())
    for _ in range(max_steps):
        step = _Tangent(network, here.matrix).solve(here.gradient)
        for shrink in (1.0, 0.25, 0.06):
            trial = network.with_flat(network.flat() - shrink * step)
            after = sum_normal_equations(trial, batches())
            if after.loss < here.loss:
                break
        else:
            break
        settled = after.loss > (1 - gain) * here.loss
        network, here = trial, after
        if settled:
            break
    return network, here


class _Tangent:
    """The normal matrix in directions that keep each homogeneous unit's row length, columns scaled to one."""

    def __init__(self, network: Network, matrix: np.ndarray):
        self._directions = _tangent_directions(network)
        inner = self._directions.T @ matrix @ self._directions
        diagonal = np.diag(inner)
        self._scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        self._values, self._vectors = scipy.linalg.eigh(inner / np.outer(self._scales, self._scales))
        self._good = self._values > SINGULAR * max(float(self._values[-1]), 1e-300)

    @property
    def condition(self) -> float:
        """Condition number of the scaled Jacobian; infinite when something is not determined."""
        return float(np.sqrt(self._values[-1] / self._values[0])) if self._good.all() else float("inf")

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """The Gauss-Newton step, zero along what is not determined."""
        inner = (self._directions.T @ gradient) / self._scales
        parts = (self._vectors[:, self._good].T @ inner) / self._values[self._good]
        return self._directions @ (self._vectors[:, self._good] @ parts / self._scales)

    def deviations(self) -> np.ndarray:
        """Standard deviation of each parameter for unit noise."""
        spread = self._directions @ (self._vectors / self._scales[:, None])
        good = spread[:, self._good] / np.sqrt(self._values[self._good])
        found = np.sqrt(np.sum(good**2, axis=1))
        lost = np.max(np.abs(spread[:, ~self._good]), axis=1, initial=0.0)
        return np.where(lost > 1e-6 * np.max(np.abs(spread), axis=1), np.inf, found)


def _tangent_directions(network: Network) -> np.ndarray:
    """Orthonormal columns: all parameter directions but the lengths of homogeneous units' rows."""
    blocks: list[np.ndarray] = []
    for layer, (w, kind) in enumerate(zip(network.weights, network.activations, strict=True)):
        free = layer < network.num_layers - 1 and act.get(kind).degree is not None
        for row in w:
            size = len(row) + 1
            if not free or not np.any(row):
                blocks.append(np.eye(size))
                continue
            across = scipy.linalg.null_space(row[None])
            block = np.zeros((size, size - 1))
            block[:-1, :-1], block[-1, -1] = across, 1.0
            blocks.append(block)
    return np.asarray(scipy.linalg.block_diag(*blocks))
