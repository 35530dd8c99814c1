"""Exact Levenberg-Marquardt steps for students of one or two hidden layers at a fraction of the usual cost.

The Jacobian of output o with respect to the weights of the last hidden layer is ``c_ok phi'_k(x) u_i(x)``: it depends
on the output through a factor of the unit alone. Its normal matrix, summed over all outputs, is therefore
``(C'C)_kl sum_n phi'_k phi'_l u_i u_j``: one product of a matrix with a row a point, not a row an answer. While the
damping is well above its rounding that product is taken in single precision. Products of the Jacobian with vectors
pass through the network (``inexact``). Buffers are kept from step to step: at these sizes fresh memory costs as much as
the arithmetic.
"""

from __future__ import annotations

import numpy as np

from unweave.solve.inexact import Passes
from unweave.solve.layout import Layout
from unweave.solve.step import Residual, Solve, Step, factorise

SATURATED = 1e-6
"""Slopes below this count as none in single precision, where their products would be too small to be normal numbers."""


class CollapsedProblem:
    """Least squares of a plain layout with linear outputs at (x, y)."""

    num_residuals: int

    def __init__(self, layout: Layout, x: np.ndarray, y: np.ndarray):
        if layout.skips or layout.bent or len(layout.hidden) not in (1, 2):
            raise ValueError("collapsed steps are for plain layouts of one or two hidden layers")
        self._layout, self._x, self._y = layout, x, y
        self.num_residuals = int(y.size)
        self._buffers: dict[tuple[str, type], np.ndarray] = {}

    def expand(self, theta: np.ndarray, coarse: bool) -> CollapsedStep:
        passes = Passes(self._layout, theta, self._x, np.float64)
        matrix = self._normal_matrix(theta, passes, np.float32 if coarse else np.float64)
        factor = self._buffer("factor", matrix.shape, matrix.dtype.type)
        return CollapsedStep(
            self._residual, theta, (passes.outputs - self._y).ravel(), passes, matrix, factor
        )

    def _residual(self, theta: np.ndarray) -> np.ndarray:
        return (self._layout.forward(theta, self._x) - self._y).ravel()

    def _normal_matrix(self, theta: np.ndarray, passes: Passes, dtype: type) -> np.ndarray:
        layout, starts = self._layout, self._layout.starts
        last = layout.num_layers - 2
        inputs, slopes = passes.inputs[last], passes.slopes[last]
        if dtype is np.float32:
            slopes = np.where(slopes < SATURATED, 0.0, slopes)
        outgoing = layout.block(theta, last + 1)[:, :-1]
        values = passes.inputs[last + 1].astype(dtype)
        points, fan, width = len(inputs), inputs.shape[1], slopes.shape[1]
        rows = self._buffer("rows", (points, width * fan), dtype)
        np.multiply(
            slopes.astype(dtype)[:, :, None],
            inputs.astype(dtype)[:, None, :],
            out=rows.reshape(points, width, fan),
        )
        matrix = self._buffer("matrix", (layout.num_parameters,) * 2, dtype)
        own = slice(starts[last], starts[last + 1])
        gram = self._buffer("gram", (width * fan,) * 2, dtype)
        np.matmul(rows.T, rows, out=gram)
        together = (outgoing.T @ outgoing).astype(dtype)
        blocks = gram.reshape(width, fan, width, fan)
        blocks *= together[:, None, :, None]
        matrix[own, own] = gram
        across, among = rows.T @ values, values.T @ values
        matrix[starts[last + 1] :, starts[last + 1] :] = 0.0
        matrix[: starts[last], :] = 0.0
        for output, weights in enumerate(outgoing):
            begin = starts[last + 1] + output * (width + 1)
            place = slice(begin, begin + width + 1)
            scale = np.repeat(weights, fan).astype(dtype)[:, None]
            matrix[own, place] = scale * across
            matrix[place, place] = among
            if last:
                flow = (slopes * weights) @ layout.block(theta, 1)[:, :-1] * passes.slopes[0]
                first = (flow[:, :, None] * passes.inputs[0][:, None, :]).reshape(points, -1).astype(dtype)
                matrix[: starts[1], : starts[1]] += first.T @ first
                matrix[: starts[1], place] = first.T @ values
                matrix[: starts[1], own] += (scale * (rows.T @ first)).T
        upper = matrix[own, starts[last + 1] :]
        matrix[starts[last + 1] :, own] = upper.T
        if last:
            matrix[starts[1] :, : starts[1]] = matrix[: starts[1], starts[1] :].T
        return matrix

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """The same memory for the same purpose."""
        key = name, dtype
        if key not in self._buffers:
            self._buffers[key] = np.empty(shape, dtype=dtype)
        return self._buffers[key]


class CollapsedStep(Step):
    """The problem at one point; the next one takes its buffers over."""

    def __init__(
        self,
        residual: Residual,
        theta: np.ndarray,
        r: np.ndarray,
        passes: Passes,
        matrix: np.ndarray,
        factor: np.ndarray,
    ):
        super().__init__(residual, theta, r)
        self._passes, self._matrix, self._factor = passes, matrix, factor
        self._unit = max(float(np.trace(matrix, dtype=np.float64)) / len(matrix), 1e-300)

    def product(self, v: np.ndarray) -> np.ndarray:
        return self._passes.forwards(v)

    def damped(self, damping: float) -> Solve | None:
        inverse = factorise(self._matrix, damping * self._unit, self._factor)
        if inverse is None:
            return None
        dtype = self._matrix.dtype
        return lambda b: inverse(self._passes.backwards(b).astype(dtype)).astype(np.float64)
