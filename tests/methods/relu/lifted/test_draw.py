"""Lines on which kinks are looked for."""

from __future__ import annotations

import numpy as np

import unweave
from unweave.methods.relu.lifted.draw import crowded_lines, fair_lines


def kinks_of(lines, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(line, position) where the lines meet ``planes`` (n, d + 1) in between their ends."""
    rates = lines.directions @ planes[:, :-1].T
    t = -(lines.origins @ planes[:, :-1].T + planes[:, -1]) / rates
    line, plane = np.nonzero((t > lines.low[:, None]) & (t < lines.high[:, None]))
    return line, t[line, plane]


def draw_planes(count: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    normals = rng.standard_normal((count, 2))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return np.hstack([normals, spread * rng.uniform(-1, 1, (count, 1))])


def test_short_lines_are_drawn_where_kinks_crowd_and_nowhere_else():
    box, rng = unweave.Box(-2.0, 2.0), np.random.default_rng(0)
    lines = fair_lines(box, 24, 2, rng)
    assert not len(crowded_lines(box, lines, *kinks_of(lines, draw_planes(40, 2.0, rng)), 12, rng))
    crowd = np.vstack([draw_planes(60, 0.02, rng), draw_planes(15, 2.0, rng)])
    short = crowded_lines(box, lines, *kinks_of(lines, crowd), 12, rng)
    assert 0 < len(short) <= 12
    # they lie about the middle, and are short
    assert np.median(np.linalg.norm(short.origins, axis=1)) < 1.0
    assert np.median(short.high - short.low) < 0.5 * np.median(lines.high - lines.low)
    ends = [short.origins + t[:, None] * short.directions for t in (short.low, short.high)]
    assert all(np.all(box.contains(end)) for end in ends)
