"""Levenberg-Marquardt for a stack of shallow networks at once, each run with its own data and damping.

The step is that of ``shallow.steps`` (dual where parameters outnumber samples, primal otherwise) without geodesic
acceleration, Nielsen's damping as in ``levenberg_marquardt``. Small systems by the hundred are what a landscape needs:
one call of LAPACK for all runs, and runs leave the stack as they end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.shallow.loss import LocalLoss, ShallowLoss

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
    count = len(theta)
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
        unit = _mean_square(here)
        shift = damping[active] * unit
        move, predicted = _step(here, shift)
        reach = 2.0 * (1.0 + np.linalg.norm(theta[active], axis=1))
        length = np.linalg.norm(move, axis=1)
        move *= np.minimum(1.0, reach / np.maximum(length, 1e-300))[:, None]
        before = here.value
        with np.errstate(over="ignore", invalid="ignore"):
            after = part.value(theta[active] + move)
            after = np.where(np.isfinite(after), after, np.inf)
        good = after < before
        ratio = np.clip((before - np.minimum(after, 10 * before)) / np.maximum(predicted, 1e-300), -1.0, 1.0)
        theta[active] += np.where(good[:, None], move, 0.0)
        value[active] = np.where(good, after, before)
        eased = damping[active] * np.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        damped = np.minimum(damping[active] * growth[active], LARGEST_DAMPING)
        damping[active] = np.where(good, np.maximum(eased, 1e-14), damped)
        growth[active] = np.where(good, 2.0, np.minimum(2 * growth[active], LARGEST_DAMPING))
        slow = ~good | (before - after < s.gain * before)
        quiet[active] = np.where(slow, quiet[active] + 1, 0)
        steps[active] += 1
    return StackEnd(theta, value, steps)


def _step(here: LocalLoss, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The damped steps and the gains of the loss they promise."""
    loss, n = here.loss, here.loss.num_samples
    if n <= loss.num_parameters:
        matrix = here.gram()
        matrix[:, np.arange(n), np.arange(n)] += shift[:, None]
        move = -here.pull(np.linalg.solve(matrix, here.residual[..., None])[..., 0])
    else:
        jacobian = here.jacobian()
        matrix = np.swapaxes(jacobian, -1, -2) @ jacobian
        size = loss.num_parameters
        matrix[:, np.arange(size), np.arange(size)] += shift[:, None]
        move = -np.linalg.solve(matrix, n * here.gradient[..., None])[..., 0]
    predicted = np.sum(move * (shift[:, None] * move / n - here.gradient), axis=1) / 2
    return move, predicted


def _mean_square(here: LocalLoss) -> np.ndarray:
    """``trace(J'J) / p`` of every run."""
    squares = np.sum(np.sum(here.slope**2, axis=-1) * np.sum(here.loss.x**2, axis=-1), axis=-1)
    if here.loss.output is None:
        squares = squares + np.sum(here.phi**2, axis=(-1, -2))
    return np.maximum(squares / here.loss.num_parameters, 1e-300)
