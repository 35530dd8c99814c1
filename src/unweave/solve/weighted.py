"""Least squares with each answer weighted by its accuracy, through a triangular factor.

Answers asked far out carry, besides their noise, the rounding of the input: ``eps |x| |grad f(x)|``. With rows
divided by that accuracy one Gauss-Newton step reaches the statistically best parameters from any exact start, and
the triangular factor gives their standard errors. Cholesky on the normal equations is twice as fast as QR, and
Gauss-Newton steps repair what it rounds; where it would keep fewer than three digits, QR takes over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.solve.layout import Layout

EPS = float(np.finfo(float).eps)
MOST_PARAMETERS, MOST_ENTRIES = 3500, 6e7
"""Larger Jacobians are not factorised: the cost is cubic in the parameters."""
REACHES = (1e3, 1e5, 1e6)
"""A correction of relative size 1/reach may carry answers beyond |x| |w| = reach across a hyperplane: they are taken
in step by step, the farther the more exact the network already is."""
WELL_CONDITIONED = 5e-7
"""Least diagonal of the triangular factor, with columns of length one, for which normal equations serve."""
SINGULAR = 1e11
"""Parameters whose error is amplified by more than this are not determined."""


@dataclass(frozen=True)
class WeightedSystem:
    """The weighted Jacobian of a network as ``Q R diag(scales)``, with ``Q' r`` and the level of r."""

    factor: np.ndarray
    projected: np.ndarray
    scales: np.ndarray
    level: float
    """Root mean square of the weighted residual, 1 when it is what the accuracy explains."""

    @cached_property
    def amplification(self) -> np.ndarray:
        """Error of each scaled parameter when every weighted answer has error one; infinite if undetermined."""
        lengths = np.full(len(self.scales), np.inf)
        if np.min(np.abs(np.diag(self.factor)), initial=np.inf) > 1e-13:
            (invert,) = scipy.linalg.get_lapack_funcs(("trtri",), (self.factor,))
            inverse, _ = invert(self.factor)
            lengths = np.linalg.norm(inverse, axis=1)
        return np.where((self.scales == 0) | (lengths > SINGULAR), np.inf, lengths)

    @property
    def condition(self) -> float:
        """An upper estimate of the condition number of the scaled Jacobian."""
        return float(np.linalg.norm(self.factor) * np.max(self.amplification, initial=0.0))

    def correction(self) -> np.ndarray:
        """What Gauss-Newton subtracts from the parameters."""
        return scipy.linalg.solve_triangular(self.factor, self.projected, check_finite=False) / self.scales

    def standard_errors(self) -> np.ndarray:
        """One per parameter in ``Network.flat``'s order."""
        return max(self.level, 1.0) * self.amplification / np.where(self.scales == 0, 1.0, self.scales)

    def unit_errors(self, network: Network) -> np.ndarray:
        """Largest standard error among each unit's incoming parameters, relative to the largest of those."""
        errors, units, start = self.standard_errors(), [], 0
        for w, b in zip(network.weights, network.biases, strict=True):
            block = errors[start : start + w.size + b.size].reshape(len(w), -1)
            largest = np.max(np.abs(np.hstack([w, b[:, None]])), axis=1)
            units.append(np.max(block, axis=1) / np.maximum(largest, 1e-300))
            start += block.size
        return np.concatenate(units)


def weighted_system(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    noise: float,
    *,
    unit: float = EPS,
    reach: float = REACHES[-1],
) -> WeightedSystem | None:
    """Factorise the weighted Jacobian on (x, y); None when it is too large or has too few rows.

    ``noise`` is the error of an ordinary answer, ``unit`` the relative rounding of the model's arithmetic.
    """
    count = network.num_parameters
    if count > MOST_PARAMETERS or y.size * count > MOST_ENTRIES:
        return None
    x, y = _near(network, x, y, reach)
    if y.size < count:
        return None
    outputs, jacobian = Layout.of(network).linearise(network.flat(), x)
    accuracy = answer_accuracy(network, x, noise, unit).ravel()
    residual = (outputs - y).ravel() / accuracy
    jacobian /= accuracy[:, None]
    gauge = _gauge_rows(network) * np.linalg.norm(jacobian, axis=0)
    jacobian, residual = np.concatenate([jacobian, gauge]), np.concatenate([residual, np.zeros(len(gauge))])
    scales = np.linalg.norm(jacobian, axis=0)
    jacobian /= np.where(scales == 0, 1.0, scales)
    level = float(np.sqrt(residual @ residual / max(len(residual) - count, 1)))
    return WeightedSystem(*_triangle(jacobian, residual), scales, level)


