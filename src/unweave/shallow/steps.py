"""Levenberg-Marquardt steps for a shallow network, in whichever system fits: dual, primal or matrix-free.

The loop and the damping are those of ``solve.descend``; only the damped least-squares solve differs.
*Dual* (n x n, for n <= p) uses the Gram matrix by its Khatri-Rao formula and never forms the Jacobian. *Primal*
(p x p) forms it. *Matrix-free* solves by conjugate gradients with one pass over the data a product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.algebra.conjugate_gradients import conjugate_gradients
from unweave.shallow.loss import LocalLoss, ShallowLoss
from unweave.solve.descend import Minimum, Settings, descend
from unweave.solve.step import Solve, Step, factorise

LARGEST_SYSTEM = 3000
"""Neither Gram matrix is factored beyond this size."""
LARGEST_JACOBIAN = 30_000_000
"""Entries of a Jacobian that may be formed."""
ENOUGH = 1e-3
"""Accuracy of a matrix-free solve: what a damped step is worth."""


def choose_system(num_samples: int, num_parameters: int) -> str:
    """``"dual"``, ``"primal"`` or ``"matrix-free"``."""
    if num_samples <= num_parameters:
        return "dual" if num_samples <= LARGEST_SYSTEM else "matrix-free"
    fits = num_parameters <= LARGEST_SYSTEM and num_samples * num_parameters <= LARGEST_JACOBIAN
    return "primal" if fits else "matrix-free"


def fit_shallow(
    loss: ShallowLoss,
    start: np.ndarray,
    *,
    system: str | None = None,
    settings: Settings | None = None,
    watch: Callable[[LocalLoss], None] | None = None,
) -> Minimum:
    """Minimise the loss from ``start``; ``watch`` sees every accepted point."""
    chosen = choose_system(loss.num_samples, loss.num_parameters) if system is None else system
    scale = float(np.sqrt(np.mean(loss.y**2))) or 1.0
    return descend(ShallowProblem(loss, chosen, watch), np.array(start, dtype=np.float64), scale, settings)


class ShallowProblem:
    """The least-squares problem as ``descend`` takes it."""

    def __init__(self, loss: ShallowLoss, system: str, watch: Callable[[LocalLoss], None] | None = None):
        self._loss, self._system, self._watch = loss, system, watch

    @property
    def num_residuals(self) -> int:
        return self._loss.num_samples

    def expand(self, theta: np.ndarray, coarse: bool) -> ShallowExpansion:
        here = self._loss.at(theta)
        if self._watch is not None:
            self._watch(here)
        return ShallowExpansion(here, self._system)


class ShallowExpansion(Step):
    """The damped system at one point."""

    def __init__(self, here: LocalLoss, system: str):
        super().__init__(here.loss.residual, here.theta, here.residual)
        self._here = here
        self._unit = max(_mean_square(here), 1e-300)
        self._jacobian = here.jacobian() if system == "primal" else None
        self._matrix = None
        if system == "dual":
            self._matrix = here.gram()
        elif self._jacobian is not None:
            self._matrix = self._jacobian.T @ self._jacobian

    def product(self, v: np.ndarray) -> np.ndarray:
        return self._here.push(v)

    def damped(self, damping: float) -> Solve | None:
        here, shift = self._here, damping * self._unit
        if self._matrix is None:

            def multiply(v: np.ndarray) -> np.ndarray:
                return here.pull(here.push(v)) + shift * v

            return lambda b: conjugate_gradients(multiply, here.pull(b), enough=ENOUGH)
        inverse = factorise(self._matrix, shift)
        if inverse is None:
            return None
        dual = self._jacobian is None
        return lambda b: here.pull(inverse(b)) if dual else inverse(here.pull(b))


def _mean_square(here: LocalLoss) -> float:
    """``trace(J'J) / p`` without J."""
    squares = np.sum(here.slope**2, axis=-1) @ np.sum(here.loss.x**2, axis=-1)
    if here.loss.output is None:
        squares += np.sum(here.phi**2)
    return float(squares) / here.loss.num_parameters
