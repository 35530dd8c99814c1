"""The steps of Levenberg-Marquardt on an accelerator: the formulas of ``step`` under ``jit``.

One function expands the problem at a point (residual, Jacobian, normal matrix), one proposes a damped and
bent step from it. They are compiled once a layout and number of points; everything stays on the device, in
float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from unweave.solve.devices import on_accelerator
from unweave.solve.layout import Layout
from unweave.solve.step import propose

COMPILER: dict[str, int | bool] = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Compilation in a fifth of the time: in float64 the library's own choice of kernel is as fast as a tuned one."""


class AcceleratedProblem:
    """Least squares of a layout on data held by the device.

    Widths are padded with idle units, whose parameters stay at zero, so that students of similar widths share
    their compiled steps. Points on the device have the padded length; ``outside`` returns them to the layout's.
    """

    padded: Layout
    data: tuple[Any, ...]

    def __init__(self, layout: Layout, x: np.ndarray, y: np.ndarray):
        import jax

        self.padded, self._inside = layout.padded()
        mask = np.zeros(self.padded.num_parameters)
        mask[self._inside] = 1.0
        with on_accelerator():
            self.data = tuple(jax.device_put(np.asarray(a, dtype=np.float64)) for a in (x, y, mask))
            """Points, answers and mask, on the device."""

    @property
    def num_residuals(self) -> int:
        return int(self.data[1].size)

    @property
    def mask(self) -> Any:
        """One for the layout's own parameters, zero for idle ones, on the device."""
        return self.data[2]

    def inside(self, parameters: np.ndarray) -> Any:
        """Parameters of the layout as a point on the device."""
        import jax

        wide = np.zeros(self.padded.num_parameters)
        wide[self._inside] = parameters
        with on_accelerator():
            return jax.device_put(wide)

    def outside(self, point: Any) -> np.ndarray:
        """The parameters of the layout at a point."""
        return np.array(point, dtype=np.float64)[self._inside]

    def expand(self, theta: Any, coarse: bool) -> AcceleratedExpansion:
        with on_accelerator():
            expand, _ = _compiled()
            return AcceleratedExpansion(
                self.padded, self.data, self._inside, theta, *expand(self.padded, theta, *self.data)
            )


class AcceleratedExpansion:
    """The problem at one point, on the device."""

    loss: float

    def __init__(
        self,
        layout: Layout,
        data: tuple[Any, Any, Any],
        inside: np.ndarray,
        theta: Any,
        r: Any,
        jacobian: Any,
        matrix: Any,
        gradient: Any,
    ):
        self._layout, self._data, self._inside = layout, data, inside
        self._parts = (theta, r, jacobian, matrix, gradient)
        self.loss = float(r @ r)

    @property
    def matrix(self) -> Any:
        """``J'J`` over the padded parameters, on the device."""
        return self._parts[3]

    @property
    def normal(self) -> tuple[Any, Any]:
        """``J'J`` and ``J'r`` over the layout's own parameters, on the device."""
        with on_accelerator():
            _, _, _, matrix, gradient = self._parts
            return matrix[self._inside][:, self._inside], gradient[self._inside]

    def propose(
        self, damping: float, *, geodesic: bool, difference: float, longest_bend: float
    ) -> tuple[Any, float, float] | None:
        """The trial point, its loss and the predicted gain; None when the matrix is not positive definite."""
        with on_accelerator():
            _, propose_step = _compiled()
            bend = longest_bend if geodesic else 0.0
            trial, loss, predicted = propose_step(
                self._layout, *self._data, *self._parts, damping, difference, bend
            )
            loss = float(loss)
            return None if np.isnan(loss) else (trial, loss, float(predicted))


@lru_cache(maxsize=1)
def _compiled():
    """The two compiled functions."""
    import jax

    return tuple(jax.jit(step, static_argnums=0, compiler_options=COMPILER) for step in formulas())


@lru_cache(maxsize=1)
def formulas() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``expand`` and ``propose`` as plain functions of arrays; JAX is imported here and nowhere before."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_factor, cho_solve

    def expand(layout, theta, x, y, mask):
        outputs, jacobian = layout.linearise(theta, x, jnp)
        r, jacobian = (outputs - y).ravel(), jacobian * mask
        return r, jacobian, half_product(jacobian), jacobian.T @ r

    def half_product(jacobian):
        """``J'J`` from its lower half: a quarter to a third faster than the full product."""
        zero = jnp.zeros((jacobian.shape[1],) * 2, dtype=jacobian.dtype)
        return jax.lax.linalg.symmetric_product(jacobian.T, zero, symmetrize_output=True)

    def propose_step(layout, x, y, mask, theta, r, jacobian, matrix, gradient, damping, difference, bend):
        unit = jnp.maximum(jnp.trace(matrix) / jnp.sum(mask), 1e-300)
        factor = cho_factor(matrix + damping * unit * jnp.eye(len(gradient)), lower=True)
        trial, loss, predicted = propose(
            theta,
            r,
            lambda b: cho_solve(factor, jacobian.T @ b),
            lambda v: jacobian @ v,
            lambda at: (layout.forward(at, x, jnp) - y).ravel(),
            jnp,
            difference=difference,
            longest_bend=bend,
        )
        loss = jnp.where(jnp.isnan(loss), jnp.inf, loss)
        return trial, jnp.where(jnp.isnan(predicted), jnp.nan, loss), predicted

    return expand, propose_step