def _triangle(jacobian: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``R`` and ``Q' r`` of the Jacobian, by Cholesky where that is accurate enough, else by QR."""
    gram = jacobian.T @ jacobian
    try:
        factor = scipy.linalg.cholesky(gram, overwrite_a=True, check_finite=False)
        if np.min(np.diag(factor), initial=1.0) > WELL_CONDITIONED:
            projected = scipy.linalg.solve_triangular(
                factor, jacobian.T @ residual, trans=1, check_finite=False
            )
            return factor, projected
    except np.linalg.LinAlgError:
        pass
    both = np.hstack([jacobian, residual[:, None]])
    triangle = np.asarray(scipy.linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)[0])
    count = jacobian.shape[1]
    return triangle[:count, :count], triangle[:count, count]


def weighted_polish(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    noise: float,
    *,
    unit: float = EPS,
    max_steps: int = 2,
) -> Network:
    """Gauss-Newton steps on the weighted answers, from near to far, each kept only if the residual falls."""
    for reach in REACHES:
        for _ in range(max_steps):
            system = weighted_system(network, x, y, noise, unit=unit, reach=reach)
            if system is None or system.level <= 1.0 or not np.all(np.isfinite(system.amplification)):
                break
            near_x, near_y = _near(network, x, y, reach)
            trial = network.with_flat(network.flat() - system.correction())
            before = _misfit(network, near_x, near_y, noise, unit)
            gain = _misfit(trial, near_x, near_y, noise, unit) / before
            if not gain < 1:
                break
            network = trial
            if gain > 0.5:
                break
    return network


def _misfit(network: Network, x: np.ndarray, y: np.ndarray, noise: float, unit: float) -> float:
    return float(np.sum(((network(x) - y) / answer_accuracy(network, x, noise, unit)) ** 2))


def answer_accuracy(network: Network, x: np.ndarray, noise: float, unit: float = EPS) -> np.ndarray:
    """How exact each answer can be, (n, outputs): its noise, its own rounding and that of its input."""
    leverage = np.linalg.norm(x, axis=1)[:, None] * gradient_norms(network, x)
    return np.hypot(max(noise, 1e-300), unit * (leverage if unit == EPS else leverage + np.abs(network(x))))


def _gauge_rows(network: Network) -> np.ndarray:
    """Rows that hold the length of each homogeneous unit's row: its scale is a symmetry and cannot be determined."""
    rows, start = [], 0
    for layer, w in enumerate(network.weights):
        for unit in range(len(w)):
            if layer < network.num_layers - 1 and act.get(network.activations[layer]).degree is not None:
                row = np.zeros(network.num_parameters)
                incoming = np.append(w[unit], network.biases[layer][unit])
                row[start : start + len(incoming)] = incoming / max(float(np.linalg.norm(incoming)), 1e-300)
                rows.append(row)
            start += w.shape[1] + 1
    return np.array(rows).reshape(len(rows), network.num_parameters)


def _near(network: Network, x: np.ndarray, y: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Answers near enough to the origin, or far enough from every hyperplane, to be linear in small corrections."""
    sizes = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(network.weights[0], axis=1)
    arguments = np.abs(x @ network.weights[0].T + network.biases[0])
    kept = np.all((sizes <= reach) | (arguments > 40 + sizes / REACHES[0]), axis=1)
    return x[kept], y[kept]


def relative_errors(network: Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The largest error over the outputs at each point, relative to the larger of spread and ``|x| |grad f|``."""
    if not len(x):
        return np.zeros(0)
    values = network(x)
    leverage = np.linalg.norm(x, axis=1)[:, None] * gradient_norms(network, x)
    spread = np.std(y, axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.max(np.abs(y), axis=0), 1e-300))
    return np.max(np.abs(values - y) / np.maximum(spread, leverage), axis=1)


def gradient_norms(network: Network, x: np.ndarray) -> np.ndarray:
    """``|grad f_k(x)|`` for every point and output, (n, outputs)."""
    h, slopes = x, []
    for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
        z = h @ w.T + b
        h = act.get(name)(z)
        slopes.append(act.get(name).first(z, np))
    norms = []
    for output in range(network.output_size):
        back = np.zeros((len(x), network.output_size))
        back[:, output] = 1.0
        for w, slope in zip(reversed(network.weights), reversed(slopes), strict=True):
            back = (back * slope) @ w
        norms.append(np.linalg.norm(back, axis=1))
    return np.stack(norms, axis=1)
