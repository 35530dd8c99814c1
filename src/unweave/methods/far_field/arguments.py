"""Arguments of first-layer units, read exactly through a known upper network.

Where all hidden units but one are at known limits, ``f(x) = T(h)`` with a single unknown coordinate
``h_i = phi(u)``. With T known, u follows from each answer by a scalar Gauss-Newton iteration (all outputs used
jointly), and differences of u over known steps are the entries of the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.probes.far_rows import Reading


@dataclass(frozen=True)
class Row:
    """One first-layer unit: its row, its argument at the base of its reading, and how straight the reading was."""

    weights: np.ndarray
    argument: float
    bend: float
    """Second difference of the argument along the circle, relative to the first: 0 for the right activation."""


def read_row(
    reading: Reading,
    pattern: np.ndarray,
    unit: int,
    top: Network,
    activation: act.Activation,
    basis: np.ndarray,
) -> Row:
    """The exact row of ``unit`` from the answers around its crossing; ``pattern`` holds the others' values."""
    start, slope = _match_profile(reading, pattern, unit, top, activation)
    change = reading.profile_step * slope
    answers = np.concatenate([reading.at_base[None], reading.at_profile, reading.at_steps])
    guesses = np.concatenate([[start, start + change, start - change], np.full(len(reading.at_steps), start)])
    arguments = solve_arguments(answers, pattern, unit, top, activation, guesses)
    base, ahead, behind = arguments[:3]
    span = max(abs(ahead - behind) / 2, 1e-300)
    bend = abs(ahead - 2 * base + behind) / span
    return Row(basis @ (arguments[3:] - base) / reading.step, float(base), float(bend))


def solve_arguments(
    answers: np.ndarray,
    pattern: np.ndarray,
    unit: int | np.ndarray,
    top: Network,
    activation: act.Activation,
    guesses: np.ndarray,
) -> np.ndarray:
    """u with ``T(pattern with phi(u) at unit) = answer``, row by row, near the guesses."""
    u = np.array(guesses, dtype=np.float64)
    hidden = np.array(np.broadcast_to(pattern, (len(answers), pattern.shape[-1])))
    index = np.arange(len(answers))
    best, best_error = u.copy(), np.full(len(u), np.inf)
    for _ in range(40):
        hidden[index, unit] = activation(u)
        values, slopes = _along(top, hidden, unit)
        slopes = slopes * activation.first(u, np)[:, None]
        residual = values - answers
        error = np.linalg.norm(residual, axis=1)
        better = error < best_error
        best, best_error = np.where(better, u, best), np.where(better, error, best_error)
        squared = np.sum(slopes**2, axis=1)
        step = np.sum(residual * slopes, axis=1) / np.where(squared > 0, squared, np.inf)
        u = np.clip(best - np.clip(step, -0.7, 0.7) * np.where(better, 1.0, 0.0), -12.0, 12.0)
        if not better.any():
            break
    return best


def _along(top: Network, hidden: np.ndarray, unit: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of ``top`` and their derivatives with respect to one coordinate of each row."""
    h, tangent = hidden, np.zeros_like(hidden)
    tangent[np.arange(len(hidden)), unit] = 1.0
    for w, b, name in zip(top.weights, top.biases, top.activations, strict=True):
        activation = act.get(name)
        z = h @ w.T + b
        h, tangent = activation(z), activation.first(z, np) * (tangent @ w.T)
    return h, tangent


def _match_profile(reading, pattern, unit, top, activation) -> tuple[float, float]:
    """Argument at the base and its slope along the circle, by a search over both on the three known points."""
    grid = np.linspace(-4, 4, 321) * activation.scale
    hidden = np.array(np.broadcast_to(pattern, (len(grid), len(pattern))))
    hidden[:, unit] = activation(grid)
    curve = top(hidden)
    targets = np.stack([reading.at_base, *reading.at_profile])
    slopes = np.geomspace(0.2, 5.0, 45) / reading.crossing.width
    shifts = slopes * reading.profile_step
    error = _distance(curve, grid, grid[:, None], targets[0])
    error = error + _distance(curve, grid, grid[:, None] + shifts[None, :], targets[1])
    error = error + _distance(curve, grid, grid[:, None] - shifts[None, :], targets[2])
    i, j = np.unravel_index(np.argmin(error), error.shape)
    return float(grid[i]), float(slopes[j])


def _distance(curve: np.ndarray, grid: np.ndarray, at: np.ndarray, target: np.ndarray) -> np.ndarray:
    values = np.stack([np.interp(at, grid, column) for column in curve.T], axis=-1)
    return np.sum((values - target) ** 2, axis=-1)
