"""How the answers depart from straight lines far out, where networks of the activations tried do not.

Along a ray each of these activations becomes straight exponentially fast: far out the answers are affine in the
distance to rounding. Three answers along every ray of the growth tell whether they are. Only where none is straight
more are asked, each ray at five radii. A departure that is the same power of the distance on all rays, or one that is
there however far out and follows no power, belongs to other units, or to no network. Known units do neither: their
windows are met by few rays, and rows so short that they still bend far out bend like a square there and are straight
farther out.

Softsign alone departs like one over the distance. Its units have a crease, where the second derivative jumps, which
arctan and its like do not have.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import NotANumber
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.probes.creases import shows_crease
from unweave.probes.growth import RADIUS, Growth

NUM_RAYS, NUM_RADII = 6, 5
NEAREST = {"float64": 1e4, "float32": 1e3}
"""The first radius, each of the others is twice the one before. Rounding grows with the answers, departures shrink."""
FARTHER, FARTHEST = 100.0, 1e5
"""How many times as far a departure that stays is looked for again."""
ROUNDINGS = 4.0
"""Units of rounding that three answers may leave, ..."""
CLEAR = {"float64": 400.0, "float32": 16.0}
"""... and how many times that a departure exceeds that is told."""
MOST = 0.8
"""Share of the rays that have to agree: some meet the window of a unit."""
SAME = 0.1
"""Powers agree to this; those of logarithms change with the distance, but slowly."""
SLOWEST = -0.3
"""Departures that shrink less than like this power do so like a logarithm."""
LARGE, SQUARED = 1e3, 1.7
"""Answers this many times as large as near by, whose logarithm doubles, all but this, with the distance, explode."""
STEEPEST = 1.2
"""Waves that follow no power grow no faster than this one; bends of short rows do, like a square."""

SHRINKING = (
    "far out the answers approach {} like the power {:.2g} of the distance, as those of units such as arctan, "
    "x / sqrt(1 + x^2) or squareplus do; those of the activations tried do so exponentially (squareplus and softsign "
    "may be named with activation=)"
)
SMOOTHLY = (
    "the answers level off like one over the distance and have no crease: units such as arctan; of the activations "
    "tried only softsign levels off so slowly, and it has one"
)
GROWING = (
    "the answers grow like the power {:.3g} of the distance: a polynomial, or units whose activation grows so; none of "
    "the activations tried grows like a power other than one"
)
LOGARITHM = (
    "the answers grow ever more slowly, like the logarithm of the distance, as those of asinh units do; each of the "
    "activations tried levels off or grows linearly"
)
EXPLODING = (
    "the answers grow like the exponential of the distance, until they overflow: units such as exp, or no dense "
    "network; none of the activations tried grows faster than linearly"
)
WAVING = (
    "however far out, the answers neither level off nor follow a straight line: periodic units (sine, x + sin x) or no "
    "dense network; those of each of the activations tried do one of them"
)


def see_departure(meter: Meter, precision: Precision, growth: Growth, rng: np.random.Generator) -> str:
    """Why the answers far out are not those of a network of the activations tried; nothing where they may be."""
    if growth in (Growth.UNSEEN, Growth.CONSTANT):
        return ""
    if growth is Growth.OTHER and not len(meter.transcript("growth")[0]):
        return EXPLODING if _explodes(meter, precision, rng) else ""
    if precision.kind != "float32" and not _growth_is_bent(meter, precision):
        return ""
    near, exact = NEAREST.get(precision.kind, 1e4), precision.kind in NEAREST
    reach = meter.domain.reach(meter.input_size) / 2**NUM_RADII
    try:
        first = _depart(meter, precision, near, rng)
        if not _told(first):
            return ""
        power = _power(first)
        if exact and power is not None and power < SLOWEST:
            return _say_shrinking(power, meter, precision, growth, rng)
        if near * FARTHEST > reach:
            return ""
        rest = [_depart(meter, precision, near * factor, rng) for factor in (FARTHER, FARTHEST)]
    except NotANumber:
        return ""
    if not all(_told(found) for found in rest):
        return ""
    powers = [_power(found) for found in rest]
    if any(later is not None and later < SLOWEST for later in powers):
        return ""  # short rows of units that level off slowly
    if exact and power is None and None in powers:
        sizes = [float(np.median(np.abs(found[0]))) for found in (first, *rest)]
        steepest = np.log(sizes[1] / sizes[0]) / np.log(FARTHER)
        return WAVING if steepest <= STEEPEST else ""
    last = powers[-1]
    if power is None or last is None:
        return ""
    if last > SAME and abs(last - power) <= SAME:
        return GROWING.format(last)
    return LOGARITHM if exact and power <= last + SAME / 5 and abs(last) <= SAME else ""


def _say_shrinking(
    power: float, meter: Meter, precision: Precision, growth: Growth, rng: np.random.Generator
) -> str:
    level = "straight lines" if growth is Growth.LINEAR else "their level"
    if growth is not Growth.LINEAR and precision.kind == "float64" and abs(power + 1) <= SAME:
        return "" if meter.input_size < 2 or shows_crease(meter, rng) else SMOOTHLY
    return SHRINKING.format(level, power)


def _explodes(meter: Meter, precision: Precision, rng: np.random.Generator) -> bool:
    """Whether answers that overflow far out grow exponentially near by, and not behind an exponential output."""
    rays = rng.standard_normal((NUM_RAYS, meter.input_size))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    answers, radius = [np.zeros((NUM_RAYS, meter.output_size))], 1.0
    while radius < RADIUS:
        try:
            with meter.stage("departures"):
                answers.append(meter.ask(radius * rays))
        except NotANumber:
            break
        radius *= 2
    if len(answers) < 3 or np.min(answers) >= -1:
        return False
    before, last = (
        np.log(np.maximum(np.max(np.abs(a), axis=1) / precision.scale, 1e-300)) for a in answers[-2:]
    )
    return bool(np.mean((before > np.log(LARGE)) & (last > SQUARED * before)) >= 0.5)


def _growth_is_bent(meter: Meter, precision: Precision) -> bool:
    """Whether no ray along which the growth was looked at is straight."""
    x, y = meter.transcript("growth")
    index = {row.tobytes(): i for i, row in enumerate(x)}
    rows = [[index.get((times * row).tobytes(), -1) for times in (1, 2, 4)] for row in x]
    rows = np.array([row for row in rows if min(row) >= 0], dtype=int).reshape(-1, 3)
    if not len(rows):
        return False
    departures, seen = _departures(y[rows.T], precision)
    return bool(np.all(np.any(np.abs(departures) > seen, axis=2)))


def _depart(
    meter: Meter, precision: Precision, radius: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Departures (steps, rays, outputs) at that radius and farther, and above which they are told."""
    rays = rng.standard_normal((NUM_RAYS, meter.input_size))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    radii = radius * 2.0 ** np.arange(NUM_RADII)
    with meter.stage("departures"):
        answers = meter.ask((radii[:, None, None] * rays).reshape(-1, meter.input_size))
    departures, seen = _departures(answers.reshape(NUM_RADII, NUM_RAYS, -1), precision)
    return departures, CLEAR.get(precision.kind, 1.0) * seen


