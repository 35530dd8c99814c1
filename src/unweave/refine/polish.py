"""Polish: from a fit inside the basin to the last digit, and how well each parameter is determined.

Levenberg-Marquardt with next to no damping, then Gauss-Newton steps by a singular value decomposition of the
column-scaled Jacobian (normal equations would lose half the digits). The same decomposition says what the
data determine: its singular values, standard errors at the noise level (the Cramer-Rao bound for Gaussian
noise), and the null directions along which nothing is determined.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from unweave.network import Network
from unweave.refine.layout import Layout
from unweave.refine.levenberg_marquardt import Settings, fit_layout, spread_of


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
    scale = spread_of(target)
    settings = Settings(
        target=1e-15, max_steps=max_steps, damping=1e-8, geodesic=False, stall_steps=0, patience=3
    )
    found = fit_layout(layout, network.flat(), x, target, settings=settings)
    theta, num_steps = found.parameters, found.num_steps
    outputs, jacobian = layout.linearise(theta, x)
    r = (outputs - target).ravel()
    decomposition = _Decomposition(jacobian)
    for _ in range(max_final):
        trial = theta - decomposition.solve(r)
        outputs, jacobian = layout.linearise(trial, x)
        after = (outputs - target).ravel()
        if not np.all(np.isfinite(after)) or after @ after >= r @ r * (1 - 1e-3):
            break
        theta, r, num_steps = trial, after, num_steps + 1
        decomposition = _Decomposition(jacobian)
    rms = float(np.sqrt(np.mean(r**2)))
    spare = max(len(r) - layout.num_parameters, 1)
    level = max(noise, float(np.sqrt(r @ r / spare)))
    return Polished(
        network=layout.network(theta),
        rms=rms / scale,
        num_steps=num_steps,
        singular_values=decomposition.values,
        standard_errors=level * decomposition.deviations(),
        null_directions=decomposition.null_directions(),
    )


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
