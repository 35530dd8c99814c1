"""Levenberg-Marquardt with identity damping and geodesic acceleration.

Minimises ``|r(theta)|^2`` from any start. Each step solves ``(J'J + lambda mean(diag J'J) I) v = -J'r`` (dual
system ``J J'`` when parameters outnumber residuals); damping follows Nielsen (1999). Identity damping lets
surplus directions move freely, which is what brings over-wide students home; Marquardt's diagonal does not.
*Geodesic acceleration* (Transtrum and Sethna 2012) adds half the second-order correction
``a = -(J'J + ...)^-1 J' r_vv``, with ``r_vv`` by one extra evaluation at ``theta + h v``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from unweave.core import clock
from unweave.core.deadline import held
from unweave.solve.step import DenseProblem, Linearise, Residual, eased

COARSE = 0.1
"""Second difference, as a fraction of the step, that rounding does not spoil."""


@dataclass(frozen=True)
class Settings:
    """When to stop, when to give a start up, how boldly to step."""

    target: float = 1e-13
    """Stop at this root mean square residual, relative to ``scale``."""
    max_steps: int = 200
    damping: float = 1e-2
    least_damping: float = 1e-14
    """Good steps lower the damping down to this."""
    geodesic: bool = True
    difference: float = 0.1
    """Step of the second difference, as a fraction of v ..."""
    rounding: float = 1e-7
    """... and at least ``COARSE`` below this relative residual, where rounding would spoil a finer one."""
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
    coarse_damping: float = 1e-4
    """A float32 Jacobian is used only above this damping ..."""
    coarse_rms: float = 1e-4
    """... and above this relative residual."""
    inexact: bool = False
    """Large problems on the CPU take steps by a few conjugate gradients (``inexact``): for a way to the basin."""
    deadline: float = float("inf")
    """Stop at this reading of ``core.clock``; the deadline of the run that a fit is part of holds besides."""


class End(StrEnum):
    """Why a minimisation ended."""

    TARGET = "target"
    STATIONARY = "stationary"
    STALLED = "stalled"
    STEPS = "steps"
    TIME = "time"


@dataclass(frozen=True)
class Minimum:
    """Where a minimisation ended."""

    parameters: np.ndarray
    rms: float
    """Root mean square residual relative to the scale."""
    num_steps: int
    end: End
    history: tuple[float, ...] = field(repr=False, default=())

    @property
    def converged(self) -> bool:
        return self.end is End.TARGET

    def after(self, earlier: Minimum) -> Minimum:
        """This one with the steps that led to its start."""
        num_steps = earlier.num_steps + self.num_steps
        return replace(self, num_steps=num_steps, history=earlier.history + self.history[1:])


class Expansion(Protocol):
    """A least-squares problem expanded at one point."""

    loss: float

    def propose(
        self, damping: float, *, geodesic: bool, difference: float, longest_bend: float
    ) -> tuple[Any, float, float] | None:
        """The trial point, its loss and the predicted gain; None when the matrix is not positive definite."""
        ...


class Expandable(Protocol):
    """A least-squares problem; points may live on a device."""

    @property
    def num_residuals(self) -> int: ...

    def expand(self, theta: Any, coarse: bool) -> Expansion:
        """Residual and normal equations at ``theta``; ``coarse`` allows a float32 Jacobian."""
        ...


def minimise(
    residual: Residual,
    linearise: Linearise,
    start: np.ndarray,
    *,
    scale: float = 1.0,
    settings: Settings | None = None,
    coarse: Linearise | None = None,
) -> Minimum:
    """Minimise ``|r|`` from ``start``; ``linearise`` returns the residual and its Jacobian at a point.

    ``coarse``, where given, is the same with a float32 Jacobian: faster, and accurate enough while the
    damping is well above float32 rounding.
    """
    start = np.array(start, dtype=np.float64)
    return descend(DenseProblem(residual, linearise, len(residual(start)), coarse), start, scale, settings)


def descend(problem: Expandable, start: Any, scale: float, settings: Settings | None = None) -> Minimum:
    """From one start: propose, accept or damp, until target, stall, stationarity, steps or time."""
    s = Settings() if settings is None else settings
    with np.errstate(over="ignore", invalid="ignore"):
        theta, here = start, problem.expand(start, s.damping >= s.coarse_damping)
        course = Course(here.loss, problem.num_residuals, scale, s)
        while course.goes_on():
            proposal = here.propose(
                course.damping, geodesic=s.geodesic, difference=course.difference, longest_bend=s.longest_bend
            )
            trial, loss, predicted = (theta, float("nan"), 0.0) if proposal is None else proposal
            if course.take(loss, predicted):
                rough = course.damping >= s.coarse_damping and course.rms >= s.coarse_rms
                theta, here = trial, problem.expand(trial, rough)
    return course.minimum(theta)


class Course:
    """One start on its way: its damping, what it has reached, and why it has ended."""

    loss: float
    damping: float

    def __init__(self, loss: float, num_residuals: int, scale: float, settings: Settings):
        self._settings, self._num_residuals, self._scale = settings, max(num_residuals, 1), scale
        self.loss, self._growth, self._quiet = loss, 2.0, 0
        self._history = [self._rms(loss)]
        self._end: End | None = None
        self.damping = settings.damping

    @property
    def rms(self) -> float:
        return self._history[-1]

    @property
    def difference(self) -> float:
        """Step of the next second difference."""
        s = self._settings
        return s.difference if self.rms > s.rounding else max(s.difference, COARSE)

    def goes_on(self) -> bool:
        """Whether there is another step to take."""
        self._end = self._end or self._why_ended()
        return self._end is None

    def take(self, loss: float, predicted: float) -> bool:
        """Whether the step to a trial of this loss is taken; NaN: the damped matrix was not positive definite."""
        accepted = loss < self.loss
        if np.isnan(loss):
            self.damping, self._growth = self.damping * 4, 2.0
        elif accepted:
            gain = 1.0 - np.sqrt(loss / self.loss)
            ratio = (self.loss - loss) / max(predicted, 1e-300)
            self.damping = float(eased(self.damping, ratio, self._settings.least_damping, np))
            self._growth = 2.0
            self._quiet = self._quiet + 1 if gain < self._settings.stationary_gain else 0
            self.loss = loss
        else:
            self.damping, self._growth, self._quiet = (
                self.damping * self._growth,
                self._growth * 2,
                self._quiet + 1,
            )
        self._history.append(self._rms(self.loss))
        return accepted

    def minimum(self, parameters: Any) -> Minimum:
        """Where it ended, given the point."""
        return Minimum(
            np.array(parameters, dtype=np.float64),
            self.rms,
            len(self._history) - 1,
            self._end or End.STEPS,
            tuple(self._history),
        )

    def _why_ended(self) -> End | None:
        """None while it has not."""
        s, history, quiet = self._settings, self._history, self._quiet
        if self.rms <= s.target:
            return End.TARGET
        if (quiet >= s.patience and self.damping < 1e-3) or quiet >= 3 * s.patience:
            return End.STATIONARY
        if len(history) > s.max_steps:
            return End.STEPS
        if clock.now() > s.deadline or held().passed:
            return End.TIME
        if not s.stall_steps or len(history) <= s.stall_steps or self.rms <= s.stall_above:
            return None
        return End.STALLED if self.rms > (1 - s.stall_gain) * history[-1 - s.stall_steps] else None

    def _rms(self, loss: float) -> float:
        return float(np.sqrt(loss / self._num_residuals)) / self._scale
