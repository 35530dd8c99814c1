"""How exact the answers are: rounding, float32 or noise, measured by difference tables.

On points equally spaced along a short segment a smooth function is a low-degree polynomial; its high
differences vanish and what is left is the error of the answers, amplified by a known binomial factor
(Hamming's table; More and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33, 2011). The points
lie on a grid of powers of two, so that the inputs themselves carry no rounding error. Answers that are
multiples of one step have been rounded; their differences may all vanish, and the step tells their error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unweave.core.domains import Domain
from unweave.evidence.meter import Meter

_EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
_STEP = {"float64": 2.0**-26, "float32": 2.0**-12}
"""Spacing on a segment, relative to the spread of the domain."""
SMALL = 1e-2
"""Answers of at most this part of the largest are small."""
CLEARLY_MORE = 12.0
"""How many of their own roundings the error of small answers must be to count as one of its own."""
SYSTEMATIC = 4.0
"""How many times its jitter from one answer to the next an approximation is off."""
_NUM_POINTS = 7
_HIGHEST_ORDER = 5


@dataclass(frozen=True)
class Precision:
    """The measured error of the answers, absolute and relative to their scale."""

    noise: float
    """Standard deviation of the error of one answer, in the units of the outputs."""
    scale: float
    """Typical spread of the outputs over the domain."""
    kind: str
    """``"float64"``, ``"float32"``, ``"rounded"`` or ``"noisy"``."""
    step: float = 0.0
    """What the answers are multiples of, when they are rounded."""
    floor: float = 0.0
    """The absolute error that even the smallest answers have, where that is more than their own rounding."""

    @property
    def relative(self) -> float:
        return self.noise / self.scale if self.scale > 0 else 0.0

    @property
    def unit(self) -> float:
        """Relative rounding of the model's arithmetic."""
        return _EPS["float32" if self.kind == "float32" else "float64"]

    def at(self, answers: np.ndarray) -> Precision:
        """The precision of answers of this size: rounding that was measured where they are larger is less here."""
        size = float(np.sqrt(np.mean(answers**2)))
        if self.kind not in _EPS or size >= self.scale:
            return self
        return replace(self, noise=min(self.noise, self.relative * size), scale=size)


def measure_precision(
    meter: Meter,
    rng: np.random.Generator,
    *,
    num_points: int = 8,
    num_segments: int = 3,
    num_single: int = 7,
) -> Precision:
    """The noise level of the answers, from ``num_points + 6 num_segments`` questions (26) and at most 3 more.

    In single precision ``num_single`` segments are asked (28 questions more): there a few roundings decide the level,
    and what can be claimed depends on it. Charged to the stage ``precision``. A kink on a segment, or a segment where
    the function is too curved, shows as a far larger level than the others have and is left out.
    """
    with meter.stage("precision"):
        spread = _spread(meter.domain, meter.input_size, rng)
        grid = "float32" if meter.dtype == "float32" else "float64"
        points = _ordinary_points(meter, spread, grid, num_points, rng)
        answers = meter.ask(points)
        single = grid == "float32" or _are_single(answers)
        grid = "float32" if single else "float64"
        eps = _EPS[grid]
        tables = [meter.ask(_segment(meter, points[0], spread, grid, rng))]
        staircase = not single and _is_staircase(tables[0]) and not np.all(answers == answers[0])
        if staircase:
            values = np.concatenate([answers, *tables])
            if _rounding_step(values, eps) == 0:
                tables, grid = [], "float32"
        if not (staircase and tables):
            for start in points[1 : num_single if grid == "float32" else num_segments]:
                tables.append(meter.ask(_segment(meter, start, spread, grid, rng)))
        values = np.concatenate([answers, *tables])
        magnitude = float(np.sqrt(np.mean(values**2)))
        scale = float(np.sqrt(np.mean(np.var(answers, axis=0))))
        half = _half_unit(values)
        if half:
            return Precision(half * magnitude, scale, "noisy")
        level, step = _noise_level(tables), _rounding_step(values, eps)
        if step > 0 and level < 3 * step:
            return Precision(max(level, step / math.sqrt(12)), scale, "rounded", step)
        level = max(level, eps * magnitude / math.sqrt(12), np.finfo(float).tiny)
        if single:
            kind = "float32" if level <= 3e-5 * magnitude else "noisy"
        elif level <= 1e-11 * magnitude or magnitude == 0:
            kind = "float64"
        elif level <= 1e-5 * magnitude and (staircase or _rounds_inputs(meter, points[0], spread)):
            kind = "float32"
        else:
            kind = "noisy"
        return Precision(level, scale, kind)


