"""The steps of Levenberg-Marquardt on the CPU: a damped solve by LAPACK, bent along the geodesic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from unweave.solve.step import propose

Residual = Callable[[np.ndarray], np.ndarray]
Linearise = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Solve = Callable[[np.ndarray], np.ndarray]


class Step(ABC):
    """A least-squares problem expanded at one point: how a damped solve becomes a trial point."""

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


class HostProblem:
    """A problem given by functions, solved with LAPACK."""

    def __init__(
        self, residual: Residual, linearise: Linearise, coarse: Linearise | None, num_residuals: int
    ):
        self._residual, self._linearise, self._coarse = residual, linearise, coarse
        self.num_residuals = num_residuals

    def expand(self, theta: np.ndarray, coarse: bool) -> HostExpansion:
        rough = self._coarse if coarse else None
        return HostExpansion(self._residual, theta, *(self._linearise if rough is None else rough)(theta))


class HostExpansion(Step):
    """The damped normal equations at one point, primal or dual, whichever is smaller."""

    def __init__(self, residual: Residual, theta: np.ndarray, r: np.ndarray, jacobian: np.ndarray):
        super().__init__(residual, theta, r)
        self._jacobian = jacobian
        self._dual = jacobian.shape[1] > jacobian.shape[0]
        self._matrix = jacobian @ jacobian.T if self._dual else jacobian.T @ jacobian
        self._unit = max(float(np.trace(self._matrix)) / jacobian.shape[1], 1e-300)

    def damped(self, damping: float) -> Solve | None:
        matrix = self._matrix.copy(order="F")
        matrix[np.diag_indices_from(matrix)] += damping * self._unit
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        jacobian, dual = self._jacobian, self._dual

        def solve(b: np.ndarray) -> np.ndarray:
            b = self._single(b)
            if dual:
                return _double(jacobian.T @ cho_solve(factor, b, check_finite=False))
            return _double(cho_solve(factor, jacobian.T @ b, check_finite=False))

        return solve

    def product(self, v: np.ndarray) -> np.ndarray:
        return _double(self._jacobian @ self._single(v))

    def _single(self, b: np.ndarray) -> np.ndarray:
        return b.astype(self._jacobian.dtype, copy=False)


def _double(b: np.ndarray) -> np.ndarray:
    return b.astype(np.float64, copy=False)
