"""The training loss of a shallow network: ``L = 1/(2n) sum_i (v . phi(W x_i) - y_i)^2`` and its derivatives.

``theta`` holds W row by row and then, unless the output weights are fixed, v. Every array may carry leading axes,
so the same formulas serve one network and a stack of runs on as many data sets. The Jacobian of the residuals is a
Khatri-Rao product and is formed only where asked for: its products cost one pass over the data, and its Gram matrix is
``J J' = phi phi' + (phi' diag(v^2) phi'^T) o (X X')``, n^2 k operations instead of n^2 k d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unweave.core import activations as act
from unweave.core.activations import Activation
from unweave.core.errors import InputError
from unweave.core.network import Network


@dataclass(frozen=True, eq=False)
class ShallowLoss:
    """``x`` (..., n, d), ``y`` (..., n), k hidden units; ``output`` (..., k) where v is fixed, None where trained."""

    x: np.ndarray
    y: np.ndarray
    activation: Activation
    width: int
    output: np.ndarray | None = None

    @property
    def num_samples(self) -> int:
        return self.x.shape[-2]

    @property
    def input_size(self) -> int:
        return self.x.shape[-1]

    @property
    def num_parameters(self) -> int:
        return self.width * (self.input_size + (self.output is None))

    def rows(self, kept: np.ndarray) -> ShallowLoss:
        """The same for some runs of a stack."""
        output = None if self.output is None else self.output[kept]
        return replace(self, x=self.x[kept], y=self.y[kept], output=output)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W (..., k, d) and v (..., k)."""
        size = self.width * self.input_size
        weights = theta[..., :size].reshape(*theta.shape[:-1], self.width, self.input_size)
        return weights, theta[..., size:] if self.output is None else self.output

    def join(self, weights: np.ndarray, output: np.ndarray) -> np.ndarray:
        """``theta`` of W and v."""
        flat = weights.reshape(*weights.shape[:-2], -1)
        return flat if self.output is not None else np.concatenate([flat, output], axis=-1)

    def at(self, theta: np.ndarray) -> LocalLoss:
        """The loss and its derivatives at one point (of each run)."""
        return LocalLoss(self, theta)

    def residual(self, theta: np.ndarray) -> np.ndarray:
        weights, output = self.split(theta)
        phi = self.activation.value(self.x @ np.swapaxes(weights, -1, -2), np)
        return (phi @ output[..., None])[..., 0] - self.y

    def value(self, theta: np.ndarray) -> np.ndarray:
        return np.mean(self.residual(theta) ** 2, axis=-1) / 2

    def value_and_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        here = self.at(theta)
        return here.value, here.gradient

    def network(self, theta: np.ndarray) -> Network:
        """The network of one point; nothing has a bias."""
        weights, output = self.split(theta)
        return Network([weights, output[None]], [None, None], [self.activation.name, "identity"])


