"""Does every unit show where it should, and is every kink some unit's? No queries: only lines already searched."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.two_layers.consistency import match_kinks
from unweave.methods.relu.two_layers.first_layer import FirstLayer
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import Planes


def predict_zeros(unit: PreActivation, planes: Planes, lines: Lines, line: int) -> np.ndarray:
    """Where the unit changes sign along a line, as far as it is known there."""
    rate, height = (
        planes.normals @ lines.directions[line],
        planes.normals @ lines.origins[line] + planes.offsets,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = -height / rate
    inside = np.isfinite(crossings) & (crossings > lines.low[line]) & (crossings < lines.high[line])
    t = np.concatenate([[lines.low[line]], np.sort(crossings[inside]), [lines.high[line]]])
    x = lines.points(np.full(len(t), line), t)
    z = unit.values(planes, x)
    change = np.flatnonzero(np.sign(z[:-1]) * np.sign(z[1:]) < 0)
    zeros = t[change] - z[change] * (t[change + 1] - t[change]) / (z[change + 1] - z[change])
    holds = unit.holds(planes, lines.points(np.full(len(zeros), line), zeros))
    return zeros[holds]


def audit(
    units: list[PreActivation], planes: Planes, lines: Lines, kinks: list[Kinks], slack: float = 1e-6
) -> tuple[np.ndarray, np.ndarray, list[Kinks]]:
    """How many predicted zeros of each unit were found as kinks, out of how many; and the unexplained kinks."""
    found, predicted = np.zeros(len(units), dtype=int), np.zeros(len(units), dtype=int)
    matches, _ = match_kinks(planes, lines, kinks)
    left = []
    for line in range(len(lines)):
        positions = kinks[line].positions
        explained = np.zeros(len(positions), dtype=bool)
        explained[matches[matches[:, line] >= 0, line]] = True
        for number, unit in enumerate(units):
            for t in predict_zeros(unit, planes, lines, line):
                predicted[number] += 1
                if len(positions):
                    nearest = int(np.argmin(np.abs(positions - t)))
                    if abs(positions[nearest] - t) <= slack * (abs(t) + lines.scale[line]):
                        found[number] += 1
                        explained[nearest] = True
        left.append(
            Kinks(
                positions[~explained],
                kinks[line].jumps[~explained],
                np.sort(np.concatenate([kinks[line].unresolved, positions[explained]])),
                kinks[line].asked,
                kinks[line].answers,
            )
        )
    return found, predicted, left


def known_breaks(units: list[PreActivation], first: FirstLayer, lines: Lines, line: int) -> np.ndarray:
    """Where first-layer planes and known units break a line."""
    rate = first.planes.normals @ lines.directions[line]
    height = first.planes.normals @ lines.origins[line] + first.planes.offsets
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = -height / rate
    inside = np.isfinite(crossings) & (crossings > lines.low[line]) & (crossings < lines.high[line])
    zeros = [predict_zeros(unit, first.planes, lines, line) for unit in units]
    return np.sort(np.concatenate([crossings[inside], *zeros]))
