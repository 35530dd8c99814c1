"""Trust region with negative curvature: descends from saddles too, and ends at second-order stationary points.

Each step minimises the quadratic model inside a ball. With the Hessian at hand (``DENSE`` parameters and fewer) that is
exact, by its eigendecomposition, the hard case included, and runs as a stack: one radius a run. Beyond, conjugate
gradients with Steihaug's rule follow Hessian-vector products, and Lanczos looks for a way down where the gradient
vanishes.

The ball is relative: every unit's weights count in multiples of their own length (``relative_scales``), so that
valleys along which weights grow without end are followed in few steps, and "stationary" means the same at any scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.shallow.lanczos import least_eigenpair
from unweave.shallow.loss import LocalLoss, ShallowLoss

DENSE = 500


@dataclass(frozen=True)
class TrustSettings:
    """When to stop. ``within``: what the model still promises in a relative unit ball, as a fraction of the loss."""

    max_steps: int = 200
    target: float = 1e-26
    """Stop at this loss relative to that of the zero network."""
    within: float = 1e-9
    radius: float = 0.1
    largest_radius: float = 2.0


@dataclass(frozen=True, eq=False)
class TrustEnd:
    """Where each run ended: parameters, loss, gradient and least curvature in the relative metric, steps taken."""

    parameters: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    curvature: np.ndarray
    num_steps: np.ndarray


def promised_decrease(gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """What the quadratic model can gain within a unit ball: ``|g| + max(0, -lambda) / 2``."""
    return gradient + np.maximum(0.0, -curvature) / 2


def relative_scales(loss: ShallowLoss, theta: np.ndarray) -> np.ndarray:
    """The length of the unit each parameter belongs to (its row, or its output weight), bounded away from 0."""
    weights, output = loss.split(theta)
    norms = np.linalg.norm(weights, axis=-1)
    rows = np.broadcast_to((norms + 0.05)[..., None], weights.shape)
    return loss.join(rows, np.abs(output) + 0.01 / (1 + norms))


def descend_stack(loss: ShallowLoss, start: np.ndarray, settings: TrustSettings | None = None) -> TrustEnd:
    """Exact steps for a stack of runs (B, p)."""
    s = TrustSettings() if settings is None else settings
    theta = np.array(start, dtype=np.float64)
    count = len(theta)
    floor = s.target * np.maximum(np.mean(loss.y**2, axis=-1) / 2, 1e-300)
    radius = np.full(count, s.radius)
    value, gradient, curvature = (np.full(count, np.inf) for _ in range(3))
    steps, active = np.zeros(count, dtype=int), np.arange(count)
    rejected = np.zeros(count, dtype=int)
    for _ in range(s.max_steps):
        part = loss.rows(active)
        here = part.at(theta[active])
        scale = relative_scales(part, here.theta)
        values, vectors = np.linalg.eigh(here.hessian() * scale[:, :, None] * scale[:, None, :])
        slope = here.gradient * scale
        along = (slope[:, None, :] @ vectors)[:, 0, :]
        value[active], curvature[active] = here.value, values[:, 0]
        gradient[active] = np.linalg.norm(slope, axis=-1)
        promise = promised_decrease(gradient[active], curvature[active])
        done = (here.value <= floor[active]) | (promise <= s.within * here.value) | (rejected[active] > 12)
        if done.all():
            break
        keep = ~done
        active = active[keep]
        step, predicted = _ball_minimum(values[keep], along[keep], radius[active])
        move = (vectors[keep] @ step[..., None])[..., 0] * scale[keep]
        after = part.rows(keep).value(theta[active] + move)
        gained = here.value[keep] - after
        ratio = gained / np.maximum(predicted, 1e-300)
        good = np.isfinite(after) & (gained > 0) & (ratio > 1e-4)
        theta[active] += np.where(good[:, None], move, 0.0)
        length = np.linalg.norm(step, axis=-1)
        shrunk = np.where(good, np.where(ratio < 0.25, 0.5, 1.0), 0.25)
        grown = good & (ratio > 0.75) & (length > 0.9 * radius[active])
        radius[active] = np.clip(
            np.where(grown, 2 * radius[active], np.minimum(radius[active], 2 * length + 1e-300) * shrunk),
            1e-14,
            s.largest_radius,
        )
        rejected[active] = np.where(good, 0, rejected[active] + 1)
        steps[active] += 1
    else:
        here = loss.rows(active).at(theta[active])
        scale = relative_scales(here.loss, here.theta)
        scaled = here.hessian() * scale[:, :, None] * scale[:, None, :]
        value[active], curvature[active] = here.value, np.linalg.eigvalsh(scaled)[:, 0]
        gradient[active] = np.linalg.norm(here.gradient * scale, axis=-1)
    return TrustEnd(theta, value, gradient, curvature, steps)


def _ball_minimum(values: np.ndarray, along: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The minimum of ``along . s + sum values s^2 / 2`` over ``|s| <= radius`` in the eigenbasis, and its promise."""
    lowest = values[:, :1]
    base = np.maximum(0.0, -lowest)
    tiny = 1e-15 * np.maximum(np.max(np.abs(values), axis=1, keepdims=True), 1e-300)
    low, high = base + tiny, base + np.linalg.norm(along, axis=1, keepdims=True) / radius[:, None] + 2 * tiny

    def solve(shift: np.ndarray) -> np.ndarray:
        return -along / (values + shift)

    free = solve(low)
    inside = np.linalg.norm(free, axis=1) <= radius
    for _ in range(50):
        middle = np.sqrt(low * high)
        long = np.linalg.norm(solve(middle), axis=1, keepdims=True) > radius[:, None]
        low, high = np.where(long, middle, low), np.where(long, high, middle)
    step = np.where(inside[:, None], free, solve(high))
    # Hard case: the gradient has no part along the least eigenvector, which then fills the ball.
    hard = inside & (lowest[:, 0] < -tiny[:, 0])
    missing = np.sqrt(np.maximum(radius**2 - np.sum(step**2, axis=1), 0.0))
    step[:, 0] += np.where(hard, np.where(along[:, 0] > 0, -missing, missing), 0.0)
    predicted = -np.sum(along * step + values * step**2 / 2, axis=1)
    return step, predicted


