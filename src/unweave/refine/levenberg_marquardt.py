"""Levenberg-Marquardt with identity damping and geodesic acceleration.

Minimises ``|r(theta)|^2`` from any start. Each step solves ``(J'J + lambda mean(diag J'J) I) v = -J'r`` (dual
system ``J J'`` when parameters outnumber residuals); damping follows Nielsen (1999). Identity damping lets
surplus directions move freely, which is what brings over-wide students home; Marquardt's diagonal does not.
*Geodesic acceleration* (Transtrum and Sethna 2012) adds half the second-order correction
``a = -(J'J + ...)^-1 J' r_vv``, with ``r_vv`` by one extra evaluation at ``theta + h v``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from unweave.network import Network
from unweave.refine.layout import Layout

Residual = Callable[[np.ndarray], np.ndarray]
Linearise = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Settings:
    """When to stop, when to give a start up, how boldly to step."""

    target: float = 1e-13
    """Stop at this root mean square residual, relative to ``scale``."""
    max_steps: int = 200
    damping: float = 1e-2
    geodesic: bool = True
    difference: float = 0.1
    """Step of the second difference, as a fraction of v."""
    longest_bend: float = 1.5
    """Acceleration is skipped when |a| exceeds this multiple of |v|."""
    stall_above: float = 2e-3
    """A start is given up only while the relative residual is above this ..."""
    stall_gain: float = 0.07
    """... and fell by less than this fraction ..."""
    stall_steps: int = 15
    """... over this many steps. 0: never give up."""
    patience: int = 4
    """Stop as stationary after this many successive steps that gain less than ``stationary_gain``."""
    stationary_gain: float = 1e-4
    time_limit: float = float("inf")


@dataclass(frozen=True)
class Minimum:
    """Where a minimisation ended. ``end`` is "target", "stationary", "stalled", "steps" or "time"."""

    parameters: np.ndarray
    rms: float
    """Root mean square residual relative to the scale."""
    num_steps: int
    end: str
    history: tuple[float, ...] = field(repr=False, default=())

    @property
    def converged(self) -> bool:
        return self.end == "target"


@dataclass(frozen=True)
class Fit:
    """A fitted network. ``rms`` is relative to the spread of the targets."""

    network: Network
    rms: float
    num_steps: int
    end: str
    history: tuple[float, ...] = field(repr=False, default=())

    @property
    def converged(self) -> bool:
        return self.end == "target"


def minimise(
    residual: Residual,
    linearise: Linearise,
    start: np.ndarray,
    *,
    scale: float = 1.0,
    settings: Settings | None = None,
) -> Minimum:
    """Minimise ``|r|`` from ``start``; ``linearise`` returns the residual and its Jacobian at a point."""
    s = Settings() if settings is None else settings
    began = time.monotonic()
    theta = np.array(start, dtype=np.float64)
    r, jacobian = linearise(theta)
    num_residuals = max(len(r), 1)
    loss = float(r @ r)
    history = [_rms(loss, num_residuals, scale)]
    damping, growth, quiet = s.damping, 2.0, 0
    system = _System(jacobian, r)
    for step in range(1, s.max_steps + 1):
        if history[-1] <= s.target:
            return Minimum(theta, history[-1], step - 1, "target", tuple(history))
        if time.monotonic() - began > s.time_limit:
            return Minimum(theta, history[-1], step - 1, "time", tuple(history))
        if _has_stalled(history, s):
            return Minimum(theta, history[-1], step - 1, "stalled", tuple(history))
        if not system.factor(damping):
            damping, growth = damping * 4, 2.0
            history.append(history[-1])
            continue
        v = system.solve(-r)
        length, reach = float(np.linalg.norm(v)), 2.0 * (1.0 + float(np.linalg.norm(theta)))
        if length > reach:
            v *= reach / length
        predicted = float(v @ (damping * system.unit * v - system.gradient))
        trial, trial_loss = _step(residual, system, theta, r, v, s)
        ratio = (loss - trial_loss) / max(predicted, 1e-300) if np.isfinite(trial_loss) else -1.0
        if trial_loss < loss:
            gain = 1.0 - np.sqrt(trial_loss / loss)
            theta = trial
            r, jacobian = linearise(theta)
            loss = float(r @ r)
            system = _System(jacobian, r)
            damping = max(damping * max(1 / 3, 1 - (2 * min(ratio, 1.0) - 1) ** 3), 1e-14)
            growth = 2.0
            quiet = quiet + 1 if gain < s.stationary_gain else 0
        else:
            damping, growth, quiet = damping * growth, growth * 2, quiet + 1
        history.append(_rms(loss, num_residuals, scale))
        if history[-1] > s.target and ((quiet >= s.patience and damping < 1e-3) or quiet >= 3 * s.patience):
            return Minimum(theta, history[-1], step, "stationary", tuple(history))
    end = "target" if history[-1] <= s.target else "steps"
    return Minimum(theta, history[-1], s.max_steps, end, tuple(history))


def fit_network(network: Network, x: np.ndarray, y: np.ndarray, *, settings: Settings | None = None) -> Fit:
    """Fit every parameter of ``network`` to ``y`` (n, outputs) at ``x`` (n, inputs) from its own values."""
    layout = Layout.of(network)
    found = fit_layout(layout, network.flat(), x, y, settings=settings)
    return Fit(layout.network(found.parameters), found.rms, found.num_steps, found.end, found.history)


def fit_layout(
    layout: Layout, start: np.ndarray, x: np.ndarray, y: np.ndarray, *, settings: Settings | None = None
) -> Minimum:
    """Fit the parameters of a layout from ``start``; residuals are relative to the spread of ``y``."""
    target = np.asarray(y, dtype=np.float64).reshape(len(x), -1)

    def residual(theta: np.ndarray) -> np.ndarray:
        return (layout.forward(theta, x) - target).ravel()

    def linearise(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outputs, jacobian = layout.linearise(theta, x)
        return (outputs - target).ravel(), jacobian

    with np.errstate(over="ignore", invalid="ignore"):
        return minimise(residual, linearise, start, scale=spread_of(target), settings=settings)


def spread_of(y: np.ndarray) -> float:
    """The typical deviation of the outputs from their means; 1 for constant outputs."""
    spread = float(np.sqrt(np.mean((y - y.mean(axis=0)) ** 2)))
    return spread if spread > 0 else 1.0


class _System:
    """The damped normal equations at one point, primal or dual, whichever is smaller."""

    def __init__(self, jacobian: np.ndarray, r: np.ndarray):
        self._jacobian = jacobian
        self._dual = jacobian.shape[1] > jacobian.shape[0]
        self._matrix = jacobian @ jacobian.T if self._dual else jacobian.T @ jacobian
        self.gradient = jacobian.T @ r
        self.unit = max(float(np.trace(self._matrix)) / jacobian.shape[1], 1e-300)
        self._cholesky: tuple[np.ndarray, bool] | None = None

    def factor(self, damping: float) -> bool:
        """Prepare ``J'J + damping unit I``; False when it is not positive definite to rounding."""
        matrix = self._matrix.copy(order="F")
        matrix[np.diag_indices_from(matrix)] += damping * self.unit
        try:
            self._cholesky = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return False
        return True

    def solve(self, b: np.ndarray) -> np.ndarray:
        """``(J'J + damping unit I)^-1 J' b``."""
        assert self._cholesky is not None
        if self._dual:
            return self._jacobian.T @ cho_solve(self._cholesky, b, check_finite=False)
        return cho_solve(self._cholesky, self._jacobian.T @ b, check_finite=False)

    def along(self, v: np.ndarray) -> np.ndarray:
        return self._jacobian @ v


def _step(
    residual: Residual, system: _System, theta: np.ndarray, r: np.ndarray, v: np.ndarray, s: Settings
) -> tuple[np.ndarray, float]:
    """The trial point, bent by the second-order correction where that correction is trustworthy."""
    trial = theta + v
    if s.geodesic:
        h = s.difference
        curvature = (2 / h) * ((residual(theta + h * v) - r) / h - system.along(v))
        if np.all(np.isfinite(curvature)):
            bend = system.solve(-curvature)
            if np.linalg.norm(bend) < s.longest_bend * np.linalg.norm(v):
                trial = trial + 0.5 * bend
    after = residual(trial)
    loss = float(after @ after)
    return trial, loss if np.isfinite(loss) else float("inf")


def _has_stalled(history: list[float], s: Settings) -> bool:
    if not s.stall_steps or len(history) <= s.stall_steps or history[-1] <= s.stall_above:
        return False
    return history[-1] > (1 - s.stall_gain) * history[-1 - s.stall_steps]


def _rms(loss: float, num_residuals: int, scale: float) -> float:
    return float(np.sqrt(loss / num_residuals)) / scale
