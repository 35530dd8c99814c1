"""Gauss-Newton steps on a few answers at a time, for students of thousands of parameters on a CPU.

Answers of a student that can be right leave nothing over, so a step need not see all of them: the shortest change of
the parameters that mends a batch of some hundred answers costs a matrix of that size, ``J J'``, and that is cheap to
form. For a layer with inputs u and derivatives d of an output with respect to its arguments, two answers share
``(d . d') (u . u' + 1)``. Each change begins with most of the last one and mends what that leaves (momentum of
projected steps: Goldshlager, Abrahamsen and Lin 2024), and is taken by a tenth, which falls to nothing over the steps.
A step on all answers by conjugate gradients costs as much as hundreds of these, which lead to the basin in a tenth of
the time. The last digits want steps on all answers.

Arithmetic is in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from unweave.core import clock
from unweave.core.deadline import held
from unweave.solve.descend import End, Minimum
from unweave.solve.layout import Layout

LEAST_RATE, WARMING = 0.02, 20
"""Of the rate, at the end; and steps until it is whole."""
LOOK = 200
"""Steps between looks at the clock and at what the last batches left."""
FEWEST_POINTS = 16


@dataclass(frozen=True)
class Pace:
    """How many answers a step mends, how far it goes, and how many there are."""

    num_answers: int
    num_steps: int
    damping: float
    """Relative to the mean of the diagonal of ``J J'``."""
    momentum: float
    rate: float = 0.1


def descend_in_batches(
    layout: Layout,
    start: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    pace: Pace,
    rng: np.random.Generator,
    *,
    target: float = 0.0,
    deadline: float = float("inf"),
) -> Minimum:
    """From ``start`` to the residual (root mean square) that the steps of ``pace`` lead to, or to ``target``, or back
    where they lead nowhere; for plain layouts with linear outputs.
    """
    if layout.skips or layout.bent:
        raise ValueError("steps in batches are for plain layouts")
    blocks = [layout.block(start, layer).astype(np.float32) for layer in range(layout.num_layers)]
    moves = [np.zeros_like(b) for b in blocks]
    inputs = np.hstack([x, np.ones((len(x), 1))]).astype(np.float32)
    wanted, size = y.astype(np.float32), max(pace.num_answers // y.shape[1], FEWEST_POINTS)
    order, end, done, seen = np.zeros(0, dtype=int), End.STEPS, 0, 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for done in range(pace.num_steps):
            if done % LOOK == 0:
                if clock.now() > deadline or held().passed:
                    end = End.TIME
                    break
                if done and seen < LOOK * target**2:
                    end = End.TARGET
                    break
                seen = 0.0
            if len(order) < size:
                order = rng.permutation(len(x))
            batch, order = order[:size], order[size:]
            step = _Batch(layout, blocks, inputs[batch], wanted[batch])
            change, seen = step.mend(moves, pace), seen + step.mean_square
            if change is None:
                end = End.STALLED
                break
            moves = change
            rate = pace.rate * min(1.0, (done + 1) / WARMING) * max(1 - done / pace.num_steps, LEAST_RATE)
            blocks = [b - np.float32(rate) * m for b, m in zip(blocks, moves, strict=True)]
    theta = np.concatenate([b.ravel() for b in blocks]).astype(np.float64)
    before, after = _rms(layout, start, x, y), _rms(layout, theta, x, y)
    if not after < before:
        return Minimum(start, before, done, End.STALLED)
    return Minimum(theta, after, done, end)


class _Batch:
    """A few points, and how their answers move with the parameters."""

    def __init__(self, layout: Layout, blocks: list[np.ndarray], inputs: np.ndarray, wanted: np.ndarray):
        self._blocks, self._inputs, self._slopes = blocks, [inputs], []
        ones = inputs[:, -1:]
        for activation, block in zip(layout.activations, blocks[:-1], strict=False):
            z = self._inputs[-1] @ block.T
            self._slopes.append(activation.first(z, np).astype(np.float32))
            self._inputs.append(np.hstack([activation.value(z, np).astype(np.float32), ones]))
        self._rest = self._inputs[-1] @ blocks[-1].T - wanted

    @property
    def mean_square(self) -> float:
        return float(np.mean(self._rest**2))

    def mend(self, moves: list[np.ndarray], pace: Pace) -> list[np.ndarray] | None:
        """The next change of the parameters; None where the batch gives none."""
        matrix = self._shared()
        matrix[np.diag_indices_from(matrix)] += pace.damping * np.trace(matrix) / len(matrix)
        rest = (self._rest - np.float32(pace.momentum) * self._product(moves)).T.ravel()
        try:
            shares = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True), rest)
        except (LinAlgError, ValueError):
            return None
        new = self._adjoint(shares.reshape(self._rest.shape[::-1]).T)
        return [n + np.float32(pace.momentum) * m for n, m in zip(new, moves, strict=True)]

    def _shared(self) -> np.ndarray:
        """``J J'``, all points of the first output first."""
        points, outputs = self._rest.shape
        grams = [u @ u.T for u in self._inputs]
        flows = [self._flows(np.broadcast_to(w, (points, len(w)))) for w in self._blocks[-1][:, :-1]]
        matrix = np.empty((outputs, points, outputs, points), dtype=np.float32)
        for k, first in enumerate(flows):
            for j, second in enumerate(flows[: k + 1]):
                block = sum((a @ b.T) * g for a, b, g in zip(first, second, grams[:-1], strict=True))
                matrix[k, :, j] = block + grams[-1] if j == k else block
                matrix[j, :, k] = matrix[k, :, j].T
        return matrix.reshape(points * outputs, -1)

    def _flows(self, flow: np.ndarray) -> list[np.ndarray]:
        """What flows back to the arguments of every layer from its top."""
        deltas: list[np.ndarray] = []
        for layer in reversed(range(len(self._slopes))):
            deltas.append(flow * self._slopes[layer])
            if layer:
                flow = deltas[-1] @ self._blocks[layer][:, :-1]
        return deltas[::-1]

    def _product(self, moves: list[np.ndarray]) -> np.ndarray:
        """``J v``, (points, outputs)."""
        moved = self._inputs[0] @ moves[0].T
        for layer, slopes in enumerate(self._slopes, start=1):
            carried = (moved * slopes) @ self._blocks[layer][:, :-1].T
            moved = self._inputs[layer] @ moves[layer].T + carried
        return moved

    def _adjoint(self, shares: np.ndarray) -> list[np.ndarray]:
        """``J' r``, a block for each layer."""
        deltas = [*self._flows(shares @ self._blocks[-1][:, :-1]), shares]
        return [d.T @ u for d, u in zip(deltas, self._inputs, strict=True)]


def _rms(layout: Layout, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Of all answers; infinite where a parameter is not a number."""
    if not np.all(np.isfinite(theta)):
        return float("inf")
    return float(np.sqrt(np.mean((layout.forward(theta, x) - y) ** 2)))
