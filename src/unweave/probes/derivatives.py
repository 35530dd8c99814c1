"""Gradients and Hessians of a model from its answers, with steps chosen from their measured accuracy.

Three schemes: *forward* (error of order h), *central* (h^2) and *Richardson* (h^4, two central differences
at h and 2h combined). With answers of relative noise n and a function that changes over a length L, an
error of order ``(h/L)^p`` against ``n (L/h)^k`` for the k-th derivative is least near ``h = L
n^{1/(p+k)}``. Hessians need ``1 + d + d(d+1)/2`` questions forward, ``1 + d + d^2`` central (mixed
differences along the diagonal of each square) and ``1 + 2 (d + d^2)`` Richardson; everything goes out as
one batch, and no point is paid for twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

Scheme = Literal["forward", "central", "richardson"]
_ORDER = {"forward": 1, "central": 2, "richardson": 4}


@dataclass(frozen=True)
class Differences:
    """A scheme with the step of first and of second differences."""

    scheme: Scheme
    first: float
    second: float

    @staticmethod
    def chosen(scheme: Scheme, precision: Precision, length: float = 1.0) -> Differences:
        """The steps that balance truncation against the measured noise."""
        return Differences(
            scheme, choose_step(scheme, 1, precision, length), choose_step(scheme, 2, precision, length)
        )

    @property
    def reach(self) -> float:
        """How far from its base point the longest difference asks, per coordinate direction."""
        return (2 if self.scheme == "richardson" else 1) * max(self.first, self.second)

    def error(self, derivative: int, precision: Precision, length: float = 1.0) -> float:
        """The relative error to expect of a derivative at these steps."""
        h = (self.first if derivative == 1 else self.second) / length
        return h ** _ORDER[self.scheme] + 4 * max(precision.relative, 1e-16) / h**derivative


def choose_step(scheme: Scheme, derivative: int, precision: Precision, length: float = 1.0) -> float:
    """``L n^{1/(p+k)}``, a power of two so that steps from a rounded base point are exact."""
    noise = max(precision.relative, 2.0**-52)
    step = length * noise ** (1 / (_ORDER[scheme] + derivative))
    return float(2.0 ** np.round(np.log2(step)))


def estimate_gradients(
    meter: Meter, points: np.ndarray, differences: Differences, directions: np.ndarray | None = None
) -> np.ndarray:
    """Derivatives (n, k, outputs) at points (n, d) along orthonormal ``directions`` (d, k), or all
    coordinates.
    """
    basis = np.eye(meter.input_size) if directions is None else directions
    h = differences.first
    if differences.scheme == "forward":
        values = _ask(meter, points, np.concatenate([np.zeros((1, meter.input_size)), h * basis.T]))
        return (values[:, 1:] - values[:, :1]) / h
    if differences.scheme == "central":
        values = _ask(meter, points, np.concatenate([h * basis.T, -h * basis.T]))
        plus, minus = np.split(values, 2, axis=1)
        return (plus - minus) / (2 * h)
    steps = np.concatenate([h * basis.T, -h * basis.T, 2 * h * basis.T, -2 * h * basis.T])
    plus, minus, plus2, minus2 = np.split(_ask(meter, points, steps), 4, axis=1)
    return (8 * (plus - minus) - (plus2 - minus2)) / (12 * h)


def estimate_hessians(
    meter: Meter, points: np.ndarray, differences: Differences, directions: np.ndarray | None = None
) -> np.ndarray:
    """Second derivatives (n, outputs, k, k) at points (n, d) along ``directions`` (d, k), or all coordinates."""
    basis = np.eye(meter.input_size) if directions is None else directions
    h = differences.second
    if differences.scheme == "forward":
        return _forward_hessians(meter, points, basis, h)
    if differences.scheme == "central":
        return _central_hessians(meter, points, basis, h)
    near, far = _central_hessians(meter, points, basis, h), _central_hessians(meter, points, basis, 2 * h)
    return (4 * near - far) / 3


def estimate_length(
    meter: Meter, precision: Precision, points: np.ndarray, rng: np.random.Generator, *, longest: float = 1.0
) -> float:
    """Over which length along a random direction the function bends: 1/k for a wave of frequency k.

    On five equally spaced points a direction the fourth differences are ``4 sin^2(kh/2)`` times the second
    ones; the spacing is halved from ``longest`` until that factor is well below its maximum. Four questions a
    point and spacing.
    """
    directions = rng.standard_normal(points.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    spacing = longest
    for _ in range(12):
        offsets = spacing * np.arange(-2, 3)
        inside = np.all([meter.domain.contains(points + t * directions) for t in offsets], axis=0)
        if np.any(inside):
            batch = points[inside, None] + offsets[:, None] * directions[inside, None]
            values = meter.ask(batch.reshape(-1, meter.input_size)).reshape(len(batch), 5, -1)
            second = values[:, 1] - 2 * values[:, 2] + values[:, 3]
            fourth = values[:, 0] - 4 * values[:, 1] + 6 * values[:, 2] - 4 * values[:, 3] + values[:, 4]
            bend, bent = float(np.sqrt(np.mean(second**2))), float(np.sqrt(np.mean(fourth**2)))
            if bent <= bend or bend <= 20 * precision.noise:
                phase = 2 * float(np.arcsin(np.clip(np.sqrt(bent / max(bend, 1e-300)) / 2, 0.25, 1.0)))
                return spacing / phase
        spacing /= 2
    return spacing


def _ask(meter: Meter, points: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Answers (n, steps, outputs) at ``points[i] + steps[j]``."""
    batch = (points[:, None, :] + steps[None]).reshape(-1, meter.input_size)
    return meter.ask(batch).reshape(len(points), len(steps), meter.output_size)