def _departures(answers: np.ndarray, precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """What f(4r) - 3 f(2r) + 2 f(r), 0 for an affine f, is, and what rounding may leave of it."""
    near, middle, far = answers[:-2], answers[1:-1], answers[2:]
    # the rounding of sums that cancel along one ray is that of the others
    size = np.max(np.abs(far) + np.abs(middle) + np.abs(near), axis=1, keepdims=True)
    return far - 3 * middle + 2 * near, ROUNDINGS * precision.unit * size + 10 * precision.noise


def _told(found: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether most rays depart from straight lines at all radii."""
    departures, told = found
    return bool(np.mean(np.all(np.any(np.abs(departures) > told, axis=2), axis=0)) >= MOST)


def _power(found: tuple[np.ndarray, np.ndarray]) -> float | None:
    """The power of the distance that departures follow on most rays; None: they follow none."""
    departures, told = np.abs(found[0]), found[1]
    clear = np.all(departures > told, axis=0)  # (rays, outputs)
    if not np.any(clear):
        return None
    powers = np.log2(departures[1:, clear] / departures[:-1, clear])
    middle = np.median(powers, axis=1)
    close = np.all(np.abs(powers - middle[:, None]) <= SAME, axis=0)
    same = np.ptp(middle) <= SAME and np.mean(close) >= MOST
    return float(middle[-1]) if same else None
