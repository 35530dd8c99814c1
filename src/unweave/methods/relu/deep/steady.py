"""A unit of an inner layer that is active everywhere, and with it the sides of the others.

At a corner where the features move in every direction the answers give ``a = df/dh``. With rows r_u found and one unit
r that is always on, ``a = sum_u c_u r_u + c r``, c_u zero for inactive units. Off the span of the r_u all corners show
the same direction q; writing ``r = q + sum_u t_u r_u``, the coefficient of r_u over that of q is t_u wherever u is
inactive: the side on which it is the same at every corner. The bias of r does not show while it stays on.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.spots import find_corners, read_corner, room_around

SAME = 1e-6


def find_steady_unit(pool: Pool, known: Known, rows: np.ndarray, num_corners: int = 24) -> np.ndarray | None:
    """Oriented rows with the steady unit as the last one; None where one such unit does not explain the corners."""
    width = known.width
    if len(rows) >= width or not known.depth:
        return None
    every = np.hstack([np.eye(width), np.zeros((width, 1))])
    x, ranks = find_corners(known, every, pool, 3 * num_corners, away_from=rows)
    room = room_around(known, rows, x)
    slopes, sides = [], []
    for i in np.flatnonzero(ranks == width)[: 2 * num_corners]:
        outcome = read_corner(pool, known, every, x[i], width, float(room[i]), pool.rng)
        if outcome is None or outcome[1] is None:
            continue
        slopes.append(outcome[1])
        sides.append((known.features(x[i][None]) @ rows[:, :-1].T + rows[:, -1])[0] > 0)
        if len(slopes) == num_corners:
            break
    if len(slopes) < 6:
        return None
    return _decompose(np.array(slopes), np.array(sides), rows, known, pool)


def _decompose(
    slopes: np.ndarray, sides: np.ndarray, rows: np.ndarray, known: Known, pool: Pool
) -> np.ndarray | None:
    num, width, k = slopes.shape
    found = rows[:, :-1]
    coefficients = np.linalg.lstsq(found.T, slopes.transpose(1, 0, 2).reshape(width, -1), rcond=None)[0]
    left = slopes.transpose(1, 0, 2).reshape(width, -1) - found.T @ coefficients
    u, s, vt = np.linalg.svd(left, full_matrices=False)
    if s[0] == 0 or s[1] > SAME * s[0]:
        return None
    own = (s[0] * vt[0]).reshape(num, k)
    coefficients = coefficients.reshape(len(rows), num, k)
    strong = np.linalg.norm(own, axis=1) > 1e-3 * np.max(np.linalg.norm(own, axis=1))
    shares = np.einsum("unk,nk->un", coefficients, own) / np.maximum(np.sum(own**2, axis=1), 1e-300)
    steady, signs = u[:, 0].copy(), np.zeros(len(rows))
    for unit in range(len(rows)):
        agreed = []
        for side in (False, True):
            at = strong & (sides[:, unit] == side)
            values, kinds = shares[unit][at], np.unique(np.round(np.log(np.linalg.norm(own[at], axis=1)), 6))
            if (
                len(kinds) < 2
            ):  # one pattern of the layers above: an active unit's share would not change either
                continue
            middle = np.median(values)
            if np.all(np.abs(values - middle) < 100 * SAME * (1 + abs(middle))):
                agreed.append((side, middle))
        if len(agreed) != 1:
            return None
        signs[unit] = -1.0 if agreed[0][0] else 1.0
        steady = steady + agreed[0][1] * found[unit]
    x = pool.inquiry.meter.transcript()[0]
    z = known.features(x) @ steady
    if np.median(z) < 0:
        steady, z = -steady, -z
    bias = 1.01 * max(0.0, -float(np.min(z))) + float(np.linalg.norm(steady))
    size = np.linalg.norm(steady)
    return np.vstack([rows * signs[:, None], np.append(steady, bias) / size])
