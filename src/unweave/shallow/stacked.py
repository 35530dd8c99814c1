"""Levenberg-Marquardt for a stack of shallow networks at once, each run with its own data and damping.

The step is that of ``shallow.steps`` (dual where parameters outnumber samples, primal otherwise) without geodesic
acceleration; what it promises and Nielsen's damping are those of ``solve.step``. Small systems by the hundred are what
a landscape needs: one call of LAPACK for all runs, and runs leave the stack as they end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.shallow.loss import LocalLoss, ShallowLoss
from unweave.solve.step import eased, propose

LARGEST_DAMPING = 1e12
"""Steps this much damped move nothing; more would only overflow."""


@dataclass(frozen=True)
class StackSettings:
    """When a run leaves the stack."""

    max_steps: int = 200
    target: float = 1e-26
    """At this loss, relative to that of the zero network."""
    damping: float = 1e-2
    patience: int = 60
    """After this many successive steps that gain less than ``gain`` ..."""
    gain: float = 1e-4


@dataclass(frozen=True, eq=False)
class StackEnd:
    """Where each run ended."""

    parameters: np.ndarray
    value: np.ndarray
    num_steps: np.ndarray


def minimise_stack(loss: ShallowLoss, start: np.ndarray, settings: StackSettings | None = None) -> StackEnd:
    """Minimise every run of a stack (B, p)."""
    s = StackSettings() if settings is None else settings
    theta = np.array(start, dtype=np.float64)
    count, n = len(theta), loss.num_samples
    floor = s.target * np.mean(loss.y**2, axis=-1) / 2
    damping, growth = np.full(count, s.damping), np.full(count, 2.0)
    quiet, steps = np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    value, active = loss.value(theta), np.arange(count)
    part = loss
    for _ in range(s.max_steps):
        kept = (value[active] > floor[active]) & (quiet[active] < s.patience) & np.isfinite(value[active])
        if not kept.all():
            active, part = active[kept], part.rows(kept)
        if not len(active):
            break
        here = part.at(theta[active])
        shift = damping[active] * _mean_square(here)
        with np.errstate(over="ignore", invalid="ignore"):
            trial, squares, promised = propose(
                here.theta, here.residual, _damped(here, shift), here.push, part.residual, np
            )
        before, after = here.value, np.where(np.isfinite(squares), squares / (2 * n), np.inf)
        good = after < before
        gained = (before - np.minimum(after, 10 * before)) / np.maximum(promised / (2 * n), 1e-300)
        theta[active] = np.where(good[:, None], trial, here.theta)
        value[active] = np.where(good, after, before)
        damped = np.minimum(damping[active] * growth[active], LARGEST_DAMPING)
        damping[active] = np.where(good, eased(damping[active], np.maximum(gained, -1.0), 1e-14, np), damped)
        growth[active] = np.where(good, 2.0, np.minimum(2 * growth[active], LARGEST_DAMPING))
        slow = ~good | (before - after < s.gain * before)
        quiet[active] = np.where(slow, quiet[active] + 1, 0)
        steps[active] += 1
    return StackEnd(theta, value, steps)


def _damped(here: LocalLoss, shift: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """``b -> (J'J + shift I)^-1 J'b`` of every run."""
    n, size = here.loss.num_samples, here.loss.num_parameters
    if n <= size:
        matrix = here.gram()
        matrix[:, np.arange(n), np.arange(n)] += shift[:, None]
        return lambda b: here.pull(np.linalg.solve(matrix, b[..., None])[..., 0])
    jacobian = here.jacobian()
    matrix = np.swapaxes(jacobian, -1, -2) @ jacobian
    matrix[:, np.arange(size), np.arange(size)] += shift[:, None]
    return lambda b: np.linalg.solve(matrix, here.pull(b)[..., None])[..., 0]


def _mean_square(here: LocalLoss) -> np.ndarray:
    """``trace(J'J) / p`` of every run."""
    squares = np.sum(np.sum(here.slope**2, axis=-1) * np.sum(here.loss.x**2, axis=-1), axis=-1)
    if here.loss.output is None:
        squares = squares + np.sum(here.phi**2, axis=(-1, -2))
    return np.maximum(squares / here.loss.num_parameters, 1e-300)
