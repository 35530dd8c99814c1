"""The first layer of a saturating network, approximately: one reading and one row for each crossing of a far circle.

Crossings that hide a second unit are looked at from further out, where the two draw apart; a unit that does not pass
the orthogonal test is read again from further out, in shorter steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
PROFILE_NODES, PROFILE_MARGIN = 10, 1.1
"""Places of a unit's profile, and its length relative to the longest of the unit's steps."""
LIKELY = 1.6
"""Ratio of the slope of a profile to that of its crossing, or the inverse, beyond which it is asked again."""
PROFILES, FURTHER = 5, 1e3
"""Profiles of a unit at most, and the ratio of their lengths."""
WIDE_REACH = np.linspace(-6.0, 6.0, 13)
"""Where a profile at an antipode is asked, in widths: the bias moves it."""
LONGER = (1.0, 1.7)
"""Lengths of further profiles where a step leads beyond the first one."""
OFF = 1e-6
"""What an inverted profile may differ from an answer by, relative to its range."""
FLAT = 0.02
"""Least slope of a profile that is inverted, relative to its largest."""


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


def sharpen_rows(sight: Sight, layer: FirstLayer) -> FirstLayer:
    """The same with directions to about 1e-6, from a profile along the circle over the range of each unit's steps.

    Next to a crossing the answers depend on one argument alone, so where they take a step's value on the profile is how
    far that step moved the argument, whatever stands above. Rows of a parabola, to a per cent, would put one far vertex
    in twenty on the wrong side of a hyperplane where there are a hundred of them.
    """
    widths = np.array([r.crossing.width for r in layer.readings])
    steps = np.array([r.step for r in layer.readings])
    moves = (layer.rows @ layer.basis) * steps[:, None]  # in widths along the circle
    reach = PROFILE_MARGIN * np.max(np.abs(moves), axis=1)
    nodes = np.cos(np.pi * (np.arange(PROFILE_NODES) + 0.5) / PROFILE_NODES)
    shifts = (reach * widths)[:, None] * nodes
    bases = np.array([r.base for r in layer.readings])
    points = bases[:, None] + shifts[:, :, None] * layer.tangents[:, None]
    with sight.meter.stage("profiles"):
        answers = sight.meter.ask(points.reshape(-1, bases.shape[1])).reshape(*shifts.shape, -1)
    rows = layer.rows.copy()
    for i, reading in enumerate(layer.readings):
        asked = np.concatenate([reading.at_base[None], reading.at_steps])
        places = invert_profile(nodes, answers[i], asked, np.append(0.0, moves[i] / reach[i]))
        if places is None:
            row = _read_longer(sight, layer, i, nodes, float(reach[i]))
            rows[i] = rows[i] if row is None else row
        else:
            rows[i] = layer.basis @ (places[1:] - places[0]) * reach[i] / steps[i]
    return replace(layer, rows=rows)


def _read_longer(
    sight: Sight, layer: FirstLayer, unit: int, nodes: np.ndarray, reach: float
) -> np.ndarray | None:
    """The row of a unit from longer profiles; where the answers turn back at its crossing, from where they are
    steepest.
    """
    reading, tangent = layer.readings[unit], layer.tangents[unit]
    width, step, ask = reading.crossing.width, reading.step, sight.meter.ask
    base, answers = reading.base, np.concatenate([reading.at_base[None], reading.at_steps])
    with sight.meter.stage("profiles"):
        for beside in (False, True):
            if beside:
                across = ask(base + REACH[:, None] * width * tangent)
                steepest = int(np.argmax(np.linalg.norm(np.diff(across, axis=0), axis=1) / np.diff(REACH)))
                base = base + (REACH[steepest] + REACH[steepest + 1]) / 2 * width * tangent
                answers = ask(np.concatenate([base[None], base + step * layer.basis.T]))
            for longer in LONGER if beside else LONGER[1:]:
                profile = ask(base + longer * reach * width * nodes[:, None] * tangent)
                places = invert_profile(nodes, profile, answers, np.zeros(len(answers)))
                if places is not None:
                    return layer.basis @ (places[1:] - places[0]) * longer * reach / step
    return None


def invert_profile(
    nodes: np.ndarray, profile: np.ndarray, answers: np.ndarray, guesses: np.ndarray
) -> np.ndarray | None:
    """Where the polynomial through ``profile`` at ``nodes`` takes the answers; None where it is not monotone there, or
    an answer lies beyond it.
    """
    centred = profile - profile.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    curve = np.polynomial.Chebyshev.fit(nodes, profile @ direction, len(nodes) - 1, domain=[-1, 1])
    slope, wanted, places = curve.deriv(), answers @ direction, np.array(guesses)
    around = slope(np.linspace(-1, 1, 64))
    if np.min(np.abs(around)) < FLAT * np.max(np.abs(around)) or np.ptp(np.sign(around)) > 0:
        return None
    for _ in range(12):
        places = np.clip(places - (curve(places) - wanted) / slope(places), -1.0, 1.0)
    beyond = np.max(np.abs(curve(places) - wanted)) > OFF * np.ptp(curve(np.linspace(-1, 1, 9)))
    return None if beyond else places


def scale_rows(sight: Sight, layer: FirstLayer) -> np.ndarray:
    """The rows in their true lengths, from a profile across each crossing; under an unknown top only their directions
    are known before.
    """
    return _profile(sight, layer)[0]


def place_units(sight: Sight, layer: FirstLayer) -> tuple[np.ndarray, np.ndarray]:
    """Rows in their true lengths, and biases to a few tenths: the mean of a unit's arguments at its base and at the
    antipode, where the large part of ``a . x`` cancels. A unit is taken to be at 0 where its profile changes most.
    """
    with sight.meter.stage("profiles"):
        rows, widths, answers = _profile(sight, layer)
        opposite = _ask_across(sight, layer, widths, WIDE_REACH, side=-1.0)
    middles = [_middle(REACH, a) + _middle(WIDE_REACH, b) for a, b in zip(answers, opposite, strict=True)]
    return rows, -np.array(middles) * widths * np.linalg.norm(rows, axis=1) / 2


def _profile(sight: Sight, layer: FirstLayer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in their true lengths, and answers at ``REACH`` across each crossing, in the widths that come with them.

    A top that is not monotone gives a crossing a width of any size: then the first profile shows a piece of the
    transition, or too few places in it, but its slope tells where to ask for a better one.
    """
    along = np.abs(np.sum(layer.rows * layer.tangents, axis=1)) / _lengths(layer)
    widths = np.array([r.crossing.width for r in layer.readings]) * along
    answers = _ask_across(sight, layer, widths, REACH)
    slopes = np.array([_slope(sight, a) for a in answers])
    for _ in range(PROFILES - 1):
        (off,) = np.nonzero(np.abs(np.log(slopes)) > np.log(LIKELY))
        if not len(off):
            break
        widths[off] /= np.clip(slopes[off], 1 / FURTHER, FURTHER)
        answers[off] = _ask_across(sight, layer, widths, REACH, units=off)
        slopes[off] = [_slope(sight, a) for a in answers[off]]
    slopes = np.where(np.abs(np.log(slopes)) > np.log(LIKELY), 1.0, slopes)
    return layer.rows * (slopes / widths / _lengths(layer))[:, None], widths, answers


