"""Gradient descent on a shallow network, plain and perturbed, for one run or a stack of runs.

*Plain*: constant steps, as the experiments of Soltanolkotabi, Javanmard and Lee 2017 run it; a run that
overflows is ended. *Adaptive*: a step that lowers the loss lets the next be 5 % longer, one that does not is
taken back and halved; it follows the same valley to the same basin with far fewer steps. *Perturbed*: where the
gradient has become small but the point is not a minimum, a small random move leaves the saddle;
the trigger is the least curvature, since the gradient is small along the whole approach to a minimum as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.shallow.lanczos import least_eigenpair
from unweave.shallow.loss import LocalLoss, ShallowLoss


@dataclass(frozen=True)
class DescentSettings:
    """``step`` None: adaptive; a number: that step, constant."""

    max_steps: int = 20_000
    step: float | None = None
    first_step: float = 1e-2
    growth: float = 1.05
    target: float = 1e-20
    """Stop at this loss relative to that of the zero network."""
    gradient: float = 0.0
    """Stop where ``|g|`` is at most this times the loss."""


@dataclass(frozen=True, eq=False)
class DescentEnd:
    """Where each run ended, and the losses along the way of all runs (each (steps, runs))."""

    parameters: np.ndarray
    value: np.ndarray
    num_steps: np.ndarray
    history: np.ndarray = field(repr=False)


def descend_stack(
    loss: ShallowLoss, start: np.ndarray, settings: DescentSettings | None = None, *, every: int = 0
) -> DescentEnd:
    """A stack of runs (B, p), plain or adaptive; every ``every``-th loss is kept (0: none)."""
    s = DescentSettings() if settings is None else settings
    theta = np.array(start)
    count = len(theta)
    floor = s.target * np.mean(loss.y**2, axis=-1) / 2
    steps, active = np.zeros(count, dtype=int), np.arange(count)
    value, gradient = loss.value_and_gradient(theta)
    rate = np.full(count, s.first_step if s.step is None else s.step, dtype=theta.dtype)
    history = [value.copy()]
    part, current, now, slope = loss, theta.copy(), value.copy(), gradient
    for number in range(1, s.max_steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            trial = current - rate[active, None] * slope
            after, there = part.value_and_gradient(trial)
        if s.step is None:
            good = after < now
            current = np.where(good[:, None], trial, current)
            slope = np.where(good[:, None], there, slope)
            now = np.where(good, after, now)
            rate[active] *= np.where(good, s.growth, 0.5).astype(rate.dtype)
        else:
            current, slope, now = trial, there, after
        steps[active] += 1
        theta[active], value[active] = current, now
        if every and number % every == 0:
            history.append(value.copy())
        done = (now <= floor[active]) | ~np.isfinite(now) | (rate[active] < 1e-12)
        if s.gradient:
            done |= np.linalg.norm(slope, axis=-1) <= s.gradient * now
        if done.any():
            if done.all():
                break
            kept = ~done
            active, part = active[kept], part.rows(kept)
            current, slope, now = current[kept], slope[kept], now[kept]
    return DescentEnd(theta, value, steps, np.array(history))


def descend(
    loss: ShallowLoss,
    start: np.ndarray,
    settings: DescentSettings | None = None,
    *,
    perturbed: bool = False,
    rng: np.random.Generator | None = None,
    watch: Callable[[LocalLoss], None] | None = None,
    every: int = 100,
) -> DescentEnd:
    """One run; ``perturbed`` leaves saddles by random moves. ``watch`` sees every ``every``-th point."""
    s = DescentSettings() if settings is None else settings
    rng = np.random.default_rng(0) if rng is None else rng
    theta, rate = np.array(start, dtype=np.float64), s.first_step if s.step is None else s.step
    here = loss.at(theta)
    floor = s.target * float(np.mean(loss.y**2)) / 2
    history, wait, number = [float(here.value)], 0, 0
    for number in range(1, s.max_steps + 1):
        value = float(here.value)
        if watch is not None and number % every == 1:
            watch(here)
        if value <= floor or not np.isfinite(value) or rate < 1e-12:
            break
        size = float(np.linalg.norm(here.gradient))
        if size <= max(s.gradient, 1e-4 if perturbed else 0.0) * value and number > wait:
            if not perturbed:
                break
            lowest = least_eigenpair(here.hessian_product, len(theta), num_steps=60, rng=rng)
            if lowest.value >= -1e-6 * value and size <= max(s.gradient, 1e-9) * value:
                break
            wait = number + 100
            if lowest.value < -1e-6 * value:
                kick = rng.standard_normal(len(theta))
                radius = 1e-3 * (1 + float(np.linalg.norm(theta)))
                theta = theta + radius * kick / np.linalg.norm(kick)
                here = loss.at(theta)
        with np.errstate(over="ignore", invalid="ignore"):
            there = loss.at(theta - rate * here.gradient)
            after = float(there.value)
        if s.step is not None:
            theta, here = there.theta, there
        elif after < float(here.value):
            theta, here, rate = there.theta, there, rate * s.growth
        else:
            rate /= 2
        history.append(float(here.value))
    return DescentEnd(theta, np.array(here.value), np.array(number), np.array(history))