def descend(
    loss: ShallowLoss,
    start: np.ndarray,
    settings: TrustSettings | None = None,
    watch: Callable[[LocalLoss], None] | None = None,
) -> TrustEnd:
    """One run with Hessian-vector products alone."""
    s = TrustSettings() if settings is None else settings
    theta, radius, curvature = np.array(start, dtype=np.float64), s.radius, np.nan
    floor, failures, num_steps = s.target * max(float(np.mean(loss.y**2)) / 2, 1e-300), 0, 0
    here = loss.at(theta)
    for _ in range(s.max_steps):
        if watch is not None:
            watch(here)
        value, size = float(here.value), float(np.linalg.norm(here.gradient))
        if value <= floor or failures > 12:
            break
        if size <= 1e-6 * value:
            lowest = least_eigenpair(here.hessian_product, len(theta))
            curvature = lowest.value
            if promised_decrease(np.array(size), np.array(curvature)) <= s.within * value:
                break
            side = -1.0 if here.gradient @ lowest.direction > 0 else 1.0
            step = side * radius * lowest.direction
            if curvature >= 0:
                step = _truncated_step(here, radius)
        else:
            step = _truncated_step(here, radius)
        predicted = -float(here.gradient @ step + step @ here.hessian_product(step) / 2)
        there = loss.at(theta + step)
        gained = value - float(there.value)
        num_steps += 1
        if np.isfinite(gained) and gained > 0 and gained > 1e-4 * predicted:
            theta, here, failures = theta + step, there, 0
            if gained > 0.75 * predicted and np.linalg.norm(step) > 0.9 * radius:
                radius = min(2 * radius, s.largest_radius)
            elif gained < 0.25 * predicted:
                radius /= 2
        else:
            radius, failures = 0.25 * min(radius, float(np.linalg.norm(step))), failures + 1
    if not np.isfinite(curvature):
        curvature = least_eigenpair(here.hessian_product, len(theta)).value
    size = float(np.linalg.norm(here.gradient))
    return TrustEnd(theta, np.array(here.value), np.array(size), np.array(curvature), np.array(num_steps))


def _truncated_step(here: LocalLoss, radius: float, most: int = 250) -> np.ndarray:
    """Steihaug: conjugate gradients until the ball's edge, a direction of negative curvature, or a small residual."""
    gradient = here.gradient
    step, rest = np.zeros_like(gradient), gradient.copy()
    direction, size = -rest, float(rest @ rest)
    goal = size * min(0.1, np.sqrt(size)) ** 2
    for _ in range(most):
        product = here.hessian_product(direction)
        bend = float(direction @ product)
        reach = np.inf if bend <= 0 else size / bend
        if bend <= 0 or np.linalg.norm(step + reach * direction) >= radius:
            return step + _to_edge(step, direction, radius) * direction
        step = step + reach * direction
        rest = rest + reach * product
        before, size = size, float(rest @ rest)
        if size <= goal:
            break
        direction = -rest + (size / before) * direction
    return step


def _to_edge(step: np.ndarray, direction: np.ndarray, radius: float) -> float:
    a, b, c = direction @ direction, 2 * step @ direction, step @ step - radius**2
    return float((-b + np.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a))