def _lengths(layer: FirstLayer) -> np.ndarray:
    return np.maximum(np.linalg.norm(layer.rows, axis=1), 1e-300)


def _slope(sight: Sight, answers: np.ndarray) -> float:
    return max(abs(fit_shape(REACH, answers, sight.activation).slope), 1e-300)


def _ask_across(
    sight: Sight,
    layer: FirstLayer,
    widths: np.ndarray,
    places: np.ndarray,
    *,
    units: np.ndarray | None = None,
    side: float = 1.0,
) -> np.ndarray:
    """Answers across each crossing, or its antipode, at places in widths: (units, places, outputs).

    The way goes along the unit's own row, which moves its argument fastest: along the circle a unit may turn so slowly
    that others switch within its transition.
    """
    units = np.arange(len(widths)) if units is None else units
    bases = side * np.array([layer.readings[i].base for i in units])
    ways = (layer.rows / _lengths(layer)[:, None])[units]
    points = bases[:, None] + (widths[units, None] * places)[:, :, None] * ways[:, None]
    return sight.meter.ask(points.reshape(-1, bases.shape[1])).reshape(*points.shape[:2], -1)


def _middle(places: np.ndarray, answers: np.ndarray) -> float:
    """Where a profile changes, on average."""
    changes = np.linalg.norm(np.diff(answers, axis=0), axis=1)
    return float(changes @ (places[1:] + places[:-1]) / (2 * max(float(np.sum(changes)), 1e-300)))


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