def measure_floor(meter: Meter, precision: Precision, rng: np.random.Generator) -> float:
    """The absolute error of answers in single precision that are small beside others; 0 where it is their own rounding.

    Some runtimes compute a sigmoid as half a tanh plus a half: answers of 1e-5 are then off by 1e-7. Seven questions at
    each of at most three places already asked where answers are small (stage ``outputs``); none where there is none.
    Without bounds places far out do not count: beside answers there, where an exp overflows, all others are small.
    """
    endless = math.isinf(meter.domain.reach(meter.input_size))
    x, y = meter.transcript("precision", "outputs") if endless else meter.transcript()
    sizes = np.abs(y)
    small = (
        (sizes > 0)
        & (sizes < SMALL * sizes.max(initial=0.0))
        & (sizes > precision.unit * sizes.max(initial=0.0))
    )
    places = np.flatnonzero(np.any(small, axis=1))
    if precision.kind != "float32" or not len(places):
        return 0.0
    spread, floor = _spread(meter.domain, meter.input_size, rng), 0.0
    with meter.stage("outputs"):
        for place in rng.permutation(places)[:3]:
            table = meter.ask(_segment(meter, x[place], spread, "float32", rng))[:, small[place]]
            level = np.array([_noise_level([table[:, [k]]]) for k in range(table.shape[1])])
            beyond = level > CLEARLY_MORE * precision.unit * np.abs(table).max(axis=0)
            floor = max(floor, SYSTEMATIC * float(np.max(level[beyond], initial=0.0)))
    return floor


def _spread(domain: Domain, input_size: int, rng: np.random.Generator) -> np.ndarray:
    """The deviation of each coordinate over the domain, as a power of two; 1 where the domain has no end."""
    if math.isinf(domain.reach(input_size)):
        return np.ones(input_size)
    deviation = np.std(domain.sample(64, input_size, rng), axis=0)
    return 2.0 ** np.floor(np.log2(np.maximum(deviation, 1e-30)))


def _ordinary_points(
    meter: Meter, spread: np.ndarray, grid: str, num_points: int, rng: np.random.Generator
) -> np.ndarray:
    """Points of the domain on the grid, far enough inside it for a segment."""
    room = 16 * _STEP["float32"]
    found: list[np.ndarray] = []
    for _ in range(50):
        if math.isinf(meter.domain.reach(meter.input_size)):
            x = rng.standard_normal((num_points, meter.input_size))
        else:
            x = meter.domain.sample(num_points, meter.input_size, rng)
        x = np.round(x / (_STEP[grid] * spread)) * (_STEP[grid] * spread)
        inside = np.ones(len(x), dtype=bool)
        for sign in (-1, 1):
            inside &= meter.domain.contains(x + sign * room * spread)
        inside &= meter.domain.contains(x)
        found.extend(x[inside])
        if len(found) >= num_points:
            return np.array(found[:num_points])
    return meter.domain.sample(num_points, meter.input_size, rng)


def _segment(
    meter: Meter, start: np.ndarray, spread: np.ndarray, grid: str, rng: np.random.Generator
) -> np.ndarray:
    """Equally spaced points from ``start``, moved to the grid, along a random diagonal."""
    unit = _STEP[grid] * spread
    start = start if grid == "float64" else np.round(start / unit) * unit
    for _ in range(50):
        direction = rng.choice([-1.0, 1.0], size=len(start))
        x = start + np.arange(_NUM_POINTS)[:, None] * unit * direction
        if np.all(meter.domain.contains(x)):
            return x
    return np.repeat(start[None], _NUM_POINTS, axis=0)


