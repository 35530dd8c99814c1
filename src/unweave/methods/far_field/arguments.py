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
    mismatch: float
    """Difference of the row's slope along the circle from the one seen there, relative to it: 0 unless an argument
    was read on the wrong side of an extremum of the top."""
    slope: float
    """Of the argument along the circle."""


def read_row(
    reading: Reading,
    pattern: np.ndarray,
    unit: int,
    top: Network,
    activation: act.Activation,
    basis: np.ndarray,
    tangent: np.ndarray,
) -> Row:
    """The exact row of ``unit`` from the answers around its crossing; ``pattern`` holds the others' values.

    The three answers along the circle may suit several arguments when the top is not monotone; the one is taken for
    which the steps tell the same.
    """
    answers = np.concatenate([reading.at_base[None], reading.at_profile, reading.at_steps])
    rows = []
    for start, slope in _match_profile(reading, pattern, unit, top, activation):
        change = reading.profile_step * slope
        guesses = [start, start + change, start - change, *np.full(len(reading.at_steps), start)]
        arguments = solve_arguments(answers, pattern, unit, top, activation, np.array(guesses))
        base, ahead, behind = arguments[:3]
        seen = (ahead - behind) / (2 * reading.profile_step)
        span = max(abs(ahead - behind) / 2, 1e-300)
        weights = basis @ (arguments[3:] - base) / reading.step
        mismatch = abs(weights @ tangent - seen) / max(abs(seen), 1e-300)
        bend = abs(ahead - 2 * base + behind) / span
        rows.append(Row(weights, float(base), float(bend), float(mismatch), float(seen)))
    return min(rows, key=lambda row: row.bend + row.mismatch)


def solve_near(
    answers: np.ndarray,
    pattern: np.ndarray,
    unit: int,
    top: Network,
    activation: act.Activation,
    moves: np.ndarray,
) -> float:
    """u with ``T(pattern with phi(u + moves_k) at unit) = answers_k`` for all k together."""
    grid = np.linspace(-12, 12, 961) * activation.scale
    hidden = np.array(np.broadcast_to(pattern, (len(grid), len(pattern))))
    hidden[:, unit] = activation(grid)
    curve = top(hidden)
    error = sum(
        _distance(curve, grid, grid + move, answer) for move, answer in zip(moves, answers, strict=True)
    )
    u = float(grid[int(np.argmin(error))])
    hidden = np.array(np.broadcast_to(pattern, (len(moves), len(pattern))))
    for _ in range(10):
        hidden[:, unit] = activation(u + moves)
        values, slopes = _along(top, hidden, unit)
        slopes = slopes * activation.first(u + moves, np)[:, None]
        step = np.sum(slopes * (values - answers)) / max(float(np.sum(slopes**2)), 1e-300)
        u -= float(np.clip(step, -0.1, 0.1))
    return u


def steepest_argument(
    pattern: np.ndarray, unit: int, top: Network, activation: act.Activation, near: float
) -> float:
    """The argument at which the answers tell most about it, not far from ``near``."""
    grid = near + np.linspace(-2.0, 2.0, 81) * activation.scale
    hidden = np.array(np.broadcast_to(pattern, (len(grid), len(pattern))))
    hidden[:, unit] = activation(grid)
    slopes = np.linalg.norm(_along(top, hidden, unit)[1], axis=1) * activation.first(grid, np)
    # steps reach to both sides: what counts is the least slope within them
    least = np.min(np.lib.stride_tricks.sliding_window_view(np.pad(slopes, 10, mode="edge"), 21), axis=1)
    return float(grid[int(np.argmax(least))])


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


def _match_profile(reading, pattern, unit, top, activation, num_best: int = 6) -> list[tuple[float, float]]:
    """Arguments at the base and their slopes along the circle, by a search over both on the three known points:
    the best local minima.
    """
    grid = np.linspace(-4, 4, 321) * activation.scale
    hidden = np.array(np.broadcast_to(pattern, (len(grid), len(pattern))))
    hidden[:, unit] = activation(grid)
    curve = top(hidden)
    targets = np.stack([reading.at_base, *reading.at_profile])
    slopes = np.geomspace(0.1, 8.0, 60) / reading.crossing.width
    shifts = slopes * reading.profile_step
    error = _distance(curve, grid, grid[:, None], targets[0])
    error = error + _distance(curve, grid, grid[:, None] + shifts[None, :], targets[1])
    error = error + _distance(curve, grid, grid[:, None] - shifts[None, :], targets[2])
    around = np.pad(error, 1, constant_values=np.inf)
    neighbours = np.lib.stride_tricks.sliding_window_view(around, (3, 3)).min(axis=(2, 3))
    lows = np.argwhere(error <= neighbours)
    order = np.argsort(error[tuple(lows.T)], kind="stable")[:num_best]
    return [(float(grid[i]), float(slopes[j])) for i, j in lows[order]]


def _distance(curve: np.ndarray, grid: np.ndarray, at: np.ndarray, target: np.ndarray) -> np.ndarray:
    values = np.stack([np.interp(at, grid, column) for column in curve.T], axis=-1)
    return np.sum((values - target) ** 2, axis=-1)