class LocalLoss:
    """Everything at one point, each quantity computed when first asked for."""

    loss: ShallowLoss
    theta: np.ndarray
    weights: np.ndarray
    output: np.ndarray

    def __init__(self, loss: ShallowLoss, theta: np.ndarray):
        self.loss, self.theta = loss, theta
        self.weights, self.output = loss.split(theta)
        self._z = loss.x @ np.swapaxes(self.weights, -1, -2)

    @cached_property
    def phi(self) -> np.ndarray:
        return self.loss.activation.value(self._z, np)

    @cached_property
    def slope(self) -> np.ndarray:
        """``v_l phi'(w_l . x_i)``, (..., n, k)."""
        return self.loss.activation.first(self._z, np) * self.output[..., None, :]

    @cached_property
    def residual(self) -> np.ndarray:
        return (self.phi @ self.output[..., None])[..., 0] - self.loss.y

    @cached_property
    def value(self) -> np.ndarray:
        return np.mean(self.residual**2, axis=-1) / 2

    @cached_property
    def gradient(self) -> np.ndarray:
        return self.pull(self.residual) / self.loss.num_samples

    def push(self, u: np.ndarray) -> np.ndarray:
        """``J u`` (..., n)."""
        rows, output = self._split_direction(u)
        moved = self.loss.x @ np.swapaxes(rows, -1, -2)
        change = np.sum(self.slope * moved, axis=-1)
        return change if output is None else change + (self.phi @ output[..., None])[..., 0]

    def pull(self, a: np.ndarray) -> np.ndarray:
        """``J' a`` (..., p)."""
        rows = np.swapaxes(self.slope * a[..., None], -1, -2) @ self.loss.x
        return self.loss.join(rows, (a[..., None, :] @ self.phi)[..., 0, :])

    def gram(self) -> np.ndarray:
        """``J J'`` (..., n, n), without J."""
        x = self.loss.x
        matrix = self.slope @ np.swapaxes(self.slope, -1, -2)
        matrix *= x @ np.swapaxes(x, -1, -2)
        if self.loss.output is None:
            matrix += self.phi @ np.swapaxes(self.phi, -1, -2)
        return matrix

    def jacobian(self) -> np.ndarray:
        """J (..., n, p)."""
        rows = self.slope[..., :, None] * self.loss.x[..., None, :]
        flat = rows.reshape(*rows.shape[:-2], -1)
        return flat if self.loss.output is not None else np.concatenate([flat, self.phi], axis=-1)

    def hessian(self) -> np.ndarray:
        """The Hessian of the loss (..., p, p)."""
        k, d, n = self.loss.width, self.loss.input_size, self.loss.num_samples
        jacobian = self.jacobian()
        matrix = np.swapaxes(jacobian, -1, -2) @ jacobian
        x = self.loss.x
        bend, cross = self._weighted_bend, self._weighted_slope
        for unit in range(k):
            block = slice(unit * d, (unit + 1) * d)
            matrix[..., block, block] += np.swapaxes(x * bend[..., unit, None], -1, -2) @ x
            if self.loss.output is None:
                column = (cross[..., None, :, unit] @ x)[..., 0, :]
                matrix[..., block, k * d + unit] += column
                matrix[..., k * d + unit, block] += column
        return matrix / n

    def hessian_product(self, u: np.ndarray) -> np.ndarray:
        """The Hessian times ``u``, one pass over the data."""
        rows, output = self._split_direction(u)
        moved = self.loss.x @ np.swapaxes(rows, -1, -2)
        inner = self._weighted_bend * moved
        back = np.zeros_like(self.output)
        if output is not None:
            inner = inner + self._weighted_slope * output[..., None, :]
            back = np.sum(self._weighted_slope * moved, axis=-2)
        curved = self.loss.join(np.swapaxes(inner, -1, -2) @ self.loss.x, back)
        return (self.pull(self.push(u)) + curved) / self.loss.num_samples

    @cached_property
    def _weighted_bend(self) -> np.ndarray:
        """``r_i v_l phi''(w_l . x_i)``."""
        return self.loss.activation.second(self._z, np) * self.output[..., None, :] * self.residual[..., None]

    @cached_property
    def _weighted_slope(self) -> np.ndarray:
        """``r_i phi'(w_l . x_i)``."""
        return self.loss.activation.first(self._z, np) * self.residual[..., None]

    def _split_direction(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        size = self.loss.width * self.loss.input_size
        rows = u[..., :size].reshape(*u.shape[:-1], self.loss.width, self.loss.input_size)
        return rows, u[..., size:] if self.loss.output is None else None


def check_samples(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``x`` (n, d) and ``y`` (n,) as float64; anything else is refused with the shape in the message."""
    try:
        x, y = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"x and y must be arrays of numbers ({error})") from error
    if x.ndim != 2 or not x.shape[0] or not x.shape[1]:
        raise InputError(f"x has shape {x.shape}; give one row a sample, (n, inputs), at least one of each")
    if y.shape not in {(len(x),), (len(x), 1)}:
        raise InputError(f"y has shape {y.shape}; give one label a sample, ({len(x)},)")
    for name, values in (("x", x), ("y", y)):
        bad = int(np.sum(~np.isfinite(values)))
        if bad:
            raise InputError(f"{name} holds {bad} values that are not finite numbers; remove those samples")
    return x, y.reshape(-1)


def shallow_loss(
    network: Network, x: np.ndarray, y: np.ndarray, *, train_output: bool
) -> tuple[ShallowLoss, np.ndarray]:
    """The loss a network was trained on, and its ``theta``.

    Biases of the hidden units count as weights of a constant input; a bias of the output is held and moves the labels.
    """
    if network.num_layers != 2 or network.output_size != 1 or network.activations[-1] != "identity":
        raise InputError(
            f"the network is {network.describe()}; certify takes one hidden layer and one linear output"
        )
    if x.shape[1] != network.input_size:
        raise InputError(
            f"x has {x.shape[1]} columns but the network takes {network.input_size}; give (n, {network.input_size})"
        )
    weights, output = network.weights[0], network.weights[1][0]
    if np.any(network.biases[0] != 0):
        weights = np.hstack([weights, network.biases[0][:, None]])
        x = np.hstack([x, np.ones((len(x), 1))])
    labels = y - network.biases[1][0]
    loss = ShallowLoss(
        x, labels, act.get(network.activations[0]), len(weights), None if train_output else output
    )
    return loss, loss.join(weights, output)
