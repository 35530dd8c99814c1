"""Planes that hold beyond the line they were seen on.

The plane of a first-layer unit is flat everywhere, so it predicts a kink on every other line. A kink of a deeper
unit, two kinks taken for one, or a badly measured plane predicts kinks that are not there.
"""

from __future__ import annotations

import numpy as np

from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import Planes


def match_kinks(planes: Planes, lines: Lines, kinks: list[Kinks]) -> tuple[np.ndarray, np.ndarray]:
    """The number of the kink that each plane explains on each line, -1 for none; and where it should explain one."""
    t, slack, within = _predict(planes, lines)
    matches = np.full(t.shape, -1)
    for line in range(len(lines)):
        positions = kinks[line].positions
        if len(positions) and len(planes):
            apart = np.abs(positions[None] - t[:, line, None])
            nearest = np.argmin(apart, axis=1)
            hit = within[:, line] & (apart[np.arange(len(planes)), nearest] <= slack[:, line])
            matches[hit, line] = nearest[hit]
    return matches, within


def confirmed_planes(planes: Planes, lines: Lines, kinks: list[Kinks], num_misses: int = 1) -> Planes:
    """The distinct planes whose kinks were found on all lines but ``num_misses``, and on two at least.

    Planes that explain the same kinks on two lines are one plane; the best is kept.
    """
    matches, within = match_kinks(planes, lines, kinks)
    found, expected = np.sum(matches >= 0, axis=1), within.sum(axis=1)
    good = np.flatnonzero((found >= expected - num_misses) & (found >= min(2, len(lines))))
    order = good[np.lexsort((planes.errors[good], -found[good]))]
    kept: list[int] = []
    for i in order:
        shared = np.sum((matches[kept] == matches[i]) & (matches[i] >= 0), axis=1) if kept else np.zeros(0)
        if not np.any(shared >= min(2, len(lines))):
            kept.append(int(i))
    return planes.take(kept)


def _predict(planes: Planes, lines: Lines) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each plane meets each line, how far off that may be, and whether it does within the line's range."""
    rate = planes.normals @ lines.directions.T
    height = planes.normals @ lines.origins.T + planes.offsets[:, None]
    safe = np.where(np.abs(rate) > 1e-12, rate, 1e-12)
    t = -height / safe
    within = (np.abs(rate) > 1e-9) & (t > lines.low) & (t < lines.high)
    apart = np.linalg.norm(planes.points[:, None] - lines.origins[None], axis=2)
    slack = (1e-8 + 30 * planes.errors[:, None]) * (apart + np.abs(t) + 1) / np.abs(safe)
    return t, np.minimum(slack, 0.02 * (np.abs(t) + lines.scale)), within
