"""Levenberg-Marquardt steps by a few conjugate gradients: for students too large for normal equations.

Nothing of the size of the Jacobian is formed: its products with vectors are one pass through the network, forwards or
backwards, so a step costs tens of passes instead of one for every parameter, and memory grows with the points alone.
Each unit's own block of ``J'J`` preconditions. The iteration stops long before the step is exact, which does not slow
the way to the basin down but ease it: directions that hardly change the answers are left alone. The last digits want
exact steps.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.conjugate_gradients import conjugate_gradients
from unweave.solve.layout import Layout
from unweave.solve.step import Residual, Solve, Step

WORTH, WORTH_HARD = 600, 1500
"""Parameters from which such steps are cheaper than exact ones; of bent outputs, and of three hidden layers and more,
which are ill-conditioned."""
ENOUGH = 0.3
"""A step is done when the preconditioned residual of its equations has fallen to this fraction ..."""
MOST = 200
"""... or after so many iterations."""
ROWS = 30
"""Points that the blocks of a unit are summed over, for each of its inputs."""


def pays(layout: Layout) -> bool:
    """Whether problems of this size are better solved so."""
    hard = layout.bent or len(layout.hidden) > 2
    return layout.num_parameters >= (WORTH_HARD if hard else WORTH)


class InexactProblem:
    """Least squares of a layout at (x, y)."""

    num_residuals: int

    def __init__(self, layout: Layout, x: np.ndarray, y: np.ndarray):
        self._layout, self._x, self._y = layout, x, y
        self.num_residuals = int(y.size)

    def expand(self, theta: np.ndarray, coarse: bool) -> InexactExpansion:
        passes = Passes(self._layout, theta, self._x, np.float32 if coarse else np.float64)
        return InexactExpansion(self._residual, theta, (passes.outputs - self._y).ravel(), passes)

    def _residual(self, theta: np.ndarray) -> np.ndarray:
        return (self._layout.forward(theta, self._x) - self._y).ravel()


class InexactExpansion(Step):
    """The problem at one point."""

    def __init__(self, residual: Residual, theta: np.ndarray, r: np.ndarray, passes: Passes):
        super().__init__(residual, theta, r)
        self._passes = passes
        self._blocks = passes.unit_blocks()
        self._unit = max(sum(float(np.einsum("iaa->", b)) for b in self._blocks) / len(theta), 1e-300)

    def product(self, v: np.ndarray) -> np.ndarray:
        return self._passes.forwards(v)

    def damped(self, damping: float) -> Solve:
        shift, passes = damping * self._unit, self._passes
        inverses = [np.linalg.inv(b + shift * np.eye(b.shape[1])) for b in self._blocks]

        def precondition(r: np.ndarray) -> np.ndarray:
            pieces = [
                (inverse @ passes.layout.block(r, layer)[:, :, None]).ravel()
                for layer, inverse in enumerate(inverses)
            ]
            return np.concatenate(pieces)

        def multiply(v: np.ndarray) -> np.ndarray:
            return passes.backwards(passes.forwards(v)) + shift * v

        return lambda b: conjugate_gradients(
            multiply, passes.backwards(b), enough=ENOUGH, most=MOST, precondition=precondition
        )


class Passes:
    """A layout linearised at one point: products with its Jacobian and its transpose, without forming it."""

    inputs: list[np.ndarray]
    slopes: list[np.ndarray]
    """Of each layer's activations, (points, units)."""

    layout: Layout

    def __init__(self, layout: Layout, theta: np.ndarray, x: np.ndarray, dtype: type):
        self.layout, self._dtype = layout, dtype
        self._weights, self.inputs, self.slopes = [], [], []
        features, ones = x, np.ones((len(x), 1))
        h = x
        for layer, activation in enumerate(layout.activations):
            block = layout.block(theta, layer)
            z = features @ block[:, :-1].T + block[:, -1]
            # of the inputs of a layer, x comes last and does not move
            num_moving = layout.fan_ins[layer] - (len(x[0]) if layout.skips or layer == 0 else 0)
            self._weights.append(np.ascontiguousarray(block[:, :num_moving], dtype=dtype))
            self.inputs.append(np.hstack([features, ones]).astype(dtype))
            self.slopes.append(activation.first(z, np).astype(dtype))
            h = activation.value(z, np)
            features = np.hstack([h, features]) if layout.skips else h
        self.outputs = h
        self._affine = _Affine(x, dtype) if layout.bent else None
        if self._affine is not None:
            self.outputs = h - self._affine.part(h)

    def forwards(self, v: np.ndarray) -> np.ndarray:
        """``J v``."""
        v = v.astype(self._dtype)
        moving = moved = np.zeros((len(self.outputs), 0), dtype=self._dtype)
        for layer, (weights, inputs, slopes) in enumerate(
            zip(self._weights, self.inputs, self.slopes, strict=True)
        ):
            moved = inputs @ self.layout.block(v, layer).T
            if layer:
                moved += moving @ weights.T
            moved *= slopes
            moving = np.hstack([moved, moving]) if self.layout.skips else moved
        if self._affine is not None:
            moved = moved - self._affine.part(moved)
        return moved.ravel().astype(np.float64)

    def backwards(self, r: np.ndarray) -> np.ndarray:
        """``J' r``."""
        flow = r.reshape(self.outputs.shape).astype(self._dtype)
        if self._affine is not None:
            flow = flow - self._affine.part(flow)
        pieces = [d.T @ i for d, i in zip(self._deltas(flow), self.inputs, strict=True)]
        return np.concatenate([p.ravel() for p in pieces]).astype(np.float64)

    def unit_blocks(self) -> list[np.ndarray]:
        """Each unit's own block of ``J'J``, (units, inputs + 1, inputs + 1) a layer, from enough of the points."""
        rows, share = self.enough_rows()
        inputs = [i[rows] for i in self.inputs]
        if self._affine is None:
            scaled = zip(inputs, self.reaches(rows), strict=True)
            return [np.stack([share * _gram(r[:, None] * i) for r in reach.T]) for i, reach in scaled]
        affine = _Affine(inputs[0][:, :-1], self._dtype)
        blocks = [
            np.zeros((s.shape[1], i.shape[1], i.shape[1])) for s, i in zip(self.slopes, inputs, strict=True)
        ]
        for k in range(self.outputs.shape[1]):
            for layer, deltas in enumerate(self._deltas(self._only(k, rows), rows)):
                for unit, delta in enumerate(deltas.T):
                    own = delta[:, None] * inputs[layer]
                    blocks[layer][unit] += share * _gram(own - affine.part(own))
        return blocks

    def reaches(self, rows: slice = slice(None), weights: np.ndarray | None = None) -> list[np.ndarray]:
        """How far a unit's argument moves all (weighted) outputs together, (points, units) a layer."""
        squares = [np.zeros((len(self.outputs[rows]), s.shape[1]), dtype=self._dtype) for s in self.slopes]
        for k in range(self.outputs.shape[1]):
            flow = self._only(k, rows) if weights is None else self._only(k, rows) * weights[rows]
            squares = [s + d**2 for s, d in zip(squares, self._deltas(flow, rows), strict=True)]
        return [np.sqrt(s) for s in squares]

    def enough_rows(self) -> tuple[slice, float]:
        """Points that tell the blocks of units, and how many each of them stands for."""
        num_points = len(self.outputs)
        widest = max(inputs.shape[1] for inputs in self.inputs)
        rows = slice(None, None, max(num_points // (ROWS * widest), 1))
        return rows, num_points / len(self.outputs[rows])

    def _only(self, output: int, rows: slice) -> np.ndarray:
        flow = np.zeros_like(self.outputs[rows], dtype=self._dtype)
        flow[:, output] = 1.0
        return flow

    def _deltas(self, flow: np.ndarray, rows: slice = slice(None)) -> list[np.ndarray]:
        """What flows back to the pre-activations of every layer from the outputs."""
        deltas: list[np.ndarray] = []
        for weights, slopes in zip(reversed(self._weights), reversed(self.slopes), strict=True):
            own, rest = np.split(flow, [slopes.shape[1]], axis=1)
            deltas.append(own * slopes[rows])
            flow = deltas[-1] @ weights
            if rest.shape[1]:
                flow += rest
        return deltas[::-1]


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows


class _Affine:
    """The best affine function of the points."""

    def __init__(self, x: np.ndarray, dtype: type):
        design = np.hstack([x, np.ones((len(x), 1))])
        self._basis = np.linalg.qr(design)[0].astype(dtype)

    def part(self, y: np.ndarray) -> np.ndarray:
        return self._basis @ (self._basis.T @ y)
