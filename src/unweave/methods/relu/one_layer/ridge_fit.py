"""All parameters of one hidden layer of relu units at once, by weighted least squares on answers with error bars.

``f(x) = G x + g + sum_i c_i relu(n_i . x + b_i)``, with or without the linear term G. All outputs share the points, so
the normal equations follow from one Gram matrix of the features ``[relu'(z_i) (x, 1), relu(z_i), (x, 1)]``: a step
costs ``points x (units x inputs)^2`` whatever the number of outputs. Levenberg-Marquardt with identity damping on
scaled columns; answers far off count less (Huber), since a unit that is missing spoils them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from unweave.core import clock

HUBER = 6.0
"""Residuals beyond so many error bars count linearly."""
CHUNK = 4_000_000
"""Numbers of the feature matrix held at a time."""


@dataclass(frozen=True)
class Ridges:
    """One hidden layer: rows (m, d + 1) with their bias, output columns (m, k), and the affine part (k, d + 1)."""

    rows: np.ndarray
    columns: np.ndarray
    affine: np.ndarray
    skip: bool = True
    """Whether the affine part has a linear term; without one only its constants are free."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return (
            np.maximum(self.heights(x), 0.0) @ self.columns + x @ self.affine[:, :-1].T + self.affine[:, -1]
        )

    def heights(self, x: np.ndarray) -> np.ndarray:
        return x @ self.rows[:, :-1].T + self.rows[:, -1]

    @property
    def num_units(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        k, extended = self.affine.shape
        return self.rows.size + self.columns.size + (k * extended if self.skip else k)

    def balanced(self) -> Ridges:
        """Rows of length one."""
        lengths = np.maximum(np.linalg.norm(self.rows[:, :-1], axis=1), 1e-300)
        return replace(self, rows=self.rows / lengths[:, None], columns=self.columns * lengths[:, None])

    def take(self, units: np.ndarray) -> Ridges:
        return replace(self, rows=self.rows[units], columns=self.columns[units])

    def flipped(self, units: np.ndarray) -> Ridges:
        """The same function with these units written by their other side: ``relu(z) = relu(-z) + z``."""
        units = np.asarray(units, dtype=bool)
        moved = np.einsum("mk,md->kd", self.columns[units], self.rows[units])
        return replace(self, rows=np.where(units[:, None], -self.rows, self.rows), affine=self.affine + moved)


@dataclass(frozen=True)
class RidgeFit:
    """Fitted ridges and their misses in error bars."""

    ridges: Ridges
    rms: float
    num_steps: int
    system: _System

    def unit_errors(self) -> np.ndarray:
        """The standard error of each unit relative to its largest weight."""
        return self.system.unit_errors(max(self.rms, 0.3))


def fit_ridges(
    ridges: Ridges,
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    *,
    max_steps: int = 25,
    deadline: float = float("inf"),
) -> RidgeFit:
    """The ridges fitted to answers ``y`` (n, k) at ``x`` with standard errors ``bars`` (n,)."""
    ridges, damping, steps = ridges.balanced(), 1e-6, 0
    residual = (ridges(x) - y) / bars[:, None]
    cost = _cost(residual)
    system = _System(ridges, x, bars, residual)
    for steps in range(1, max_steps + 1):
        accepted = False
        for _ in range(8):
            trial = system.step(damping)
            if trial is not None:
                fresh = (trial(x) - y) / bars[:, None]
                value = _cost(fresh)
                if value < cost:
                    accepted = True
                    break
            damping = max(10 * damping, 1e-9)
        if not accepted or trial is None:
            break
        gain = (cost - value) / max(cost, 1e-300)
        ridges, residual, cost, damping = trial.balanced(), fresh, value, max(damping / 10, 1e-13)
        system = _System(ridges, x, bars, residual)
        if (gain < 1e-3 and steps > 2) or clock.now() > deadline:
            break
    rms = float(np.sqrt(np.mean(residual**2) * residual.size / max(residual.size - ridges.size, 1)))
    return RidgeFit(ridges, rms, steps, system)


def _cost(residual: np.ndarray) -> float:
    size = np.linalg.norm(residual, axis=1)
    return float(np.sum(np.where(size < HUBER, size**2, 2 * HUBER * size - HUBER**2)))


class _System:
    """The normal equations at one point of the fit."""

    scale: np.ndarray
    scaled: np.ndarray

    matrix: np.ndarray
    gradient: np.ndarray

    def __init__(self, ridges: Ridges, x: np.ndarray, bars: np.ndarray, residual: np.ndarray):
        self.ridges = ridges
        m, e = ridges.rows.shape
        k = len(ridges.affine)
        sizes = np.maximum(np.linalg.norm(residual, axis=1), 1e-300)
        weights = np.sqrt(np.minimum(1.0, HUBER / sizes))
        width = m * e + m + e
        gram, moment = np.zeros((width, width)), np.zeros((width, k))
        (square,) = scipy.linalg.get_blas_funcs(("syrk",), (gram,))
        step = max(64, CHUNK // width)
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            extended = np.hstack([x[part], np.ones((len(x[part]), 1))])
            z = extended @ ridges.rows.T
            active = z > 0
            features = np.hstack(
                [
                    (active[:, :, None] * extended[:, None, :]).reshape(len(z), -1),
                    np.where(active, z, 0.0),
                    extended,
                ]
            )
            moment += features.T @ (residual[part] * (weights[part] ** 2 / bars[part])[:, None])
            features *= (weights[part] / bars[part])[:, None]
            gram += square(1.0, features, trans=1)
        gram = np.triu(gram) + np.triu(gram, 1).T
        self.matrix, self.gradient = self._assemble(gram, moment, m, e, k)
        scale = np.sqrt(np.maximum(np.diag(self.matrix), 0.0))
        self.scale = np.where(scale > 0, scale, 1.0)
        self.scaled = self.matrix / self.scale[:, None] / self.scale

    def _assemble(self, gram, moment, m: int, e: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """J'J and J'r from the Gram matrix of the features: rows, then columns, then the affine part."""
        columns, skip = self.ridges.columns, self.ridges.skip
        inner, outer = gram[: m * e, : m * e], gram[m * e :, m * e :]
        cross = gram[: m * e, m * e :]
        if not skip:
            keep = np.append(np.arange(m), m + e - 1)
            outer, cross = outer[np.ix_(keep, keep)], cross[:, keep]
        rows = (inner.reshape(m, e, m, e) * (columns @ columns.T)[:, None, :, None]).reshape(m * e, m * e)
        linear = np.kron(outer, np.eye(k))
        mixed = (cross.reshape(m, e, cross.shape[1], 1) * columns[:, None, None, :]).reshape(
            m * e, cross.shape[1] * k
        )
        matrix = np.block([[rows, mixed], [mixed.T, linear]])
        own = np.einsum("mek,mk->me", moment[: m * e].reshape(m, e, k), columns).ravel()
        rest = moment[m * e :] if skip else moment[m * e :][np.append(np.arange(m), m + e - 1)]
        return matrix, np.concatenate([own, rest.ravel()])

    def step(self, damping: float) -> Ridges | None:
        damped = self.scaled + (damping + 1e-13) * np.eye(len(self.scaled))
        try:
            factor = scipy.linalg.cho_factor(damped, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        change = scipy.linalg.cho_solve(factor, self.gradient / self.scale, check_finite=False) / self.scale
        ridges = self.ridges
        m, e = ridges.rows.shape
        k = len(ridges.affine)
        rows, rest = change[: m * e].reshape(m, e), change[m * e :].reshape(-1, k)
        affine = ridges.affine.copy()
        if ridges.skip:
            affine -= rest[m:].T
        else:
            affine[:, -1] -= rest[m]
        return replace(ridges, rows=ridges.rows - rows, columns=ridges.columns - rest[:m], affine=affine)

    def unit_errors(self, level: float) -> np.ndarray:
        """The largest standard error of a unit's row and output weights, relative to the largest of each."""
        ridges = self.ridges
        m, e = ridges.rows.shape
        damped = self.scaled + 1e-12 * np.eye(len(self.scaled))
        for i in range(m):  # the scale of a unit changes nothing: held
            gauge = np.zeros(len(damped))
            gauge[i * e : (i + 1) * e] = ridges.rows[i]
            gauge[m * e + i * len(ridges.affine) : m * e + (i + 1) * len(ridges.affine)] = -ridges.columns[i]
            gauge *= self.scale
            damped += np.outer(gauge, gauge) / (gauge @ gauge)
        try:
            factor = scipy.linalg.cho_factor(damped, check_finite=False)
        except np.linalg.LinAlgError:
            return np.full(m, np.inf)
        inverse = scipy.linalg.cho_solve(factor, np.eye(len(damped)), check_finite=False)
        errors = level * np.sqrt(np.maximum(np.diag(inverse), 0.0)) / self.scale
        rows = errors[: m * e].reshape(m, e) / np.max(np.abs(ridges.rows), axis=1, keepdims=True)
        k = len(ridges.affine)
        sizes = np.maximum(np.max(np.abs(ridges.columns), axis=1, keepdims=True), 1e-300)
        columns = errors[m * e : m * e + m * k].reshape(m, k) / sizes
        return np.maximum(np.max(rows, axis=1), np.max(columns, axis=1))
