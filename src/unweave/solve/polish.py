"""Polish: from a fit inside the basin to the last digit, and how well each parameter is determined.

Levenberg-Marquardt with next to no damping, then Gauss-Newton steps by a singular value decomposition of the
column-scaled Jacobian. The same decomposition says what the data determine: its singular values, standard errors
at the noise level (the Cramer-Rao bound for Gaussian noise), and the null directions along which nothing is
determined. Large networks take normal equations, which lose half the digits: where something seems to vanish in them
it may only be small, and the decomposition decides while it is affordable.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from unweave.core.network import Network
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.layout import Layout
from unweave.solve.normal import double_precision, expand_normally

LARGE = 600
"""Parameters beyond which normal equations take the place of a singular value decomposition ..."""
AFFORDABLE = 5e10
"""... unless they leave something open, up to so many residuals times squared parameters: some ten seconds."""
NULL_LARGE = 1e-7
"""Relative size of singular values that normal equations cannot tell from zero."""


@dataclass(frozen=True)
class Polished:
    """A network at its optimum with what the Jacobian there says about it."""

    network: Network
    rms: float
    """Root mean square residual relative to the spread of the targets."""
    num_steps: int
    singular_values: np.ndarray = field(repr=False)
    """Of the Jacobian with columns scaled to length one, largest first."""
    standard_errors: np.ndarray = field(repr=False)
    """One per parameter, in ``Network.flat``'s order; infinite where nothing is determined."""
    null_directions: np.ndarray = field(repr=False)
    """Columns are directions in parameter space that do not change the outputs at the data."""

    @property
    def condition(self) -> float:
        """Condition number of the scaled Jacobian."""
        smallest = float(self.singular_values[-1])
        return float(self.singular_values[0]) / smallest if smallest > 0 else float("inf")

    @property
    def undetermined(self) -> np.ndarray:
        """Indices of parameters that a null direction touches."""
        return np.flatnonzero(~np.isfinite(self.standard_errors))


def polish(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    *,
    noise: float = 0.0,
    max_steps: int = 30,
    max_final: int = 4,
) -> Polished:
    """Bring ``network`` to the least-squares optimum on (x, y).

    Parameters
    ----------
    noise
        Standard deviation of one answer, in the units of y; the standard errors are stated at this level, or
        at the level of the final residual where that is larger.
    max_steps, max_final
        Bounds on the Levenberg-Marquardt and the Gauss-Newton steps.
    """
    layout = Layout.of(network)
    target = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
    settings = Settings(
        target=1e-15, max_steps=max_steps, damping=1e-8, geodesic=False, stall_steps=0, patience=3
    )
    found = fit_layout(layout, network.flat(), x, target, settings=settings)
    theta, num_steps = found.parameters, found.num_steps
    task = _Task(layout, x, target, noise, max_final)
    if layout.num_parameters <= LARGE:
        return task.decompose(theta, num_steps)
    large = task.solve_normally(theta, num_steps)
    is_affordable = target.size * layout.num_parameters**2 <= AFFORDABLE
    if large.null_directions.shape[1] and is_affordable:
        return task.decompose(large.network.flat(), large.num_steps)
    return large


