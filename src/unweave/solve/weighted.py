"""Least squares with each answer weighted by its accuracy, through a triangular factor.

Answers asked far out carry, besides their noise, the rounding of the input: ``eps |x| |grad f(x)|``. With rows
divided by that accuracy one Gauss-Newton step reaches the statistically best parameters from any exact start, and
the triangular factor gives their standard errors (``information``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.deadline import held
from unweave.core.network import Network
from unweave.solve.information import Information, from_triangle, gauge_rows, unit_errors
from unweave.solve.layout import Layout
from unweave.solve.propagated import propagated_rounding

EPS = float(np.finfo(float).eps)
MOST_PARAMETERS, MOST_ENTRIES = 3500, 6e7
"""Larger Jacobians are not factorised: the cost is cubic in the parameters."""
REACHES = (1e3, 1e5, 1e6)
"""A correction of relative size 1/reach may carry answers beyond |x| |w| = reach across a hyperplane: they are taken
in step by step, the farther the more exact the network already is."""


@dataclass(frozen=True)
class WeightedSystem:
    """What weighted answers determine, and the level of their residual."""

    information: Information
    level: float
    """Root mean square of the weighted residual, 1 when it is what the accuracy explains."""

    def standard_errors(self) -> np.ndarray:
        """One per parameter in ``Network.flat``'s order."""
        return max(self.level, 1.0) * self.information.deviations

    def unit_errors(self, network: Network) -> np.ndarray:
        """The largest of each unit's, relative to its largest parameter."""
        return unit_errors(network, self.standard_errors())


def weighted_system(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    noise: float | np.ndarray,
    *,
    unit: float = EPS,
    reach: float = REACHES[-1],
    propagated: bool = False,
) -> WeightedSystem | None:
    """Factorise the weighted Jacobian on (x, y); None when it is too large or has too few rows.

    ``noise`` is the error of an ordinary answer, or of each (n,), ``unit`` the relative rounding of the model's
    arithmetic; ``propagated``: answers are as exact as that rounding, carried through the network, leaves them.
    """
    count = network.num_parameters
    if count > MOST_PARAMETERS or y.size * count > MOST_ENTRIES:
        return None
    near = _near(network, x, noise, reach)
    x, y, noise = x[near], y[near], _of(noise, near)
    if y.size < count:
        return None
    layout, theta = Layout.of(network), network.flat()
    outputs, jacobian = layout.linearise(theta, x)
    accuracy = (
        propagated_rounding(network, x, unit) if propagated else answer_accuracy(network, x, noise, unit)
    )
    accuracy = accuracy.ravel()
    residual = (outputs - y).ravel() / accuracy
    jacobian /= accuracy[:, None]
    gauge = gauge_rows(layout, theta).toarray() * np.linalg.norm(jacobian, axis=0)
    jacobian, residual = np.concatenate([jacobian, gauge]), np.concatenate([residual, np.zeros(len(gauge))])
    level = float(np.sqrt(residual @ residual / max(len(residual) - count, 1)))
    return WeightedSystem(from_triangle(jacobian, residual), level)


def time_allows(network: Network, y: np.ndarray, *, late: bool = False) -> bool:
    """Whether the run that this is part of has time for the system of so many answers (see ``Deadline.allows``)."""
    count = network.num_parameters
    return count > MOST_PARAMETERS or held().allows(2.0 * y.size * count**2, late=late)


def weighted_polish(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    noise: float | np.ndarray,
    *,
    unit: float = EPS,
    max_steps: int = 2,
) -> Network:
    """Gauss-Newton steps on the weighted answers, from near to far, each kept only if the residual falls.

    There are none that would outlast the time limit of the run.
    """
    for reach in REACHES:
        for _ in range(max_steps):
            if not time_allows(network, y):
                return network
            system = weighted_system(network, x, y, noise, unit=unit, reach=reach)
            if system is None or system.level <= 1.0 or not system.information.is_regular:
                break
            near = _near(network, x, noise, reach)
            bars = _of(noise, near)
            trial = network.with_flat(network.flat() - system.information.step)
            before = _misfit(network, x[near], y[near], bars, unit)
            gain = _misfit(trial, x[near], y[near], bars, unit) / before
            if not gain < 1:
                break
            network = trial
            if gain > 0.5:
                break
    return network


def _misfit(network: Network, x: np.ndarray, y: np.ndarray, noise: float | np.ndarray, unit: float) -> float:
    return float(np.sum(((network(x) - y) / answer_accuracy(network, x, noise, unit)) ** 2))


def answer_accuracy(
    network: Network, x: np.ndarray, noise: float | np.ndarray, unit: float = EPS
) -> np.ndarray:
    """How exact each answer can be, (n, outputs): its noise, its own rounding and that of its input."""
    noise = np.maximum(np.reshape(noise, (-1, 1)), 1e-300)
    leverage = np.linalg.norm(x, axis=1)[:, None] * gradient_norms(network, x)
    return np.hypot(noise, unit * (leverage if unit == EPS else leverage + np.abs(network(x))))


def _of(noise: float | np.ndarray, rows: np.ndarray) -> float | np.ndarray:
    return noise[rows] if isinstance(noise, np.ndarray) else noise


def _near(network: Network, x: np.ndarray, noise: float | np.ndarray, reach: float) -> np.ndarray:
    """Answers near enough to the origin, or far enough from every hyperplane, to be linear in small corrections."""
    sizes = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(network.weights[0], axis=1)
    arguments = np.abs(x @ network.weights[0].T + network.biases[0])
    kept = np.all((sizes <= reach) | (arguments > 40 + sizes / REACHES[0]), axis=1)
    return kept & np.isfinite(noise)


def relative_errors(
    network: Network, x: np.ndarray, y: np.ndarray, least: np.ndarray | float = 0.0
) -> np.ndarray:
    """The largest error over the outputs at each point, relative to the larger of spread and ``|x| |grad f|``.

    ``least`` (n,) is what an error is at least compared with, where the answers have errors of their own.
    """
    if not len(x):
        return np.zeros(0)
    values = network(x)
    leverage = np.linalg.norm(x, axis=1)[:, None] * gradient_norms(network, x)
    spread = np.std(y, axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.max(np.abs(y), axis=0), 1e-300))
    sizes = np.maximum(np.maximum(spread, leverage), np.reshape(least, (-1, 1)))
    return np.max(np.abs(values - y) / sizes, axis=1)


def gradient_norms(network: Network, x: np.ndarray) -> np.ndarray:
    """``|grad f_k(x)|`` for every point and output, (n, outputs)."""
    h, slopes = x, []
    for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
        z = h @ w.T + b
        h = act.get(name)(z)
        slopes.append(act.get(name).first(z, np))
    norms = []
    for output in range(network.output_size):
        back = slopes[-1][:, [output]] * network.weights[-1][output]
        for w, slope in zip(reversed(network.weights[:-1]), reversed(slopes[:-1]), strict=True):
            back = (back * slope) @ w
        norms.append(np.linalg.norm(back, axis=1))
    return np.stack(norms, axis=1)