def _noise_level(tables: list[np.ndarray]) -> float:
    """The level at which the differences stop falling with their order, over the segments that agree."""
    levels = np.array([[_level(table, k) for k in range(1, _HIGHEST_ORDER + 1)] for table in tables])
    reached = np.maximum(levels[:, :-1], levels[:, 1:]).min(axis=1)
    pooled = np.sqrt(np.mean(levels[reached <= 10 * np.median(reached)] ** 2, axis=0))
    for k in range(_HIGHEST_ORDER):
        if pooled[k] <= 2.5 * pooled[k:].min():
            return float(pooled[k])
    return float(pooled[-1])


def _level(table: np.ndarray, order: int) -> float:
    """The deviation that independent errors need to explain the differences of this order."""
    amplification = math.comb(2 * order, order)
    return float(np.sqrt(np.mean(np.diff(table, n=order, axis=0) ** 2) / amplification))


def _are_single(answers: np.ndarray) -> bool:
    """Whether every answer is a float32 number (and not all of them are whole numbers)."""
    with np.errstate(over="ignore"):
        exact = np.array_equal(answers.astype(np.float32).astype(np.float64), answers)
    return exact and not np.array_equal(np.round(answers), answers)


def _half_unit(values: np.ndarray) -> float:
    """The relative rounding of half precision where every answer has so few digits, relative to its own size; or 0.

    bfloat16 has 8 bits and float16 has 11. Numbers rounded to one step for all are multiples of that of the largest.
    """
    sizes = np.abs(values[values != 0])
    if len(np.unique(sizes)) < 8:
        return 0.0
    fractions = np.frexp(sizes)[0]
    for bits in (8, 11):
        last = 2.0 ** (np.frexp(sizes.max())[1] - bits)
        if np.all(fractions * 2.0**bits % 1 == 0) and np.any(sizes % last != 0):
            return 2.0 ** (1 - bits)
    return 0.0


def _is_staircase(table: np.ndarray) -> bool:
    """Whether neighbours on a segment often give the very same answer."""
    return bool(np.mean(np.all(np.diff(table, axis=0) == 0, axis=1)) >= 1 / 3)


def _rounds_inputs(meter: Meter, point: np.ndarray, spread: np.ndarray) -> bool:
    """Whether a change far below the resolution of float32 changes nothing: the model computes in float32."""
    unit = _STEP["float32"] * spread
    pair = np.round(point / unit) * unit * np.array([[1.0], [1 + 2.0**-36]])
    if not np.all(meter.domain.contains(pair)):
        return False
    answers = meter.ask(pair)
    return np.array_equal(answers[0], answers[1])


def _rounding_step(values: np.ndarray, eps: float) -> float:
    """The step of which all answers are multiples (up to an offset an output), or 0."""
    steps = [_common_step(np.unique(column), eps) for column in values.T if np.ptp(column) > 0]
    return max(steps) if steps and min(steps) > 0 else 0.0


def _common_step(levels: np.ndarray, eps: float) -> float:
    """The largest number of which all differences of the levels are multiples, or a power of ten, or 0."""
    gaps, largest = np.diff(levels), float(np.max(np.abs(levels)))
    step = _common_divisor(gaps, math.sqrt(eps) * largest) if len(levels) >= 5 else 0.0
    if step > 0:
        return step
    error = 4 * eps * largest
    for digits in range(-6, 13):
        step = 10.0**-digits
        if step > 100 * error and np.all(np.abs(levels - step * np.round(levels / step)) <= error):
            # A few levels far apart may be decimal numbers by chance; rounding shows in neighbouring ones.
            return step if len(levels) >= 5 or gaps.min() < 10.5 * step else 0.0
    return 0.0


def _common_divisor(gaps: np.ndarray, tolerance: float) -> float:
    """Euclid's algorithm on numbers known to ``tolerance``; 0 where nothing well above it divides them."""
    divisor = float(gaps.min())
    for gap in gaps:
        larger, smaller = float(gap), divisor
        while smaller > tolerance:
            larger, smaller = smaller, larger % smaller
            smaller = min(smaller, larger - smaller)
        divisor = larger
        if divisor < 100 * tolerance:
            return 0.0
    multiples = gaps / divisor
    return divisor if np.all(np.abs(multiples - np.round(multiples)) <= 1e-3) else 0.0
