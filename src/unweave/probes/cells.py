"""The affine function that a piecewise-linear oracle follows in a cell, from d + 1 points of the cell.

The step is tried out first on a random direction, which costs two queries, and the gradient is checked
afterwards on a random combination of all steps, which costs one: a step across a kink shows in either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.columns import Columns
from unweave.probes.inquiry import SAFETY, Inquiry

MAX_NUMBERS = 8_000_000
"""Numbers in one batch of questions; keeps the memory of wide inputs bounded."""


@dataclass(frozen=True)
class Pieces(Columns):
    """``values + gradients (x - centres)`` around each centre; ``steps`` is 0 where no step was safe."""

    centres: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    steps: np.ndarray
    errors: np.ndarray
    """Expected error of one entry of the gradient."""

    @property
    def valid(self) -> np.ndarray:
        return self.steps > 0

    def offsets(self) -> np.ndarray:
        """The affine functions' values at the origin."""
        return self.values - np.einsum("nkd,nd->nk", self.gradients, self.centres)


def measure_pieces(
    inquiry: Inquiry, centres: np.ndarray, steps: np.ndarray, rng: np.random.Generator, *, max_tries: int = 5
) -> Pieces:
    """The affine pieces around ``centres`` from coordinate steps of about ``steps``, shorter where need be."""
    centres = inquiry.meter.snap(centres)
    num, d, k = len(centres), inquiry.input_size, inquiry.output_size
    gradients = np.zeros((num, k, d))
    errors, good = np.full(num, np.inf), np.zeros(num)
    steps = np.array(steps, dtype=np.float64)
    values, bars = inquiry.ask(centres)
    pending = np.arange(num)
    for _ in range(max_tries):
        if not len(pending):
            break
        steps[pending] = _try_steps(
            inquiry, centres[pending], values[pending], bars[pending], steps[pending], rng
        )
        pending = pending[steps[pending] > 3 * inquiry.window]
        failed = []
        for rows in np.array_split(pending, max(1, len(pending) * (d + 1) * d // MAX_NUMBERS)):
            gradient, error, passed = _differences(
                inquiry, centres[rows], values[rows], bars[rows], steps[rows], rng
            )
            gradients[rows[passed]], errors[rows[passed]] = gradient[passed], error[passed]
            good[rows[passed]] = steps[rows[passed]]
            failed.append(rows[~passed])
        pending = np.concatenate(failed) if failed else pending[:0]
        steps[pending] /= 5
    return Pieces(centres, values, gradients, good, errors)


def _try_steps(inquiry: Inquiry, centres, values, bars, steps, rng, max_tries: int = 6) -> np.ndarray:
    """Steps along which the oracle is straight on both sides of each centre, in a direction of its own."""
    directions = rng.standard_normal(centres.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    steps, open_rows = steps.copy(), np.arange(len(centres))
    for _ in range(max_tries):
        if not len(open_rows):
            return steps
        offset = _within(inquiry, centres[open_rows], 3 * steps[open_rows, None] * directions[open_rows])
        there = inquiry.meter.snap(np.concatenate([centres[open_rows] + offset, centres[open_rows] - offset]))
        answers, their_bars = inquiry.ask(there)
        one, two = np.split(answers, 2)
        bend = np.max(np.abs(one + two - 2 * values[open_rows]), axis=1)
        tolerance = SAFETY * (2 * bars[open_rows] + np.maximum(*np.split(their_bars, 2)))
        open_rows = open_rows[bend > tolerance]
        steps[open_rows] /= 4
    steps[open_rows] = 0.0
    return steps


def _differences(inquiry: Inquiry, centres, values, bars, steps, rng):
    """Forward differences along every coordinate, and whether a random combination of them agrees."""
    num, d = centres.shape
    moves = _within(
        inquiry, np.repeat(centres, d, axis=0), (steps[:, None, None] * np.eye(d)).reshape(num * d, d)
    )
    there = inquiry.meter.snap(np.repeat(centres, d, axis=0) + moves)
    signs = rng.choice([-1.0, 1.0], size=(num, d)) / np.sqrt(d)
    check = inquiry.meter.snap(centres + _within(inquiry, centres, steps[:, None] * signs))
    answers, their_bars = inquiry.ask(np.concatenate([there, check]))
    rise = answers[: num * d].reshape(num, d, answers.shape[1]) - values[:, None]
    run = np.diagonal((there - np.repeat(centres, d, axis=0)).reshape(num, d, d), axis1=1, axis2=2)
    bar = np.maximum(bars, their_bars[: num * d].reshape(num, d).max(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):  # no room for a step: no gradient, an infinite error
        gradients = np.swapaxes(rise / run[:, :, None], 1, 2)
        errors = 1.5 * bar / np.abs(run).min(axis=1)
    predicted = values + np.einsum("nkd,nd->nk", gradients, check - centres)
    miss = np.max(np.abs(predicted - answers[num * d :]), axis=1)
    return (
        gradients,
        errors,
        miss <= SAFETY * (bar + their_bars[num * d :] + errors * np.abs(run).max(axis=1)),
    )


def _within(inquiry: Inquiry, centres: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The moves, turned round or shortened where they would leave the domain on either side."""
    domain = inquiry.meter.domain
    if np.isinf(domain.reach(inquiry.input_size)):
        return moves
    for _ in range(40):
        outside = ~(domain.contains(centres + moves, 0.0) & domain.contains(centres - moves, 0.0))
        if not outside.any():
            break
        moves = np.where(outside[:, None], moves / 2, moves)
    return moves
