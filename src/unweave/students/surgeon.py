"""The surgeon's inverse: what each unit of a fitted layout costs to remove, and the parameters once it is gone.

Near a fit the loss is quadratic with matrix ``H = J'J``. Removing a unit sets the weights S it feeds to zero;
with the best compensation by all other parameters this costs ``theta_S' (H^-1_SS)^-1 theta_S`` (Hassibi and
Stork 1993). The inverse is taken of H with a small ridge; what the ridge itself adds, its size times the squared
length of the compensation, is taken off again, or a unit that costs nothing would seem to cost as much as one
that does little. After a removal the inverse is conditioned on the removed parameters, which stay in it as an
identity block, so shapes do not change and one inverse serves a whole batch. Small layouts are operated on
the host with LAPACK, large ones on the accelerator, padded like its fits so that few shapes are compiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from unweave.solve.accelerated import COMPILER, AcceleratedProblem
from unweave.solve.devices import on_accelerator, try_accelerator
from unweave.solve.layout import Layout
from unweave.solve.normal import HOST_PARAMETERS, expand_normally

RIDGES = (1e-10, 1e-8, 1e-6)
"""Relative to the mean of the diagonal; the first that leaves the inverse positive is taken."""


class Surgeon(Protocol):
    """A fitted layout under removals. Units are counted as in the layout it began with."""

    loss: float
    """``|r|^2`` before any removal."""

    def costs(self) -> list[np.ndarray]:
        """What removing each unit adds to the loss, a hidden layer each; meaningless for removed units."""
        ...

    def remove(self, layer: int, unit: int) -> np.ndarray:
        """The parameters after one more removal, those of removed units zero."""
        ...


def open_surgery(layout: Layout, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> Surgeon:
    """The surgeon for a layout at ``theta``, on the device where it is done sooner."""
    found = None
    if layout.num_parameters > HOST_PARAMETERS:
        found = try_accelerator(
            y.size, layout.num_parameters, lambda: AcceleratedSurgeon(layout, theta, x, y)
        )
    return HostSurgeon(layout, theta, x, y) if found is None else found


class HostSurgeon:
    """With NumPy and LAPACK."""

    loss: float

    def __init__(self, layout: Layout, theta: np.ndarray, x: np.ndarray, y: np.ndarray):
        equations = expand_normally(layout, theta, x, y)
        self.loss = equations.loss
        self._layout, self._theta = layout, np.array(theta)
        self._inverse, self._ridge = _ridge_inverse(equations.matrix)
        self._outgoing = outgoing_of(layout)

    def costs(self) -> list[np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is an infinite cost
            found = price(self._inverse, self._theta, self._outgoing, self._ridge, np)
        return [_clean(c) for c in found]

    def remove(self, layer: int, unit: int) -> np.ndarray:
        out = self._outgoing[layer][unit]
        fixed = np.concatenate([out, self._layout.incoming(layer, unit)])
        columns = self._inverse[:, out]
        self._theta = self._theta - columns @ np.linalg.solve(columns[out], self._theta[out])
        self._theta[fixed] = 0.0
        columns = self._inverse[:, fixed]
        self._inverse -= columns @ np.linalg.solve(columns[fixed], columns.T)
        self._inverse[fixed] = 0.0
        self._inverse[:, fixed] = 0.0
        self._inverse[fixed, fixed] = 1.0
        return self._theta.copy()


class AcceleratedSurgeon:
    """The same on the accelerator; idle parameters of the padded layout are an identity block from the start."""

    loss: float

    def __init__(self, layout: Layout, theta: np.ndarray, x: np.ndarray, y: np.ndarray):

        self._problem = AcceleratedProblem(layout, x, y)
        self._widths = layout.hidden
        self._outgoing = outgoing_of(self._problem.padded)
        self._theta = self._problem.inside(theta)
        here = self._problem.expand(self._theta, False)
        self.loss = here.loss
        with on_accelerator():
            invert, *_ = _compiled()
            for ridge in RIDGES:
                self._inverse, is_positive, self._ridge = invert(here.matrix, self._problem.mask, ridge)
                if bool(is_positive):
                    break

    def costs(self) -> list[np.ndarray]:
        with on_accelerator():
            _, accelerated_price, _ = _compiled()
            found = accelerated_price(self._inverse, self._theta, self._outgoing, self._ridge)
            return [_clean(np.array(c)[:m]) for c, m in zip(found, self._widths, strict=True)]

    def remove(self, layer: int, unit: int) -> np.ndarray:
        with on_accelerator():
            _, _, condition = _compiled()
            out, own = self._outgoing[layer][unit], self._problem.padded.incoming(layer, unit)
            self._inverse, self._theta = condition(self._inverse, self._theta, out, own)
            return self._problem.outside(self._theta)


def outgoing_of(layout: Layout) -> list[np.ndarray]:
    """Indices of the parameters that each unit feeds, (units, weights) a hidden layer."""
    return [
        np.stack([layout.outgoing(layer, u) for u in range(width)])
        for layer, width in enumerate(layout.hidden)
    ]


def price(inverse: Any, theta: Any, outgoing: list[np.ndarray], ridge: Any, xp: Any) -> list[Any]:
    """What removing each unit adds to the loss, a hidden layer each, less what is the ridge's."""
    found = []
    for groups in outgoing:
        values = theta[groups]
        blocks = inverse[groups[:, :, None], groups[:, None, :]]
        pulls = xp.linalg.solve(blocks, values[:, :, None])[:, :, 0]
        spread = xp.zeros((len(theta), len(groups)))
        columns = np.broadcast_to(np.arange(len(groups))[:, None], groups.shape)
        if xp is np:
            spread[groups, columns] = pulls
        else:
            spread = spread.at[groups, columns].set(pulls)
        moves = inverse @ spread
        found.append(xp.sum(values * pulls, axis=1) - ridge * xp.sum(moves**2, axis=0))
    return found


