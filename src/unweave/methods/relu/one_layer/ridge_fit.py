"""All parameters of one hidden layer of relu units at once, by weighted least squares on answers with error bars.

``f(x) = G x + g + sum_i c_i relu(n_i . x + b_i)``, with or without the linear term G. All outputs share the points, so
the normal equations follow from one Gram matrix of the features ``[relu'(z_i) (x, 1), relu(z_i), (x, 1)]``: a step
costs ``points x (units x inputs)^2`` whatever the number of outputs. Output weights and the affine part, in which the
answers are linear, are eliminated: what is left of the Gram matrix without their features, times the products of the
units' output weights, is the matrix of the rows alone (variable projection). Levenberg-Marquardt with identity damping
on scaled columns; answers far off count less (Huber), since a unit that is missing spoils them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from unweave.core import clock

HUBER = 6.0
"""Residuals beyond so many error bars count linearly."""
FAINT = 1e-12
"""Least damping of features, relative to their own size: units that are never on have none."""
NORMAL = 1.4826
"""Standard deviation over median size of normal errors."""
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
    typical: float
    """The same from the median, which few answers that a missing unit spoils do not move."""
    num_steps: int
    system: _System

    def unit_errors(self) -> np.ndarray:
        """The standard error of each unit relative to its largest weight."""
        return self.system.unit_errors(max(self.typical, 0.3))


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
                trial = _with_output(trial, x, y, bars, system.weights, damping)
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
        settled = gain < 1e-3 and (steps > 2 or cost <= residual.size)
        if settled or clock.now() > deadline:
            break
    freedom = float(np.sqrt(residual.size / max(residual.size - ridges.size, 1)))
    rms, median = float(np.sqrt(np.mean(residual**2))), float(np.median(np.abs(residual)))
    return RidgeFit(ridges, freedom * rms, freedom * NORMAL * median, steps, system)


def _cost(residual: np.ndarray) -> float:
    size = np.linalg.norm(residual, axis=1)
    return float(np.sum(np.where(size < HUBER, size**2, 2 * HUBER * size - HUBER**2)))


def _linear_features(ridges: Ridges, x: np.ndarray) -> np.ndarray:
    """What the answers are linear in: the units, then ``(x, 1)``, or only the constant."""
    on = np.maximum(ridges.heights(x), 0.0)
    return np.hstack([on, x, np.ones((len(x), 1))]) if ridges.skip else np.hstack([on, np.ones((len(x), 1))])


def _with_output(
    ridges: Ridges, x: np.ndarray, y: np.ndarray, bars: np.ndarray, weights: np.ndarray, damping: float
) -> Ridges:
    """With output weights and affine part fitted to the answers, as far as ``damping`` lets them move."""
    features = _linear_features(ridges, x) * (weights / bars)[:, None]
    scale = _scale(np.einsum("nf,nf->f", features, features))
    features /= scale
    try:
        factor = scipy.linalg.cho_factor(
            features.T @ features + (damping + FAINT) * np.eye(len(scale)), check_finite=False
        )
    except np.linalg.LinAlgError:
        return ridges
    residual = (y - ridges(x)) * (weights / bars)[:, None]
    change = scipy.linalg.cho_solve(factor, features.T @ residual, check_finite=False) / scale[:, None]
    m, affine = ridges.num_units, ridges.affine.copy()
    affine[:, affine.shape[1] - len(change) + m :] += change[m:].T
    return replace(ridges, columns=ridges.columns + change[:m], affine=affine)


def _scale(diagonal: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.maximum(diagonal, 0.0))
    return np.where(scale > 0, scale, 1.0)


class _System:
    """The normal equations of the rows at one point of the fit, all that is linear eliminated."""

    def __init__(self, ridges: Ridges, x: np.ndarray, bars: np.ndarray, residual: np.ndarray):
        self.ridges = ridges
        m, e = ridges.rows.shape
        k = len(ridges.affine)
        sizes = np.maximum(np.linalg.norm(residual, axis=1), 1e-300)
        self.weights = np.sqrt(np.minimum(1.0, HUBER / sizes))
        width = m * e + m + (e if ridges.skip else 1)
        gram, moment = np.zeros((width, width)), np.zeros((width, k))
        (square,) = scipy.linalg.get_blas_funcs(("syrk",), (gram,))
        step = max(64, CHUNK // width)
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            extended = np.hstack([x[part], np.ones((len(x[part]), 1))])
            active = ridges.heights(x[part]) > 0
            slopes = (active[:, :, None] * extended[:, None, :]).reshape(len(active), -1)
            features = np.hstack([slopes, _linear_features(ridges, x[part])])
            features *= (self.weights[part] / bars[part])[:, None]
            moment += features.T @ (residual[part] * self.weights[part][:, None])
            gram += square(1.0, features, trans=1)
        self._eliminate(gram, moment, m * e)
        own = np.einsum("mek,mk->me", moment[: m * e].reshape(m, e, k), ridges.columns)
        self.gradient = own.ravel() / self.scale

    def _eliminate(self, gram: np.ndarray, moment: np.ndarray, inner: int) -> None:
        """The scaled matrix of the rows, the upper half of ``gram`` being given; ``moment`` is reduced with it."""
        self.outer_scale = _scale(np.diag(gram)[inner:])
        outer = gram[inner:, inner:] / self.outer_scale[:, None] / self.outer_scale
        outer = np.triu(outer) + np.triu(outer, 1).T + FAINT * np.eye(len(outer))
        self.lower = scipy.linalg.cholesky(outer, lower=True, check_finite=False)
        self.half = scipy.linalg.solve_triangular(
            self.lower, gram[:inner, inner:].T / self.outer_scale[:, None], lower=True, check_finite=False
        )
        rest = scipy.linalg.solve_triangular(
            self.lower, moment[inner:] / self.outer_scale[:, None], lower=True, check_finite=False
        )
        moment[:inner] -= self.half.T @ rest
        left = gram[:inner, :inner]
        if inner:  # BLAS takes no empty matrices
            (square,) = scipy.linalg.get_blas_funcs(("syrk",), (left,))
            left -= square(1.0, self.half, trans=1)
        columns, (m, e) = self.ridges.columns, self.ridges.rows.shape
        left = left.reshape(m, e, m, e) * (columns @ columns.T)[:, None, :, None]
        left = left.reshape(inner, inner)
        for i in range(m):  # the length of a row changes nothing that the output weights do not undo: held
            block, row = slice(i * e, (i + 1) * e), self.ridges.rows[i]
            left[block, block] += np.mean(np.diag(left)[block]) * np.outer(row, row) / max(row @ row, 1e-300)
        self.scale = _scale(np.diag(left))
        left /= self.scale[:, None]
        left /= self.scale
        self.scaled = left

    def _factor(self, damping: float) -> np.ndarray | None:
        """The upper triangle of the damped matrix."""
        damped = self.scaled.copy()
        damped[np.diag_indices(len(damped))] += damping
        try:
            return scipy.linalg.cholesky(damped, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None

    def step(self, damping: float) -> Ridges | None:
        """The ridges with other rows."""
        upper = self._factor(damping + 1e-13)
        if upper is None:
            return None
        change = scipy.linalg.cho_solve((upper, False), self.gradient, check_finite=False) / self.scale
        return replace(self.ridges, rows=self.ridges.rows - change.reshape(self.ridges.rows.shape))

    def unit_errors(self, level: float) -> np.ndarray:
        """The largest standard error of a unit's row and output weights, relative to the largest of each."""
        ridges = self.ridges
        m, e = ridges.rows.shape
        upper = self._factor(1e-12)
        if upper is None:
            return np.full(m, np.inf)
        (invert,) = scipy.linalg.get_lapack_funcs(("trtri",), (upper,))
        root, _ = invert(upper)  # the inverse is root @ root.T
        deviations = np.sqrt(np.einsum("ij,ij->i", root, root)) / self.scale
        rows = deviations.reshape(m, e) / np.max(np.abs(ridges.rows), axis=1, keepdims=True)
        eye = np.eye(len(self.lower))
        inverse = scipy.linalg.solve_triangular(self.lower, eye, lower=True, check_finite=False)
        own = np.einsum("ij,ij->j", inverse, inverse)[:m]
        moved = (self.half.T @ inverse[:, :m] / self.scale[:, None]).reshape(m, e, m)
        columns = np.empty_like(ridges.columns)
        for output in range(columns.shape[1]):
            pull = (moved * ridges.columns[:, output][:, None, None]).reshape(m * e, m)
            columns[:, output] = own + np.sum((root.T @ pull) ** 2, axis=0)
        columns = np.sqrt(columns) / self.outer_scale[:m, None]
        columns /= np.maximum(np.max(np.abs(ridges.columns), axis=1, keepdims=True), 1e-300)
        return level * np.maximum(np.max(rows, axis=1), np.max(columns, axis=1))
