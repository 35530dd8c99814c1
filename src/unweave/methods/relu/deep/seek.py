"""Where to ask more of a layer: corners that show a unit as missing or active, and lines to where it switches."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.corners import Corner, Corners
from unweave.methods.relu.deep.extremes import extreme_points, lowest_points, spread_points, through_pairs
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.missing import Shown, show_units
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.sides import Sides, vote_sides
from unweave.probes.lines import Lines

MOST_CORNERS = 90
ASIDE = 0.03
"""How far off corners, relative to their distance, lines between them begin and end."""


def ask_until_shown(corners: Corners, sides: Sides, rows: np.ndarray) -> list[Shown]:
    """What corners show besides the rows; more of them are asked until one unit is known."""
    shown = show_units(sides, rows)
    for num in (6, 10, 12):
        done = shown and (shown[0].weights is not None or shown[0].is_last)
        if done or not sides.failed or len(corners.asked) > MOST_CORNERS:
            break
        near, stands = None, None
        if shown:
            stands = _rare_sides(rows, shown[0])
            near = _where_they_differ(corners, rows, stands)
        elif len(sides.failed) <= len(sides.spoke):
            near = np.array([corner.x for corner in sides.failed])
        if not corners.add(num, rows, near, least=len(rows) + 1, whole=True, stands=stands):
            break
        sides = vote_sides(corners, rows, np.ones(rows.shape, dtype=bool))
        shown = show_units(sides, rows)
    return shown


def see_all_active(corners: Corners, sides: Sides, rows: np.ndarray) -> Sides:
    """What corners say with one more for every unit that none has active: a unit of the layer is, on its other side."""
    for unit in np.flatnonzero(sides.times_on == 0):
        stands = {int(unit): bool(sides.signs()[unit] > 0)}
        near = _where_they_differ(corners, rows, stands)
        corners.add(1, rows, near, least=len(rows), stands=stands)
    return vote_sides(corners, rows, np.ones(rows.shape, dtype=bool))


def _rare_sides(rows: np.ndarray, shown: Shown) -> dict[int, bool]:
    """For units whose share is open: the side on which few of the corners that show the unit have them."""
    there = np.array([corner.features for corner in shown.corners]) @ rows[:, :-1].T + rows[:, -1]
    return {unit: bool(np.mean(there[:, unit] > 0) < 0.5) for unit in shown.open_units}


def _where_they_differ(
    corners: Corners, rows: np.ndarray, stands: dict[int, bool], num: int = 2000
) -> np.ndarray:
    """Points at which units stand on these sides."""
    known, pool = corners.known, corners.pool
    domain, d = pool.inquiry.meter.domain, known.input_size
    x = spread_points(domain, num, d, pool.rng, 0.7)
    z = known.features(x) @ rows[:, :-1].T + rows[:, -1]
    points = []
    for unit, side in stands.items():
        rare = x[(z[:, unit] > 0) == side]
        if len(rare) < 3:
            sign = -1.0 if side else 1.0
            rare = lowest_points(known, sign * rows[unit : unit + 1, :-1], 3, domain, pool.rng)
        points.append(rare[:20])
    return np.concatenate(points)


def where_it_may_switch(pool: Pool, known: Known, weights: np.ndarray, num: int = 3) -> Lines:
    """Lines through the points at which a unit that seems always on is smallest, offline."""
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, pool.input_size
    lows = lowest_points(known, weights, num, domain, rng)
    return through_pairs(domain, lows, spread_points(domain, len(lows), d, rng, 0.7), rng)


def between(
    pool: Pool, failed: list[Corner], spoke: list[Corner], known: Known | None = None, num: int = 4
) -> Lines:
    """Segments between corners of two kinds; to extreme points where there is but one kind."""
    rng, domain = pool.rng, pool.inquiry.meter.domain
    a = np.array([failed[i].x for i in rng.integers(len(failed), size=num)])
    if spoke or known is None:
        b = np.array([spoke[i].x for i in rng.integers(len(spoke), size=num)])
    else:
        b = extreme_points(known, num, domain, rng)
    # corners lie on many borders, and what joins two of them may run along one
    aside = ASIDE * np.linalg.norm(b - a, axis=1, keepdims=True) / np.sqrt(a.shape[1])
    a, b = (domain.nearest(end + aside * rng.standard_normal(end.shape)) for end in (a, b))
    half = 0.5 * np.linalg.norm(b - a, axis=1)
    apart = half > 1e-9
    a, b, half = a[apart], b[apart], half[apart]
    return Lines((a + b) / 2, 0.5 * (b - a) / half[:, None], -half, half, half)
