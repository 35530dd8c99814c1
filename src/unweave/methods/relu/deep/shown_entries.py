"""Weights that no kink of their unit has shown, from corners of the layers below at which the unit is on.

The sides of all units are known here. At a corner at which a feature moves, the derivative of the answers by it is
``sum_u c_u w_u`` over the active units, and the other features tell the coefficients c: every corner is a linear
equation for the weights that are open for this feature. Corners that were asked come first. For what they leave more
are looked for, offline, at which the unit is on and the feature at its border; where there are none the weight hardly
shows.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.borders import solve_weights
from unweave.methods.relu.deep.corners import Corner, Corners
from unweave.methods.relu.deep.extremes import spread_points

MOST_ROUNDS = 3
"""Times that weights are read off corners, with those that were told before: more corners have no open weight then."""
MOST_ASKED, A_WEIGHT = 8, 3
"""Weights that corners are asked for at once, and corners for each."""
NUM_POINTS, NEAREST = 3000, 30
"""Points of which those are taken that are on the unit's side and nearest to the feature's border."""
TOLD = 1e-6
"""Largest error to expect of a weight, relative to the longest of its row, that is taken: a network that is whole is
fitted to all answers, but a weight that is set wrong hides all that stands above."""
ERROR = 100
"""Errors of a slope by which what is explained may be off."""


def read_entries(corners: list[Corner], rows: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Oriented rows with the entries that corners tell, and which are seen now."""
    rows, seen = np.where(seen, rows, 0.0), seen.copy()
    for _ in range(MOST_ROUNDS):
        equations = [found for corner in corners if (found := _read(corner, rows, seen)) is not None]
        before = seen.sum()
        for feature in np.flatnonzero(~seen[:, :-1].all(axis=0)):
            mine = [one for one in equations if feature in one[1]]
            units = np.flatnonzero(~seen[:, feature])
            if not mine:
                continue
            places = [int(np.flatnonzero(one[1] == feature)[0]) for one in mine]
            slopes = np.array([one[0][units].T for one in mine])
            target = np.array([one[2][place] for one, place in zip(mine, places, strict=True)])
            weight = 1 / np.array([one[3] for one in mine])
            size = np.max(np.abs(rows[units, :-1]), axis=1)
            values = solve_weights(slopes, target, weight, size, TOLD)
            told = np.isfinite(values)
            rows[units[told], feature], seen[units[told], feature] = values[told], True
        if seen.sum() == before or seen.all():
            break
    return rows, seen


def _read(
    corner: Corner, rows: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float] | None:
    """Coefficients (units, outputs), open features, their derivatives and the error of both; None: nothing new.

    Units whose arguments are not known there leave it untold.
    """
    h = corner.features
    if np.any((np.abs(h) > 1e-12) & ~seen[:, :-1]):
        return None
    on = rows[:, :-1] @ h + rows[:, -1] > 0
    features = np.flatnonzero(corner.moving & np.any(~seen[on, :-1], axis=0))
    if not len(features):
        return None
    weight = (corner.errors.min() / corner.errors)[:, None]
    columns = np.hstack([corner.basis.T @ rows[on, :-1].T, corner.basis.T[:, features]]) * weight
    if columns.shape[1] > len(columns):
        return None
    u, s, vt = np.linalg.svd(columns, full_matrices=False)
    if s[-1] < 1e-5 * s[0]:
        return None
    target, noise = corner.slopes * weight, float(corner.errors.min())
    solution = vt.T @ ((u.T @ target) / s[:, None])
    if np.max(np.abs(columns @ solution - target)) > ERROR * noise:
        return None
    coefficients = np.zeros((len(rows), solution.shape[1]))
    coefficients[on] = solution[: int(on.sum())]
    return coefficients, features, solution[int(on.sum()) :], noise / s[-1] + 1e-14


def ask_shown_entries(corners: Corners, rows: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, with corners that are asked for what those there are leave open."""
    rows, seen = read_entries(corners.asked, rows, seen)
    if not corners.known.depth:
        return rows, seen
    for unit, feature in np.argwhere(~seen[:, :-1])[:MOST_ASKED]:
        if seen[unit, feature]:
            continue
        near = _near_border(corners, rows, seen, int(unit), int(feature))
        if len(near):
            know = np.where(seen, rows, 0.0)
            corners.add(A_WEIGHT, know, near, stands={int(unit): True}, moving=int(feature))
            rows, seen = read_entries(corners.asked, rows, seen)
    return rows, seen


def _near_border(corners: Corners, rows: np.ndarray, seen: np.ndarray, unit: int, feature: int) -> np.ndarray:
    """Points at which the unit is on and the feature off, nearest to the border of the feature."""
    pool, known = corners.pool, corners.known
    domain, d = pool.inquiry.meter.domain, known.input_size
    x = np.concatenate([pool.inquiry.meter.transcript()[0], spread_points(domain, NUM_POINTS, d, pool.rng)])
    z, h = known.arguments(x)[-1][:, feature], known.features(x)
    own = np.where(seen[unit], rows[unit], 0.0)
    on = (h @ own[:-1] + own[-1] > 0) & ~np.any((h > 0) & ~seen[unit, :-1], axis=1)
    x, z = x[on], z[on]
    return x[np.argsort(-z / (1e-3 + np.linalg.norm(x, axis=1)))[:NEAREST]]
