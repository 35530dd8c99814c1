"""One step of Levenberg-Marquardt, the same on the host, under ``jit`` on a device and for a stack of runs.

A damped solve gives the step ``v``; it is kept within reach of the point, and half its second-order correction bends it
along the geodesic (Transtrum and Sethna 2012). What it promises is read off the linear model at the step that is
taken, ``|r|^2 - |r + J v|^2``, which holds for any step, shortened or not. Nielsen's rule (1999) compares it with what
was gained. All formulas take the array namespace ``xp`` and act on the last axis; ``Step`` puts them together for the
host, and ``DenseProblem`` solves by LAPACK.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Array = Any
Residual = Callable[[np.ndarray], np.ndarray]
Linearise = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Solve = Callable[[np.ndarray], np.ndarray]
REACH = 2.0
"""A step is no longer than this multiple of one more than the length of the parameters."""


def propose(
    theta: Array,
    r: Array,
    solve: Callable[[Array], Array],
    product: Callable[[Array], Array],
    residual: Callable[[Array], Array],
    xp: ModuleType,
    *,
    difference: Array = 0.1,
    longest_bend: Array | None = None,
) -> tuple[Array, Array, Array]:
    """The trial point, its loss and the gain that was promised.

    ``solve`` is ``b -> (J'J + ...)^-1 J'b`` and ``product`` is ``v -> J v``. The step is bent, by a second difference
    over the fraction ``difference`` of it, where the bend is shorter than ``longest_bend`` times it; None: never.
    """
    v = within_reach(-solve(r), theta, xp)
    slope = product(v)
    promised = -xp.vecdot(slope, 2 * r + slope)
    trial = theta + v
    if longest_bend is not None:
        moved = (residual(theta + difference * v) - r) / difference
        bend = -solve((2 / difference) * (moved - slope))
        gentle = length(bend, xp) < longest_bend * length(v, xp)
        trial = trial + xp.where(gentle[..., None], 0.5 * bend, 0.0)
    after = residual(trial)
    return trial, xp.vecdot(after, after), promised


def within_reach(v: Array, theta: Array, xp: ModuleType) -> Array:
    """The step, shortened where the linear model has nothing to say about its end."""
    share = REACH * (1.0 + length(theta, xp)) / xp.maximum(length(v, xp), 1e-300)
    return v * xp.minimum(1.0, share)[..., None]


def length(v: Array, xp: ModuleType) -> Array:
    return xp.sqrt(xp.vecdot(v, v))


def eased(damping: Array, ratio: Array, least: float, xp: ModuleType) -> Array:
    """The damping after a step that gained ``ratio`` of what it promised."""
    return xp.maximum(damping * xp.maximum(1 / 3, 1 - (2 * xp.minimum(ratio, 1.0) - 1) ** 3), least)


class Step(ABC):
    """A least-squares problem expanded at one point: how a damped solve becomes a trial point."""

    loss: float

    def __init__(self, residual: Residual, theta: np.ndarray, r: np.ndarray):
        self._residual, self._theta, self._r = residual, theta, r
        self.loss = float(r @ r)

    @abstractmethod
    def damped(self, damping: float) -> Solve | None:
        """``b -> (J'J + damping unit I)^-1 J' b``; None when the matrix is not positive definite."""

    @abstractmethod
    def product(self, v: np.ndarray) -> np.ndarray:
        """``J v``."""

    def propose(
        self, damping: float, *, geodesic: bool, difference: float, longest_bend: float
    ) -> tuple[np.ndarray, float, float] | None:
        """The trial point, its loss and the predicted gain; None when the damped matrix is not positive definite."""
        solve = self.damped(damping)
        if solve is None:
            return None
        bend = longest_bend if geodesic else None
        trial, loss, predicted = propose(
            self._theta,
            self._r,
            solve,
            self.product,
            self._residual,
            np,
            difference=difference,
            longest_bend=bend,
        )
        return trial, float(loss) if np.isfinite(loss) else float("inf"), float(predicted)


def factorise(matrix: np.ndarray, shift: float, into: np.ndarray | None = None) -> Solve | None:
    """``b -> (matrix + shift I)^-1 b``; None when that is not positive definite. ``into``: memory for the factor."""
    shifted = matrix.copy(order="F") if into is None else into.T
    if into is not None:
        np.copyto(into, matrix)
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        factor = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return lambda b: cho_solve(factor, b, check_finite=False)


class DenseProblem:
    """A problem given by functions; ``coarse``, where given, linearises with a float32 Jacobian."""

    def __init__(
        self, residual: Residual, linearise: Linearise, num_residuals: int, coarse: Linearise | None = None
    ):
        self._residual, self._linearise, self._coarse = residual, linearise, coarse
        self.num_residuals = num_residuals

    def expand(self, theta: np.ndarray, coarse: bool) -> DenseStep:
        rough = self._coarse if coarse else None
        return DenseStep(self._residual, theta, *(self._linearise if rough is None else rough)(theta))


class DenseStep(Step):
    """The damped normal equations at one point, primal or dual, whichever is smaller."""

    def __init__(self, residual: Residual, theta: np.ndarray, r: np.ndarray, jacobian: np.ndarray):
        super().__init__(residual, theta, r)
        self._jacobian = jacobian
        self._dual = jacobian.shape[1] > jacobian.shape[0]
        self._matrix = jacobian @ jacobian.T if self._dual else jacobian.T @ jacobian
        self._unit = max(float(np.trace(self._matrix)) / jacobian.shape[1], 1e-300)

    def damped(self, damping: float) -> Solve | None:
        inverse, jacobian = factorise(self._matrix, damping * self._unit), self._jacobian
        if inverse is None:
            return None
        if self._dual:
            return lambda b: _double(jacobian.T @ inverse(self._single(b)))
        return lambda b: _double(inverse(jacobian.T @ self._single(b)))

    def product(self, v: np.ndarray) -> np.ndarray:
        return _double(self._jacobian @ self._single(v))

    def _single(self, b: np.ndarray) -> np.ndarray:
        return b.astype(self._jacobian.dtype, copy=False)


def _double(b: np.ndarray) -> np.ndarray:
    return b.astype(np.float64, copy=False)
