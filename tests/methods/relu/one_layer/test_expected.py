"""Planes that lines refute: a gradient taken across a second kink gives a plane that other lines do not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truth import random_network
from unweave.methods.relu.one_layer.expected import count_bends, refuted
from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import Planes


def kinks_of(rows: np.ndarray, columns: np.ndarray, lines: Lines, line: int) -> Kinks:
    rates = rows[:, :-1] @ lines.directions[line]
    places = -(rows[:, :-1] @ lines.origins[line] + rows[:, -1]) / rates
    order = np.argsort(places)
    jumps = columns * np.abs(rates)[:, None]
    return Kinks(places[order], jumps[order], np.zeros(0), np.zeros(0), np.zeros((0, columns.shape[1])))


def draw_units_and_lines(rng: np.random.Generator, *, seed: int) -> tuple[np.ndarray, np.ndarray, Lines]:
    """Rows of length one with their biases, output weights, and a dozen lines that meet most of the planes."""
    network = random_network((6, 8, 3), "relu", seed=seed)
    rows = np.hstack([network.weights[0], network.biases[0][:, None]])
    lengths = np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    rows, columns = rows / lengths, network.weights[1].T * lengths
    directions = rng.standard_normal((12, 6))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    scale = np.full(12, 1.0)
    lines = Lines(0.1 * rng.standard_normal((12, 6)), directions, -50 * scale, 50 * scale, scale)
    return rows, columns, lines


def test_lines_refute_planes_at_which_they_do_not_bend():
    rng = np.random.default_rng(1)
    rows, columns, lines = draw_units_and_lines(rng, seed=1)
    seen = [(lines, i, kinks_of(rows, columns, lines, i)) for i in range(12)]
    wrong = rows[:2] + 0.3 * rng.standard_normal((2, 7))
    wrong /= np.linalg.norm(wrong[:, :-1], axis=1, keepdims=True)
    both = np.vstack([rows, wrong])
    points = -both[:, -1:] * both[:, :-1]
    planes = Planes(
        both[:, :-1], both[:, -1], np.vstack([columns, columns[:2]]), np.full(len(both), 1e-4), points
    )
    assert refuted(planes, seen).tolist() == [False] * 8 + [True] * 2
    crossings, bends = count_bends(planes.take(np.arange(8)), lines, 0, seen[0][2])
    assert crossings == bends > 3


def test_kinks_whose_places_are_rough_refute_no_plane():
    rng = np.random.default_rng(2)
    rows, columns, lines = draw_units_and_lines(rng, seed=2)
    seen = []
    for i in range(12):
        found = kinks_of(rows, columns, lines, i)
        moved = found.positions + 0.03 * np.ptp(found.positions) / 8 * rng.choice([-1, 1], 8)
        seen.append((lines, i, replace(found, positions=moved)))
    planes = Planes(rows[:, :-1], rows[:, -1], columns, np.full(8, 1e-9), -rows[:, -1:] * rows[:, :-1])
    assert not refuted(planes, seen).any()
