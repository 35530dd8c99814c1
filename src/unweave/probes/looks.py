"""Whether the answers bend at given places: one kink on a short line, none, or more than that.

Four questions on a line across each place, and one where the straight parts meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.probes.inquiry import SAFETY, Inquiry

SHOWN = 30.0
"""Error bars by which a bend stands out."""
TICKS = np.array([-1.0, -0.3, 0.3, 1.0])
SHORTER, TRIES = 0.1, 3
"""How much shorter a line is tried again where more than one kink lies on it, and how often."""


@dataclass
class Looks:
    """What was seen across each place."""

    bent: np.ndarray
    """Exactly one kink within 0.3 widths."""
    straight: np.ndarray
    shift: np.ndarray
    """Where the kink is, along the line."""
    error: np.ndarray
    jump: np.ndarray
    """(n, k) change of slope."""


def look(inquiry: Inquiry, x: np.ndarray, across: np.ndarray, width: np.ndarray) -> Looks:
    """Look across the places ``x`` along unit vectors, ``width`` to either side, shorter where that is too long."""
    n, k = len(x), inquiry.output_size
    seen = Looks(
        np.zeros(n, dtype=bool),
        np.zeros(n, dtype=bool),
        np.zeros(n),
        np.full(n, np.inf),
        np.zeros((n, k)),
    )
    width, rows = width.copy(), np.arange(n)
    for _ in range(TRIES):
        if not len(rows):
            break
        _look_once(inquiry, x, across, width, rows, seen)
        rows = rows[~(seen.bent | seen.straight)[rows]]
        width[rows] *= SHORTER
    return seen


def _look_once(inquiry: Inquiry, x, across, width, rows: np.ndarray, seen: Looks) -> None:
    n, k = len(rows), inquiry.output_size
    points = x[rows] + (TICKS[:, None] * width[rows])[:, :, None] * across[rows]
    answers, bars = inquiry.ask(points.reshape(4 * n, -1))
    f, bar = answers.reshape(4, n, k), bars.reshape(4, n).max(axis=0)
    left, right = (f[1] - f[0]) / 0.7, (f[3] - f[2]) / 0.7
    turn = right - left
    size = np.einsum("nk,nk->n", turn, turn)
    gap = (f[1] + 0.3 * left) - (f[2] - 0.3 * right)
    where = np.einsum("nk,nk->n", gap, turn) / np.maximum(size, 1e-300)
    chord = f[0] + (f[3] - f[0]) * 0.35, f[0] + (f[3] - f[0]) * 0.65
    off = np.maximum(*(np.max(np.abs(c - g), axis=1) for c, g in zip(chord, f[1:3], strict=True)))
    seen.straight[rows] = off <= SAFETY * bar
    go = np.flatnonzero((np.sqrt(size) > SHOWN * bar) & (np.abs(where) < 0.29))
    if not len(go):
        return
    mine = rows[go]
    corner, _ = inquiry.ask(x[mine] + (where[go] * width[mine])[:, None] * across[mine])
    miss = np.maximum(
        np.max(np.abs(f[1][go] + (where[go] + 0.3)[:, None] * left[go] - corner), axis=1),
        np.max(np.abs(f[2][go] + (where[go] - 0.3)[:, None] * right[go] - corner), axis=1),
    )
    good = miss <= 2 * SAFETY * bar[go]
    mine, go = mine[good], go[good]
    seen.bent[mine] = True
    seen.shift[mine] = where[go] * width[mine]
    seen.error[mine] = 4 * bar[go] / np.sqrt(size[go]) * width[mine]
    seen.jump[mine] = turn[go] / width[mine, None]