def _clean(costs: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(costs), np.maximum(costs, 0.0), np.inf)


def _ridge_inverse(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """The inverse of the matrix with a ridge, and the ridge."""
    unit = max(float(np.trace(matrix)) / len(matrix), 1e-300)
    inverse, ridge = matrix, 0.0
    for share in RIDGES:
        ridge = share * unit
        inverse = np.linalg.inv(matrix + ridge * np.eye(len(matrix)))
        if float(np.min(np.diag(inverse))) > 0:
            break
    return inverse, ridge


@lru_cache(maxsize=1)
def _compiled():
    """The compiled functions; JAX is imported here and nowhere before."""
    from functools import partial

    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_factor, cho_solve

    @partial(jax.jit, compiler_options=COMPILER)
    def invert(matrix, mask, share) -> tuple[Any, Any, Any]:
        ridge = share * jnp.maximum(jnp.trace(matrix) / jnp.sum(mask), 1e-300)
        factor = cho_factor(matrix + jnp.diag(jnp.where(mask > 0, ridge, 1.0)), lower=True)
        inverse = cho_solve(factor, jnp.eye(len(matrix)))
        return inverse, jnp.min(jnp.diag(inverse)) > 0, ridge

    @partial(jax.jit, compiler_options=COMPILER)
    def accelerated_price(inverse, theta, outgoing, ridge):
        return price(inverse, theta, outgoing, ridge, jnp)

    @partial(jax.jit, donate_argnums=0, compiler_options=COMPILER)
    def condition(inverse, theta, out, own):
        columns, fixed = inverse[:, out], jnp.concatenate([out, own])
        theta = theta - columns @ jnp.linalg.solve(columns[out], theta[out])
        columns = inverse[:, fixed]
        inverse = inverse - columns @ jnp.linalg.solve(columns[fixed], columns.T)
        inverse = inverse.at[fixed].set(0.0).at[:, fixed].set(0.0).at[fixed, fixed].set(1.0)
        return inverse, theta.at[fixed].set(0.0)

    return invert, accelerated_price, condition
