"""Ways on which a missing unit of a ridge sum shows: from an answer that is explained to one that is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines

BEYOND = 8.0
"""No answer may lie farther from the fit than this many of its error bars."""


def segments(starts: np.ndarray, ends: np.ndarray) -> Lines:
    """The straight ways from ``starts`` to ``ends``."""
    apart = np.linalg.norm(ends - starts, axis=1)
    directions = (ends - starts) / apart[:, None]
    return Lines(starts, directions, np.zeros(len(starts)), apart, apart)


def up_to_the_first_miss(residual: Inquiry, starts: np.ndarray, ends: np.ndarray, num: int = 8) -> Lines:
    """The ways from explained ``starts`` to unexplained ``ends``, cut behind where the rest first shows."""
    share = np.arange(1, num) / num
    between = starts[:, None] + share[None, :, None] * (ends - starts)[:, None]
    answers, bars = residual.ask(between.reshape(-1, starts.shape[1]))
    shown = (np.max(np.abs(answers), axis=1) > BEYOND * bars).reshape(len(starts), num - 1)
    shown = np.hstack([shown, np.ones((len(starts), 1), dtype=bool)])
    last = np.minimum(np.argmax(shown, axis=1) + 2, num) / num
    return segments(starts, starts + last[:, None] * (ends - starts))


def first_of_each_kind(kinks: list[Kinks]) -> list[Kinks]:
    """The first kink of each line, and of those that jump in the same direction one; the others count as unresolved."""
    seen: list[np.ndarray] = []
    found = []
    for line in kinks:
        chosen = np.zeros(len(line.positions), dtype=bool)
        if len(chosen):
            direction = line.jumps[0] / max(np.linalg.norm(line.jumps[0]), 1e-300)
            chosen[0] = len(direction) < 2 or not any(abs(direction @ other) > 0.999 for other in seen)
            seen.append(direction)
        others = np.concatenate([line.unresolved, line.positions[~chosen]])
        found.append(
            replace(line, positions=line.positions[chosen], jumps=line.jumps[chosen], unresolved=others)
        )
    return found


def most_unlike(left: np.ndarray, count: int) -> np.ndarray:
    """The numbers of ``count`` rows whose directions differ most: where one unit is missing, that is its output's."""
    directions = left / np.maximum(np.linalg.norm(left, axis=1, keepdims=True), 1e-300)
    chosen = [0]
    likeness = np.abs(directions @ directions[0])
    for _ in range(min(count, len(left)) - 1):
        likeness[chosen] = np.inf
        chosen.append(int(np.argmin(likeness)))
        likeness = np.maximum(likeness, np.abs(directions @ directions[chosen[-1]]))
    return np.array(chosen)


def find_rows(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The numbers of these rows of ``x``."""
    numbers = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(x))}
    return np.array(
        [numbers[row.tobytes()] for row in np.ascontiguousarray(points) if row.tobytes() in numbers]
    )