def _forward_hessians(meter: Meter, points: np.ndarray, basis: np.ndarray, h: float) -> np.ndarray:
    """``(f(x+hi+hj) - f(x+hi) - f(x+hj) + f(x)) / h^2`` (Fornasier et al., (25))."""
    size = basis.shape[1]
    rows, columns = np.triu_indices(size)
    single = h * basis.T
    steps = np.concatenate([np.zeros((1, len(basis))), single, single[rows] + single[columns]])
    values = _ask(meter, points, steps)
    centre, one, both = values[:, :1], values[:, 1 : size + 1], values[:, size + 1 :]
    return _fill((both - one[:, rows] - one[:, columns] + centre) / h**2, rows, columns, size)


def _central_hessians(meter: Meter, points: np.ndarray, basis: np.ndarray, h: float) -> np.ndarray:
    """``(f(+i+j) + f(-i-j) - f(+i) - f(-i) - f(+j) - f(-j) + 2 f) / (2 h^2)``, and second differences."""
    size = basis.shape[1]
    rows, columns = np.triu_indices(size, 1)
    single = h * basis.T
    pairs = single[rows] + single[columns]
    values = _ask(meter, points, np.concatenate([np.zeros((1, len(basis))), single, -single, pairs, -pairs]))
    centre = values[:, :1]
    sums = values[:, 1 : size + 1] + values[:, size + 1 : 2 * size + 1] - 2 * centre
    both = values[:, 2 * size + 1 :]
    plus, minus = np.split(both, 2, axis=1)
    mixed = (plus + minus - 2 * centre - sums[:, rows] - sums[:, columns]) / (2 * h**2)
    hessians = _fill(mixed, rows, columns, size)
    hessians[..., np.arange(size), np.arange(size)] = np.swapaxes(sums, 1, 2) / h**2
    return hessians


def _fill(entries: np.ndarray, rows: np.ndarray, columns: np.ndarray, size: int) -> np.ndarray:
    """(n, entries, outputs) into symmetric (n, outputs, size, size)."""
    hessians = np.zeros((len(entries), entries.shape[2], size, size))
    values = np.swapaxes(entries, 1, 2)
    hessians[..., rows, columns] = hessians[..., columns, rows] = values
    return hessians
