"""The planes of first-layer units with a crease (elu, softsign) inside a domain, from exact answers along lines.

Between creases the answers are analytic: on a fine grid their fourth differences shrink like the fourth power of the
spacing, but like its square where the second derivative jumps, so that creases stand out from their neighbours.
Polynomials on both sides of a crease continue across it, and their difference is stationary there: this places it. The
same beside the line gives the normal of the surface that it lies on. Surfaces of deeper units are curved; a plane of
the first layer has the same normal wherever it is met, and shows on the other lines that cross it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.probes.lines import Lines, draw_lines

NUM_LINES, NUM_ALONG, MOST_ROUNDS = 5, 1025, 3
"""Lines of a round, points on each, and rounds."""
AROUND, BESIDE = 14, 5
"""A fourth difference is compared with others so far away at most, and farther than this, in steps of the grid."""
PEAK, CLEAR = 8.0, 100.0
"""It is one of a crease when it is so many times theirs, and so many errors of an answer."""
ALONE = 5
"""One crease shows in so many neighbouring differences at most."""
NODES, DEGREE = 8, 5
"""Points on each side of a crease, and the degree of the polynomials through them."""
NEAREST, ASIDE, STRAY = 0.2, 0.02, 0.25
"""Shares of the room around a crease: nearest point, move to the side, how far it may then be from the middle."""
Q = NEAREST + (1 - NEAREST) * (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2
BOTH = np.concatenate([-Q[::-1], Q])
"""Those points, on one side and on both."""
LEAST, WIDEST = 2.5, 16.0
"""The least and the most room that is used, in steps of the grid."""
CONSISTENT = 0.05
"""The normal is measured with length one along the line: how far off that may be."""
CLOSE = 1.25
"""A plane is seen on a line that has a crease this near to where it crosses, in steps of the grid, ..."""
SHARE, LUCK = 0.75, 2e-3
"""... and is a unit's when it is seen on this share of the lines that cross it, which chance shows this rarely, ..."""
SAME = 1e-3
"""... or when two creases show it, with normals that differ by less."""
NUM_PLACES, ROOM, ON = 64, 5.0, 0.05
"""Places on a plane whose tilts are measured, the room around them in steps of the grid, and how near in shares of it
the crease has to lie: elsewhere another one is in the way."""
MOST_MEASURED = 400
"""Creases whose normals are measured, at most."""


@dataclass(frozen=True)
class CreasePlanes:
    """``normals . x + offsets = 0`` with unit normals."""

    normals: np.ndarray
    offsets: np.ndarray
    tilts: np.ndarray
    """Three times the jump of the third derivative over that of the second, along the normal, in the middle over all
    places where it was seen: the length of an elu unit's row, negative where the normal points against it ..."""
    doubts: np.ndarray
    """... with its standard error: what other units make of the second derivatives changes from place to place."""
    unexplained: float
    """The share of creases on the lines that lie on no plane."""

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True)
class _Line:
    """The creases of one line: positions, the half widths of what shows of them, and the step of the grid."""

    positions: np.ndarray
    halves: np.ndarray
    step: float


def find_crease_planes(meter: Meter, precision: Precision, rng: np.random.Generator) -> CreasePlanes:
    """The planes that creases on lines across a bounded domain lie on (stage ``creases``).

    Lines are added until some show no plane that is new.
    """
    d = meter.input_size
    normals, offsets = np.zeros((0, d)), np.zeros(0)
    pending: list[tuple[np.ndarray, float]] = []
    lines, found, left = None, list[_Line](), MOST_MEASURED
    with meter.stage("creases"):
        sample = meter.domain.sample(512, d, rng)
        frame = sample.mean(axis=0), np.std(sample, axis=0)
        for _ in range(MOST_ROUNDS):
            more, num_known = draw_lines(meter.domain, NUM_LINES, d, rng), len(offsets)
            lines = more if lines is None else lines.join(more)
            found += _find_creases(meter, more, precision)
            for number in range(len(found) - NUM_LINES, len(found)):
                line = found[number]
                known = _lie_on(lines.take([number]), line, normals, offsets)
                chosen = np.flatnonzero(~known & (line.halves <= ALONE * line.step / 2))[:left]
                left -= len(chosen)
                pending += _measure(meter, lines, number, line, chosen, frame[1])
            for i, plane in enumerate(pending):
                if any(_is_same(*plane, n, b, frame, 0.02) for n, b in zip(normals, offsets, strict=True)):
                    continue
                again = any(_is_same(*plane, *other, frame) for other in pending[:i])
                if again or _shows(lines, found, *plane):
                    normals, offsets = np.vstack([normals, plane[0]]), np.append(offsets, plane[1])
            if len(offsets) == num_known or left <= 0:
                break
        assert lines is not None
        tilts, doubts = _measure_tilts(meter, normals, offsets, ROOM * found[0].step, rng)
        told = [int(np.sum(_lie_on(lines.take([i]), r, normals, offsets))) for i, r in enumerate(found)]
    share = 1 - sum(told) / max(sum(len(r.positions) for r in found), 1)
    return CreasePlanes(normals, offsets, tilts, doubts, share)