@dataclass(frozen=True)
class _Task:
    """The last steps of a polish, from a point next to the optimum, and what the Jacobian says there."""

    layout: Layout
    x: np.ndarray
    y: np.ndarray
    noise: float
    max_final: int

    def decompose(self, theta: np.ndarray, num_steps: int) -> Polished:
        """By singular value decompositions."""
        layout, x, y = self.layout, self.x, self.y
        outputs, jacobian = layout.linearise(theta, x)
        r = (outputs - y).ravel()
        decomposition = _Decomposition(jacobian)
        for _ in range(self.max_final):
            trial = theta - decomposition.solve(r)
            outputs, jacobian = layout.linearise(trial, x)
            after = (outputs - y).ravel()
            if not np.all(np.isfinite(after)) or after @ after >= r @ r * (1 - 1e-3):
                break
            theta, r, num_steps = trial, after, num_steps + 1
            decomposition = _Decomposition(jacobian)
        loss = float(r @ r)
        return Polished(
            network=layout.network(theta),
            rms=self._rms(loss),
            num_steps=num_steps,
            singular_values=decomposition.values,
            standard_errors=self._level(loss) * decomposition.deviations(),
            null_directions=decomposition.null_directions(),
        )

    def solve_normally(self, theta: np.ndarray, num_steps: int) -> Polished:
        """By normal equations: their rounding slows the last steps but not where they end."""
        layout, x, y = self.layout, self.x, self.y
        here = expand_normally(layout, theta, x, y)
        xp = here.xp
        with double_precision(xp):
            for _ in range(self.max_final + 2):
                scales = 1 / xp.sqrt(xp.maximum(xp.diag(here.matrix), np.finfo(float).tiny))
                inverse = xp.linalg.inv(here.matrix * scales[:, None] * scales[None, :])
                trial = theta - np.array(scales * (inverse @ (scales * here.gradient)))
                after = expand_normally(layout, trial, x, y)
                if not after.loss < here.loss * (1 - 1e-3):
                    break
                theta, here, num_steps = trial, after, num_steps + 1
            scales = 1 / xp.sqrt(xp.maximum(xp.diag(here.matrix), np.finfo(float).tiny))
            scaled = here.matrix * scales[:, None] * scales[None, :]
            values = np.sqrt(np.maximum(np.array(xp.linalg.eigvalsh(scaled)), 0.0))[::-1]
            null = np.zeros((layout.num_parameters, 0))
            variances = np.array(xp.diag(xp.linalg.inv(scaled)))
            if values[-1] <= NULL_LARGE * values[0]:
                vectors = np.array(xp.linalg.eigh(scaled)[1])
                null = vectors[:, : int(np.sum(values <= NULL_LARGE * values[0]))]
                variances = np.where(np.max(np.abs(null), axis=1) > 1e-6, np.inf, np.abs(variances))
            scales = np.array(scales)
        return Polished(
            network=layout.network(theta),
            rms=self._rms(here.loss),
            num_steps=num_steps,
            singular_values=values,
            standard_errors=self._level(here.loss) * np.sqrt(variances) * scales,
            null_directions=null,
        )

    def _rms(self, loss: float) -> float:
        return float(np.sqrt(loss / self.y.size)) / spread_of(self.y)

    def _level(self, loss: float) -> float:
        """The noise of one answer: as stated, or as the residual shows where that is larger."""
        spare = max(self.y.size - self.layout.num_parameters, 1)
        return max(self.noise, float(np.sqrt(loss / spare)), np.finfo(float).tiny)


class _Decomposition:
    """The singular value decomposition of a Jacobian with columns scaled to length one."""

    def __init__(self, jacobian: np.ndarray):
        norms = np.linalg.norm(jacobian, axis=0)
        self._scales = np.where(norms > 0, norms, 1.0)
        self._u, values, self._vt = scipy.linalg.svd(
            jacobian / self._scales, full_matrices=False, check_finite=False
        )
        num_parameters = jacobian.shape[1]
        self.values = np.concatenate([values, np.zeros(num_parameters - len(values))])
        cut = np.finfo(float).eps * max(jacobian.shape) * max(float(values[0]), 1e-300)
        self._rank = int(np.sum(values > cut))

    def solve(self, r: np.ndarray) -> np.ndarray:
        k = self._rank
        return self._vt[:k].T @ ((self._u[:, :k].T @ r) / self.values[:k]) / self._scales

    def deviations(self) -> np.ndarray:
        """Standard deviation of each parameter for unit noise; infinite along null directions."""
        k = self._rank
        variances = np.sum((self._vt[:k] / self.values[:k, None]) ** 2, axis=0)
        null = self.null_directions()
        if null.shape[1]:
            variances = np.where(np.max(np.abs(null), axis=1) > 1e-6, np.inf, variances)
        return np.sqrt(variances) / self._scales

    def null_directions(self) -> np.ndarray:
        if len(self._vt) < self._vt.shape[1]:
            return scipy.linalg.null_space(self._vt[: self._rank])
        return self._vt[self._rank :].T
