"""The steps of Levenberg-Marquardt on an accelerator: the formulas of ``levenberg_marquardt`` under ``jit``.

One function expands the problem at a point (residual, Jacobian, normal matrix), one proposes a damped and
bent step from it. They are compiled once a layout and number of points; everything stays on the device, in
float64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from unweave.refine.layout import Layout


class AcceleratedProblem:
    """Least squares of a layout on data held by the device."""

    def __init__(self, layout: Layout, x: np.ndarray, y: np.ndarray):
        import jax

        with jax.enable_x64(True):
            self._layout = layout
            self._x = jax.device_put(np.asarray(x, dtype=np.float64))
            self._y = jax.device_put(np.asarray(y, dtype=np.float64))

    @property
    def num_residuals(self) -> int:
        return int(self._y.size)

    def expand(self, theta: Any, coarse: bool) -> AcceleratedExpansion:
        import jax

        with jax.enable_x64(True):
            theta = (
                jax.device_put(np.asarray(theta, dtype=np.float64))
                if isinstance(theta, np.ndarray)
                else theta
            )
            expand, _ = _compiled()
            return AcceleratedExpansion(
                self._layout, self._x, self._y, theta, *expand(self._layout, theta, self._x, self._y)
            )


class AcceleratedExpansion:
    """The problem at one point, on the device."""

    def __init__(
        self, layout: Layout, x: Any, y: Any, theta: Any, r: Any, jacobian: Any, matrix: Any, gradient: Any
    ):
        self._layout, self._x, self._y = layout, x, y
        self._parts = (theta, r, jacobian, matrix, gradient)
        self.matrix, self.gradient = matrix, gradient
        self.loss = float(r @ r)

    def propose(
        self, damping: float, *, geodesic: bool, difference: float, longest_bend: float
    ) -> tuple[Any, float, float] | None:
        """The trial point, its loss and the predicted gain; None when the matrix is not positive definite."""
        import jax

        with jax.enable_x64(True):
            _, propose = _compiled()
            bend = longest_bend if geodesic else 0.0
            trial, loss, predicted = propose(
                self._layout, self._x, self._y, *self._parts, damping, difference, bend
            )
            loss = float(loss)
            return None if np.isnan(loss) else (trial, loss, float(predicted))


@lru_cache(maxsize=1)
def _compiled():
    """The two compiled functions; JAX is imported here and nowhere before."""
    from functools import partial

    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_factor, cho_solve

    @partial(jax.jit, static_argnums=0)
    def expand(layout, theta, x, y):
        outputs, jacobian = layout.linearise(theta, x, jnp)
        r = (outputs - y).ravel()
        return r, jacobian, jacobian.T @ jacobian, jacobian.T @ r

    @partial(jax.jit, static_argnums=0)
    def propose(layout, x, y, theta, r, jacobian, matrix, gradient, damping, difference, longest_bend):
        unit = jnp.maximum(jnp.trace(matrix) / len(gradient), 1e-300)
        factor = cho_factor(matrix + damping * unit * jnp.eye(len(gradient)), lower=True)
        v = -cho_solve(factor, gradient)
        length, reach = jnp.linalg.norm(v), 2.0 * (1.0 + jnp.linalg.norm(theta))
        v = v * jnp.minimum(1.0, reach / jnp.maximum(length, 1e-300))
        predicted = v @ (damping * unit * v - gradient)

        def residual(at):
            return (layout.forward(at, x, jnp) - y).ravel()

        curvature = (2 / difference) * ((residual(theta + difference * v) - r) / difference - jacobian @ v)
        bend = -cho_solve(factor, jacobian.T @ curvature)
        gentle = jnp.linalg.norm(bend) < longest_bend * jnp.linalg.norm(v)
        trial = theta + v + jnp.where(gentle, 0.5 * bend, 0.0)
        after = residual(trial)
        loss = after @ after
        loss = jnp.where(jnp.isnan(v).any(), jnp.nan, jnp.where(jnp.isnan(loss), jnp.inf, loss))
        return trial, loss, predicted

    return expand, propose
