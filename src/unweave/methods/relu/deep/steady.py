"""Sides of the last layer's units once all of them are known, and what units that never switch add up to.

``relu(z) = relu(-z) + z``: turning a unit round adds its argument to what always active units carry, so where there are
such units no answer tells the sides. When units were found after the sides were chosen, another choice may need none:
then it is the right one, and what is left over tells entries that were never seen on the other side. Else the choice
that leaves least is taken, carried by one unit, or by two where it changes sign.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, fit_top

MOST_OPEN = 14
"""Units all of whose sides are tried."""
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
        more = carriers(left, h)
        rows, seen = np.vstack([rows, more]), np.vstack([seen, np.ones(more.shape, dtype=bool)])
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    other = below.extended(rows)
    fit = fit_top(pool, other)
    if not fit.is_output or fit.wrong.any():
        return known, top, open_entries
    return other, fit, tuple((int(u), int(i)) for u, i in np.argwhere(~seen))


def choose_turned(parts: np.ndarray, rest: np.ndarray, dark: np.ndarray) -> np.ndarray | None:
    """Which units to turn round so that least is left of ``rest`` (features, outputs): lowest rank, then size.

    None: none, or it is not known. ``parts`` (units, features, outputs) are their arguments times their outputs,
    ``dark`` entries that are not known.
    """
    num, k = len(parts), rest.shape[1]
    scale = np.linalg.norm(parts, axis=(1, 2)).max()
    told = ~dark.any(axis=0)
    share = np.linalg.lstsq(parts[:, told].reshape(num, -1).T, -rest[told].ravel(), rcond=1e-11)[0]
    choices = likely_choices(share - 0.5)
    hidden = choices @ dark.astype(int) > 0
    left = rest + np.einsum("cu,unk->cnk", choices, parts)
    left = np.where(hidden[:, :, None], 0.0, left)
    sizes = np.linalg.svd(left, compute_uv=False)
    rank, size = np.sum(sizes > NOTHING * scale, axis=1), np.linalg.norm(sizes, axis=1)
    num_told = np.sum(~hidden & np.any(rest != 0, axis=1), axis=1)
    # what is left of low rank says nothing where few entries are known
    rank[num_told < FEWEST + rank] = k + 1
    rank[hidden.any(axis=1) & (rank >= k)] = k + 1
    best = int(np.lexsort((size, hidden.sum(axis=1), rank))[0])
    now = np.linalg.svd(rest, compute_uv=False)
    better = rank[best] < np.sum(now > NOTHING * scale) or size[best] < LESS * np.linalg.norm(now)
    return choices[best] > 0 if rank[best] <= k and better else None


def likely_choices(share: np.ndarray) -> np.ndarray:
    """Choices (0 or 1) of all units that ``share`` leaves most open, those of the others as its sign says."""
    free = np.argsort(np.abs(share), kind="stable")[:MOST_OPEN]
    choices = np.repeat((share > 0)[None].astype(int), 2 ** len(free), axis=0)
    choices[:, free] = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))) & 1
    return choices


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


def carriers(left: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Rows (weights, bias) of always active units which carry ``left`` (features, outputs)."""
    u, s, _ = np.linalg.svd(left, full_matrices=False)
    size = np.linalg.norm(h, axis=1)
    far = size > np.quantile(size, 0.9)
    weights = []
    for row in u[:, s > NOTHING * s[0]].T:
        z = h[far] @ row
        if np.ptp(np.sign(z)) == 0:
            weights.append(row * np.sign(z[0]))
        else:  # features are never negative: the parts of one sign are on everywhere
            weights += [np.maximum(row, 0.0), np.maximum(-row, 0.0)]
    rows = np.array([row for row in weights if np.any(row != 0)])
    bias = np.maximum(0.0, -np.min(h @ rows.T, axis=0)) * 1.01 + 1.0
    return np.hstack([rows, bias[:, None]])
