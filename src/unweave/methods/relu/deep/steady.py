"""Sides of the last layer's units once all of them are known, and what units that never switch add up to.

``relu(z) = relu(-z) + z``: turning a unit round adds its argument to what always active units carry, so where there are
such units no answer tells the sides. When units were found after the sides were chosen, another choice may need none:
then it is the right one, and what is left over tells entries that were never seen on the other side. Else the choice that
leaves least is taken, carried by one unit, or by two where it changes sign.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, fit_top

MAX_CHOICES = 1 << 14
NOTHING = 1e-6
"""What is left of the arguments, relative to one of them, below which nothing is."""
LESS = 0.99
"""Another choice has to leave less than this share."""
FEWEST = 3
"""Equations that a choice which leaves nothing has to fulfil."""


def settle_steady(
    pool: Pool, known: Known, top: Top, open_entries: tuple[tuple[int, int], ...] = ()
) -> tuple[Known, Top, tuple[tuple[int, int], ...]]:
    """The last layer with the sides that leave least to units which are on at every answer, and its open entries."""
    below = known.first(known.depth - 1)
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    seen = np.ones(rows.shape, dtype=bool)
    for unit, feature in open_entries:
        seen[unit, feature] = False
    h = below.features(top.x)
    z = h @ rows[:, :-1].T + rows[:, -1]
    steady, switching = np.all(z > 0, axis=0), np.any(z > 0, axis=0) & np.any(z < 0, axis=0)
    if not steady.any() or not switching.any() or known.leaks[-1]:
        return known, top, open_entries
    moving = np.any(h != 0, axis=0)
    parts = top.coefficients[:-1, None, :] * np.where(seen, rows, 0.0)[:, :-1, None] * moving[:, None]
    rest = parts[steady].sum(axis=0)
    turned = choose_turned(parts[switching], rest, ~seen[switching][:, :-1])
    if turned is None:
        return known, top, open_entries
    turn = np.zeros(len(rows), dtype=bool)
    turn[switching] = turned
    left = rest + parts[turn].sum(axis=0)
    rows, seen, left = _fill(rows, seen, turn, left, top.coefficients[:-1])
    rows[turn] *= -1.0
    rows, seen = rows[~steady], seen[~steady]
    if np.linalg.norm(left) > NOTHING * np.linalg.norm(parts, axis=(1, 2)).max():
        if left.shape[1] > 1:
            return known, top, open_entries
        more = _carriers(left[:, 0], h)
        rows, seen = np.vstack([rows, more]), np.vstack([seen, np.ones(more.shape, dtype=bool)])
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    other = below.extended(rows)
    fit = fit_top(pool, other)
    if not fit.is_output or fit.wrong.any():
        return known, top, open_entries
    return other, fit, tuple((int(u), int(i)) for u, i in np.argwhere(~seen))


def choose_turned(parts: np.ndarray, rest: np.ndarray, dark: np.ndarray) -> np.ndarray | None:
    """Which units to turn round so that least is left of ``rest`` (features, outputs); None: none, or it is not known.

    ``parts`` (units, features, outputs) are their arguments times their outputs, ``dark`` entries that are not known.
    """
    num = len(parts)
    if 2**num > MAX_CHOICES:
        return None
    choices = (np.arange(2**num)[:, None] >> np.arange(num)) & 1
    hidden = choices @ dark.astype(int) > 0
    left = rest + np.einsum("cu,unk->cnk", choices, parts)
    left = np.where(hidden[:, :, None], 0.0, left)
    size = np.linalg.norm(left, axis=(1, 2))
    enough = np.sum(~hidden & np.any(rest != 0, axis=1), axis=1) >= FEWEST
    exact = enough & (size < NOTHING * np.linalg.norm(parts, axis=(1, 2)).max())
    if exact.any():
        fewest = np.where(exact, hidden.sum(axis=1), np.inf)
        return choices[int(np.argmin(fewest))] > 0
    size[hidden.any(axis=1)] = np.inf
    best = int(np.argmin(size))
    return choices[best] > 0 if size[best] < LESS * np.linalg.norm(rest) else None


def _fill(
    rows: np.ndarray, seen: np.ndarray, turn: np.ndarray, left: np.ndarray, outputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With entries of turned units that what is left tells; where it is of several units the shortest are taken."""
    rows, seen, left = np.where(seen, rows, 0.0), seen.copy(), left.copy()
    for feature in np.flatnonzero(np.any(~seen[turn], axis=0)):
        units = np.flatnonzero(turn & ~seen[:, feature])
        entries = np.linalg.lstsq(outputs[units].T, -left[feature], rcond=1e-9)[0]
        rows[units, feature] = entries
        left[feature] += entries @ outputs[units]
        seen[units, feature] = len(units) == 1
    return rows, seen, left


def _carriers(left: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Rows (weights, bias) of always active units whose sum is ``left . h`` and a constant, each up to a factor."""
    z = h @ left
    size = np.linalg.norm(h, axis=1)
    far = size > np.quantile(size, 0.9)
    sign = 1.0 if np.sum(z) > 0 else -1.0
    if np.all(sign * z[far] > 0):
        weights = sign * left[None]
    else:  # features are never negative
        weights = np.array([np.maximum(left, 0.0), np.maximum(-left, 0.0)])
    low = np.maximum(0.0, -np.min(h @ weights.T, axis=0))
    return np.hstack([weights, (1.01 * low + np.linalg.norm(weights, axis=1))[:, None]])
