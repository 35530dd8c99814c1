"""The first layer of a saturating network, approximately: one reading and one row for each crossing of a far circle.

Crossings that hide a second unit are looked at from further out, where the two draw apart; a unit that does not pass
the orthogonal test is read again from further out, in shorter steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.far_field.sight import Sight
from unweave.probes.activation_profile import REACH, fit_shape
from unweave.probes.far_circle import Circle, Crossing
from unweave.probes.far_rows import (
    Reading,
    approximate_row,
    choose_radii,
    direct_row,
    hides_another,
    neighbour_gaps,
    orthogonal_test,
    read_crossings,
    split_overlap,
)
from unweave.probes.far_vertices import choose_vertices, staircase_patterns, wander

ATTEMPTS = 4


@dataclass(frozen=True)
class FirstLayer:
    """Readings and approximate rows, unit by unit; the steps of all readings were taken along ``basis``."""

    readings: list[Reading]
    rows: np.ndarray
    tangents: np.ndarray
    """Directions along which each unit's crossing was passed, its argument rising."""
    basis: np.ndarray
    patterns: np.ndarray
    """The hidden vector at each reading's base; a unit's own entry does not matter."""
    plateaus: tuple[np.ndarray, np.ndarray] | None
    """Hidden vectors and answers between the crossings of one circle, where it shows every unit."""
    num_pending: int = 0
    """Crossings that stay unresolved; they are not among the readings."""


def read_first_layer(
    sight: Sight, circle: Circle, crossings: list[Crossing], deep: bool, basis: np.ndarray
) -> FirstLayer:
    """Readings and approximate rows of all units, in the order of their crossings; steps along ``basis``."""
    ask, size = sight.meter.ask, sight.meter.input_size
    if deep:
        crossings = _uncover(sight, circle, crossings)
    done: dict[int, tuple[Reading, np.ndarray]] = {}
    pending = list(range(len(crossings)))
    for attempt in range(ATTEMPTS):
        # another unit may not be saturated because of a large bias: again from further out, in shorter steps
        radii = 6.0**attempt * choose_radii(crossings, sight.activation, sight.farthest)
        radii = np.minimum(radii, sight.farthest)
        with sight.meter.stage("rows"):
            readings = read_crossings(
                ask,
                circle,
                [crossings[i] for i in pending],
                sight.activation,
                basis,
                sight.steps(radii[pending], deep) / 2.0**attempt,
                radii[pending],
                neighbour_gaps(crossings)[pending] / 2,
                exact=not deep,
            )
            done.update(_single_units(sight, dict(zip(pending, readings, strict=True)), basis, deep))
        pending = [i for i in range(len(crossings)) if i not in done]
        if not pending:
            break
        with sight.meter.stage("circle"):
            pieces = [_split(sight, circle, c) if i in pending else [c] for i, c in enumerate(crossings)]
        crossings, done = _renumber(pieces, done)
        pending = [i for i in range(len(crossings)) if i not in done]
    kept = [done[i] for i in range(len(crossings)) if i in done]
    readings = [reading for reading, _ in kept]
    rows = np.array([row for _, row in kept]).reshape(-1, size)
    tangents = circle.tangent(np.array([r.crossing.angle for r in readings]))
    stairs = staircase_patterns(len(rows))
    plateaus = None
    if kept and not pending:
        plateaus = stairs, np.array([readings[0].crossing.before, *(r.crossing.after for r in readings)])
    return FirstLayer(readings, rows, tangents, basis, stairs[:-1], plateaus, len(pending))


def scale_rows(sight: Sight, layer: FirstLayer) -> np.ndarray:
    """The rows in their true lengths, from a profile across each crossing; under an unknown top only their directions
    are known before.
    """
    lengths = []
    for reading, tangent in zip(layer.readings, layer.tangents, strict=True):
        width = reading.crossing.width
        points = reading.base + REACH[:, None] * width * tangent
        shape = fit_shape(REACH, sight.meter.ask(points), sight.activation)
        lengths.append(abs(shape.slope) / width)
    along = np.sum(layer.rows * layer.tangents, axis=1)
    return layer.rows * (np.array(lengths) / np.where(along == 0, 1.0, np.abs(along)))[:, None]


def misses_a_unit(sight: Sight, layer: FirstLayer, num_pairs: int = 12) -> bool:
    """Two far points on the same side of every known hyperplane answer alike, unless one is unknown."""
    directions, _ = choose_vertices(layer.rows, num_pairs, sight.rng, set())
    others = wander(layer.rows, directions, sight.rng)
    with sight.meter.stage("vertices"):
        answers = sight.meter.ask(sight.radius * np.concatenate([directions, others]))
    first, second = np.split(answers, 2)
    return bool(np.any(np.abs(first - second) > 10 * sight.tolerance))


def _uncover(sight: Sight, circle: Circle, crossings: list[Crossing]) -> list[Crossing]:
    """Split the crossings that hide a second unit; under an unknown top their rows alone would not show it."""
    with sight.meter.stage("circle"):
        double = hides_another(sight.meter.ask, circle, crossings, sight.activation, 10 * sight.tolerance)
        pieces = [_split(sight, circle, c) if two else [c] for c, two in zip(crossings, double, strict=True)]
    return [c for group in pieces for c in group]


def _split(sight: Sight, circle: Circle, crossing: Crossing) -> list[Crossing]:
    return split_overlap(sight.meter.ask, circle, crossing, sight.activation, sight.tolerance, sight.farthest)


def _single_units(sight: Sight, readings, basis, deep: bool) -> dict[int, tuple[Reading, np.ndarray]]:
    """Readings that pass the orthogonal test, with their rows."""
    rows = {
        i: approximate_row(r, basis) if deep else direct_row(r, sight.activation, basis)
        for i, r in readings.items()
        if r is not None
    }
    sound = [i for i, row in rows.items() if np.all(np.isfinite(row)) and np.any(row)]
    single = orthogonal_test(
        sight.meter.ask,
        [readings[i] for i in sound],
        np.array([rows[i] for i in sound]),
        sight.rng,
        sight.slack(deep),
    )
    return {i: (readings[i], rows[i]) for i, ok in zip(sound, single, strict=True) if ok}


def _renumber(pieces, done) -> tuple[list[Crossing], dict]:
    crossings, kept = [], {}
    for i, group in enumerate(pieces):
        if i in done:
            kept[len(crossings)] = done[i]
        crossings.extend(group)
    return crossings, kept