def _find_creases(meter: Meter, lines: Lines, precision: Precision) -> list[_Line]:
    t = np.linspace(lines.low, lines.high, NUM_ALONG, axis=1)
    numbers = np.repeat(np.arange(len(lines)), NUM_ALONG)
    answers = meter.ask(lines.points(numbers, t.ravel())).reshape(len(lines), NUM_ALONG, -1)
    sizes = np.linalg.norm(np.diff(answers, n=4, axis=1), axis=2)
    padded = np.pad(sizes, ((0, 0), (AROUND, AROUND)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * AROUND + 1, axis=1)
    beside = np.abs(np.arange(-AROUND, AROUND + 1)) > BESIDE
    usual = np.median(windows[:, :, beside], axis=2)
    is_peak = (sizes > PEAK * usual) & (sizes > CLEAR * precision.noise)
    found = []
    for row, size, peaks in zip(t, sizes, is_peak, strict=True):
        places, step = np.flatnonzero(peaks), float(row[1] - row[0])
        groups = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []
        at = [row[group[np.argmax(size[group])] + 2] for group in groups]
        halves = [len(group) * step / 2 for group in groups]
        found.append(_Line(np.array(at), np.array(halves), step))
    return found


def _measure(
    meter: Meter, lines: Lines, number: int, line: _Line, chosen: np.ndarray, spread: np.ndarray
) -> list[tuple[np.ndarray, float]]:
    """Unit normal and offset of the surface at each chosen crease of a line, where its surroundings allow it."""
    d, v = meter.input_size, lines.directions[number]
    moves = np.vstack([np.zeros(d), np.diag(spread / np.max(spread))])
    planes = []
    for i in chosen:
        t0, room = float(line.positions[i]), _room(lines, number, line, int(i))
        if room < LEAST * line.step:
            continue
        middle = lines.origins[number] + t0 * v
        origins = middle + ASIDE * room * moves
        points = origins[:, None] + (room * BOTH)[None, :, None] * v
        if not np.all(meter.domain.contains(points.reshape(-1, d))):
            continue
        places, _ = _locate(meter.ask(points.reshape(-1, d)).reshape(d + 1, 2 * NODES, -1))
        if np.any(~(np.abs(places) <= STRAY)):
            continue
        normal = -(places[1:] - places[0]) / (ASIDE * np.diag(moves[1:]))
        if abs(normal @ v - 1) > CONSISTENT:
            continue
        length = float(np.linalg.norm(normal))
        normal = normal / length
        planes.append((normal, float(-normal @ (middle + places[0] * room * v))))
    return planes


def _measure_tilts(
    meter: Meter, normals: np.ndarray, offsets: np.ndarray, room: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The tilt of each plane (``CreasePlanes``) and its error, across random places on it."""
    tilts, doubts = np.zeros(len(offsets)), np.full(len(offsets), np.inf)
    d = meter.input_size
    for plane, (normal, offset) in enumerate(zip(normals, offsets, strict=True)):
        places = meter.domain.sample(4 * NUM_PLACES, d, rng)
        places = places - (places @ normal + offset)[:, None] * normal
        within = meter.domain.contains(places + room * normal) & meter.domain.contains(places - room * normal)
        places = places[within][:NUM_PLACES]
        if len(places) < NUM_PLACES // 4:
            continue
        points = places[:, None] + room * BOTH[:, None] * normal
        answers = meter.ask(points.reshape(-1, d)).reshape(len(places), 2 * NODES, -1)
        found, measured = _locate(answers)
        own = measured[(np.abs(found) <= ON) & np.isfinite(measured)] / room
        if len(own) > 2:
            tilts[plane] = np.median(own)
            doubts[plane] = 1.5 * np.median(np.abs(own - tilts[plane])) / np.sqrt(len(own))
    return tilts, doubts


def _room(lines: Lines, number: int, line: _Line, i: int) -> float:
    """How far on both sides of a crease nothing else is seen on its line."""
    ends = np.concatenate([[lines.low[number]], line.positions, [lines.high[number]]])
    beside = min(ends[i + 1] - ends[i], ends[i + 2] - ends[i + 1])
    return float(min(beside - line.step, WIDEST * line.step))


def _locate(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where between -1 and 1 the continuations (n, 2 nodes, outputs) from both sides touch, and the tilt there."""
    powers = Q[:, None] ** np.arange(DEGREE + 1)
    backward = np.linalg.pinv(powers * (-1.0) ** np.arange(DEGREE + 1))
    left = np.einsum("ij,njk->nik", backward, answers[:, NODES - 1 :: -1])
    right = np.einsum("ij,njk->nik", np.linalg.pinv(powers), answers[:, NODES:])
    apart = right - left
    weights = apart[:, 2] / np.maximum(np.linalg.norm(apart[:, 2], axis=1, keepdims=True), 1e-300)
    first = np.einsum("nik,nk->ni", apart, weights)[:, 1:] * np.arange(1, DEGREE + 1)
    second = first[:, 1:] * np.arange(1, DEGREE)
    third = second[:, 1:] * np.arange(1, DEGREE - 1)
    places = np.zeros(len(answers))

    def at(derivative: np.ndarray) -> np.ndarray:
        return np.sum(derivative * places[:, None] ** np.arange(derivative.shape[1]), axis=1)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(12):
            places = np.clip(places - at(first) / at(second), -1, 1)
        return places, at(third) / at(second)


def _crossing(lines: Lines, normal: np.ndarray, offset: float) -> np.ndarray:
    """The parameters at which lines cross a plane; not a number: they do not, inside the domain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = -(lines.origins @ normal + offset) / (lines.directions @ normal)
    return np.where((t > lines.low) & (t < lines.high), t, np.nan)


def _shows(lines: Lines, found: list[_Line], normal: np.ndarray, offset: float) -> bool:
    """Whether a plane shows on the lines that cross it, more than chance would have it."""
    t = _crossing(lines, normal, offset)
    crossed = np.flatnonzero(~np.isnan(t))
    seen, chances = [], []
    for i in crossed:
        reach = found[i].halves + CLOSE * found[i].step
        seen.append(bool(np.any(np.abs(found[i].positions - t[i]) <= reach)))
        chances.append(min(2 * float(np.sum(reach)) / float(lines.high[i] - lines.low[i]), 1.0))
    hits, num = int(np.sum(seen)), len(crossed)
    if hits < max(SHARE * num, 2):
        return False
    chance = float(np.mean(chances))
    others = range(hits - 1, num)  # the crease that it was measured at is seen in any case
    luck = sum(comb(num - 1, n) * chance**n * (1 - chance) ** (num - 1 - n) for n in others)
    return luck < LUCK


def _lie_on(line: Lines, creases: _Line, normals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which creases of one line lie on one of the planes."""
    t = np.array([_crossing(line, n, b)[0] for n, b in zip(normals, offsets, strict=True)])
    t = t[~np.isnan(t)]
    if not len(t):
        return np.zeros(len(creases.positions), dtype=bool)
    return np.min(np.abs(creases.positions[:, None] - t), axis=1) <= CLOSE * creases.step


def _is_same(
    normal: np.ndarray,
    offset: float,
    other: np.ndarray,
    other_offset: float,
    frame: tuple[np.ndarray, np.ndarray],
    allowed: float = SAME,
) -> bool:
    """Whether two planes agree, relative to how far the domain (its middle and spread) reaches along them."""
    middle, spread = frame
    sign = -1.0 if normal @ other < 0 else 1.0
    turned = normal - sign * other
    off = np.linalg.norm(turned * spread) + abs(turned @ middle + offset - sign * other_offset)
    return bool(off <= allowed * np.linalg.norm(other * spread))
