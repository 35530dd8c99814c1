"""What planes that are known make of a line: where it crosses them, where it should bend, which kinks are new.

A plane is known within an error, which grows with the distance from where it was measured. Kinks that lie where a
known unit bends, by as much as it bends, are its own; a line that surely crosses planes and does not bend there
crosses facets of deeper units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import Planes

DEVIATIONS = 6.0
"""Errors of a plane within which it may lie."""
ALIKE = 0.15
"""How far jumps of one unit may differ."""
FEWEST = 2
"""Lines, at least, that refute a plane."""
SURE = 0.1
"""How well the crossing of a plane must be known, relative to the kinks' distance."""


def predict_crossings(planes: Planes, lines: Lines, line: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a line crosses the planes, how sure that is, and how the answers would bend there."""
    rates = planes.normals @ lines.directions[line]
    rates = np.where(np.abs(rates) > 1e-12, rates, 1e-12)
    places = -(planes.normals @ lines.origins[line] + planes.offsets) / rates
    apart = np.linalg.norm(
        lines.origins[line] + places[:, None] * lines.directions[line] - planes.points, axis=1
    )
    slack = DEVIATIONS * planes.errors * np.max(np.abs(planes.normals), axis=1) * apart / np.abs(rates)
    return places, slack, planes.jumps * np.abs(rates)[:, None]


def count_bends(planes: Planes, lines: Lines, line: int, found: Kinks) -> tuple[int, int]:
    """How many planes a line surely crosses, and at how many of these crossings it bends."""
    crossed, bends, _, _ = _crossings(planes, lines, line, found)
    return int(np.sum(crossed)), int(np.sum(bends))


def refuted(planes: Planes, seen: list[tuple[Lines, int, Kinks]]) -> np.ndarray:
    """Which planes most of the lines refute that surely cross them: these do not bend there as the planes say.

    Between two kinks that are close a gradient may be taken across one of them, and its plane is none. A line that
    bends there by another amount says neither: two kinks may show as one, and where answers are rough the place of a
    kink is known less well than that of the plane.
    """
    hits, misses = np.zeros(len(planes)), np.zeros(len(planes))
    for lines, line, found in seen:
        crossed, _, near, agreed = _crossings(planes, lines, line, found)
        hits += agreed
        misses += crossed & ~near
    return (misses >= FEWEST) & (hits < misses)


def _crossings(
    planes: Planes, lines: Lines, line: int, found: Kinks
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Which planes a line surely crosses, where it then bends, where nearby, and where by as much as they say."""
    crossed = np.zeros(len(planes), dtype=bool)
    bends, near, agreed = crossed.copy(), crossed.copy(), crossed.copy()
    if len(found.positions) < 2 or not len(planes):
        return crossed, bends, near, agreed
    places, slack, jumps = predict_crossings(planes, lines, line)
    slack = 2 * slack + 1e-6 * (lines.scale[line] + np.abs(places))
    room = SURE * np.ptp(found.positions) / len(found.positions)
    weakest = np.min(np.linalg.norm(found.jumps, axis=1))
    within = (places > found.positions.min()) & (places < found.positions.max())
    sure = within & (slack < room) & (np.linalg.norm(jumps, axis=1) > 2 * weakest)
    for i in np.flatnonzero(sure):
        if len(found.unresolved) and np.min(np.abs(found.unresolved - places[i])) < room + slack[i]:
            continue
        nearest = int(np.argmin(np.abs(found.positions - places[i])))
        apart = np.abs(found.positions[nearest] - places[i])
        crossed[i], bends[i], near[i] = True, apart <= slack[i], apart <= slack[i] + room
        off = np.linalg.norm(found.jumps[nearest] - jumps[i])
        agreed[i] = near[i] and off <= 2 * ALIKE * np.linalg.norm(jumps[i])
    return crossed, bends, near, agreed


def unpredicted(planes: Planes, lines: Lines, line: int, found: Kinks) -> Kinks:
    """The kinks of a line that are neither where nor as large as a known unit would have them."""
    places, slack, jumps = predict_crossings(planes, lines, line)
    sizes = np.linalg.norm(jumps, axis=1)
    new = []
    for t, jump in zip(found.positions, found.jumps, strict=True):
        close = np.abs(places - t) <= slack + 1e-3 * (lines.scale[line] + abs(t))
        alike = np.linalg.norm(jumps - jump, axis=1) <= ALIKE * np.maximum(sizes, np.linalg.norm(jump))
        new.append(not np.any(close & alike))
    chosen = np.array(new, dtype=bool)
    others = np.concatenate([found.unresolved, found.positions[~chosen]])
    return replace(found, positions=found.positions[chosen], jumps=found.jumps[chosen], unresolved=others)


def same_unit(planes: Planes, one: Planes) -> int | None:
    """The known unit that this is another measurement of."""
    if not len(planes):
        return None
    along = planes.normals @ one.normals[0]
    near = np.abs(planes.normals @ one.points[0] + planes.offsets)
    apart = np.linalg.norm(planes.points - one.points[0], axis=1)
    size = np.linalg.norm(planes.jumps, axis=1)
    alike = np.linalg.norm(planes.jumps - one.jumps[0], axis=1) <= 2 * ALIKE * size
    off = DEVIATIONS * (planes.errors + one.errors[0]) + 1e-4
    same = alike & (np.abs(along) > 1 - ALIKE) & (near <= off * (1 + apart))
    return int(np.argmax(same)) if same.any() else None
