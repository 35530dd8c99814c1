"""Polish: from a fit inside the basin to the last digit, and how well each parameter is determined.

Levenberg-Marquardt with next to no damping, then Gauss-Newton steps by a singular value decomposition of the
column-scaled Jacobian, which also says what the data determine (``information``). Large networks take normal equations,
which lose half the digits: where something seems to vanish in them it may only be small, and the decomposition decides
while it is affordable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.core.deadline import held
from unweave.core.network import Network
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.information import Information, decompose, from_normal
from unweave.solve.layout import Layout
from unweave.solve.normal import expand_normally

LARGE = 600
"""Parameters beyond which normal equations take the place of a singular value decomposition ..."""
AFFORDABLE = 5e10
"""... unless they leave something open, up to so many residuals times squared parameters: some ten seconds."""


@dataclass(frozen=True)
class Polished:
    """A network at its optimum with what the Jacobian there says about it."""

    network: Network
    rms: float
    """Root mean square residual relative to the spread of the targets."""
    num_steps: int
    information: Information = field(repr=False)
    standard_errors: np.ndarray = field(repr=False)
    """One per parameter, in ``Network.flat``'s order, at the noise of an answer: as stated, or as the residual shows
    where that is larger; infinite where nothing is determined."""

    @property
    def singular_values(self) -> np.ndarray:
        """Of the Jacobian with columns scaled to length one, largest first."""
        return self.information.values

    @property
    def null_directions(self) -> np.ndarray:
        """Columns are directions in (scaled) parameter space that do not change the outputs at the data."""
        return self.information.null


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
    if large.null_directions.shape[1] and is_affordable and not held().passed:
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

        def inform(at: np.ndarray) -> tuple[float, Callable[[], Information]]:
            outputs, jacobian = self.layout.linearise(at, self.x)
            r = (outputs - self.y).ravel()
            return float(r @ r), lambda: decompose(jacobian, r)

        return self._finish(theta, num_steps, inform, self.max_final)

    def solve_normally(self, theta: np.ndarray, num_steps: int) -> Polished:
        """By normal equations: their rounding slows the last steps but not where they end."""

        def inform(at: np.ndarray) -> tuple[float, Callable[[], Information]]:
            equations = expand_normally(self.layout, at, self.x, self.y)
            return equations.loss, lambda: from_normal(equations)

        return self._finish(theta, num_steps, inform, self.max_final + 2)

    def _finish(self, theta: np.ndarray, num_steps: int, inform, max_steps: int) -> Polished:
        """Gauss-Newton while it gains, and the run has time."""
        loss, ask = inform(theta)
        here = ask()
        for _ in range(max_steps):
            if held().passed:
                break
            trial = theta - here.step
            after, ask = inform(trial)
            if not after < loss * (1 - 1e-3):
                break
            theta, loss, here, num_steps = trial, after, ask(), num_steps + 1
        spare = max(self.y.size - self.layout.num_parameters, 1)
        level = max(self.noise, float(np.sqrt(loss / spare)), np.finfo(float).tiny)
        return Polished(
            network=self.layout.network(theta),
            rms=float(np.sqrt(loss / self.y.size)) / spread_of(self.y),
            num_steps=num_steps,
            information=here,
            standard_errors=level * here.deviations,
        )
