"""Is there an exact interpolant next to this point? The test of Newton and Kantorovich, with explicit constants.

Let r be the residual, J its Jacobian with least singular value s > 0 (no fewer parameters than samples), and let J
be Lipschitz with constant l on the ball of radius ``2 |r| / s``. If ``h = l |r| / s^2 <= 1/2``, the equations have an
exact solution within ``(1 - sqrt(1 - 2h)) s / l`` of the point (Newton's method restricted to the rows of J is a square
system there). The solution has loss 0, so it is a global minimum. Residuals count with the rounding of their own
evaluation, singular values with that of their computation.

Second derivatives are bounded by closed forms; an activation with kinks has none in a ball that meets no kink.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unweave.core.activations import Activation
from unweave.shallow.loss import LocalLoss

ROUNDING = 2.0**-52


@dataclass(frozen=True, eq=False)
class Interpolation:
    """Of one point, or of each run of a stack. ``h`` above 1/2: nothing is proved."""

    h: np.ndarray
    radius: np.ndarray
    """An exact interpolant lies this close, where ``proved``."""
    residual: np.ndarray
    least_singular_value: np.ndarray
    lipschitz: np.ndarray

    @property
    def proved(self) -> np.ndarray:
        return (self.h <= 0.5) & np.isfinite(self.radius)


def check_interpolation(here: LocalLoss) -> Interpolation | None:
    """None when it can't be checked: fewer parameters than samples, or an activation without bounds."""
    loss = here.loss
    if loss.num_samples > loss.num_parameters:
        return None
    least = _least_singular_value(here)
    size = np.linalg.norm(np.abs(here.residual) + _residual_rounding(here), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(least > 0, 2 * size / least, np.inf)
        lipschitz = _lipschitz_constant(here, reach)
        if lipschitz is None:
            return None
        h = np.where(least > 0, lipschitz * size / least**2, np.inf)
        inner = np.sqrt(np.maximum(1 - 2 * h, 0.0))
        # The stable form of (1 - sqrt(1 - 2h)) s / l.
        radius = np.where(h <= 0.5, 2 * size / least / (1 + inner), np.inf)
    return Interpolation(h, radius, size, least, lipschitz)


def derivative_bounds(
    activation: Activation, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds of ``|phi'|`` and of the Lipschitz constant of ``phi'`` on ``[low, high]``; None where not known."""
    name, _, parameter = activation.name.partition("(")
    reach = np.maximum(np.abs(low), np.abs(high))
    ones = np.ones_like(reach)
    if name in _BOUNDS:
        first, second = _BOUNDS[name]
        return first * ones, second * ones
    if name == "softplus":
        return ones, float(parameter.rstrip(")") or 1) / 4 * ones if parameter else 0.25 * ones
    if name == "quadratic":
        return 2 * reach, 2 * ones
    if name == "exp":
        return np.exp(high), np.exp(high)
    if name in ("relu", "leaky_relu", "step"):
        steepest = max(float(np.max(np.abs(activation.first(np.array([-1.0, 1.0]), np)))), 0.0)
        return steepest * ones, np.where((low > 0) | (high < 0), 0.0, np.inf)
    return None


_BOUNDS = {
    "identity": (1.0, 0.0),
    "tanh": (1.0, 4 / (3 * math.sqrt(3)) + 1e-12),
    "sigmoid": (0.25, 1 / (6 * math.sqrt(3)) + 1e-12),
    "erf": (2 / math.sqrt(math.pi) + 1e-12, 2 * math.sqrt(2 / (math.e * math.pi)) + 1e-12),
    "gelu": (1.13, 0.8),
    "gelu_tanh": (1.14, 0.81),
    "silu": (1.11, 0.5 + 1e-12),
    "elu": (1.0, 1.0),
}
"""Over the whole line; elu without a parameter only, whose first derivative is continuous."""


def _least_singular_value(here: LocalLoss) -> np.ndarray:
    """A lower bound of the least singular value of J: from its Gram matrix where that is exact enough."""
    values = np.linalg.eigvalsh(here.gram())
    slack = 10 * here.loss.num_samples * ROUNDING * values[..., -1]
    by_gram = np.sqrt(np.maximum(values[..., 0] - slack, 0.0))
    if here.theta.ndim > 1 or by_gram > 1e-5 * np.sqrt(values[-1]):
        return by_gram
    singular = np.linalg.svd(here.jacobian(), compute_uv=False)
    return np.maximum(singular[-1] - 10 * len(singular) * ROUNDING * singular[0], 0.0)


def _residual_rounding(here: LocalLoss) -> np.ndarray:
    """How far each computed residual may be from the exact one."""
    loss = here.loss
    norms = np.linalg.norm(here.weights, axis=-1)[..., None, :] * np.linalg.norm(loss.x, axis=-1)[..., None]
    from_arguments = (loss.input_size + 2) * np.sum(np.abs(here.slope) * norms, axis=-1)
    from_sum = (loss.width + 4) * np.sum(np.abs(here.phi) * np.abs(here.output)[..., None, :], axis=-1)
    return ROUNDING * (2 * from_arguments + from_sum + np.abs(loss.y))


def _lipschitz_constant(here: LocalLoss, reach: np.ndarray) -> np.ndarray | None:
    """Of the Jacobian on the ball of radius ``reach``: root sum of squares of one bound a sample."""
    loss = here.loss
    norms = np.linalg.norm(loss.x, axis=-1)
    z = loss.x @ np.swapaxes(here.weights, -1, -2)
    room = (np.asarray(reach)[..., None] * norms)[..., None]
    bounds = derivative_bounds(loss.activation, z - room, z + room)
    if bounds is None:
        return None
    first, second = np.max(bounds[0], axis=-1), np.max(bounds[1], axis=-1)
    trained = loss.output is None
    largest = np.max(np.abs(here.output), axis=-1) + (np.asarray(reach) if trained else 0.0)
    bend = np.asarray(largest)[..., None] * second * norms**2
    each = (bend + np.hypot(bend, 2 * first * norms)) / 2 if trained else bend
    return np.linalg.norm(each, axis=-1)
