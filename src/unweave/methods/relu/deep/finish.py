"""The last hidden layer made whole from the answers: entries that never crossed, units that are one too many.

Where one entry is unknown, what is left of an answer is that unit's own output and gives the entry at once.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, features_below, fit_top, robust_fit, transcript

AGREE = 1e-6
"""Estimates of one entry within this of each other are the same."""


def entries_from_answers(
    pool: Pool, below: Known, rows: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Oriented ``rows`` of the last layer with entries read off the answers; those that never show keep unseen."""
    rows, seen = np.where(seen, rows, 0.0), seen.copy()
    x, y, weight, size = transcript(pool)
    h = below.features(x)
    active = below.active(h)
    for _ in range(int((~seen).sum())):
        dark = active[:, None, :] & ~seen[None, :, :-1]
        num_dark = dark.sum(axis=(1, 2))
        clean = num_dark == 0
        if clean.sum() < 2 * len(rows) + 10:
            break
        z = h @ rows[:, :-1].T + rows[:, -1]
        features = np.hstack([np.maximum(z, 0), np.ones((len(x), 1))])
        top = robust_fit((features * weight[:, None])[clean], (y * weight[:, None])[clean], size)
        found = None
        for unit, entry in np.argwhere(~seen[:, :-1]):
            column = top[unit]
            if not column @ column > 0:
                continue
            mine = np.flatnonzero((num_dark == 1) & dark[:, unit, entry])
            if len(mine) < 3:
                continue
            rest = y[mine] - features[mine] @ top + np.maximum(z[mine, unit], 0)[:, None] * column
            output = rest @ column / (column @ column)
            scale = size / weight[mine] / np.sqrt(column @ column)
            on = np.flatnonzero(output > 1e-5 * scale)
            if len(on) < 2:
                continue
            values = (output[on] - z[mine[on], unit]) / h[mine[on], entry]
            middle = np.median(values)
            same = np.abs(values - middle) < AGREE * (1 + abs(middle)) + 1e-9 * scale[on] / h[mine[on], entry]
            if same.sum() >= max(2, 0.6 * len(values)):
                found = (unit, entry, np.median(values[same]))
                break
        if found is None:
            group = _fit_group(rows, seen, top, h, y, weight, size, dark)
            if group is None:
                break
            rows, seen = group
            continue
        unit, entry, value = found
        rows[unit, entry], seen[unit, entry] = value, True
    return rows, seen


def _fit_group(rows, seen, top, h, y, weight, size, dark, most: int = 3, max_rows: int = 1500):
    """Entries that only show together: Gauss-Newton from several starts on the answers that involve exactly these."""
    pairs = np.argwhere(~seen[:, :-1])
    involved = dark[:, pairs[:, 0], pairs[:, 1]]
    patterns, counts = np.unique(involved, axis=0, return_counts=True)
    usable = [
        (p.sum(), -c, i)
        for i, (p, c) in enumerate(zip(patterns, counts, strict=True))
        if 0 < p.sum() <= most and c >= 6
    ]
    if not usable:
        return None
    pattern = patterns[min(usable)[2]]
    mine = np.flatnonzero(np.all(involved == pattern, axis=1))[:max_rows]
    pairs = pairs[pattern]
    units, entries = pairs.T
    z = h[mine] @ rows[:, :-1].T + rows[:, -1]
    w = weight[mine, None]
    reach, best = float(np.max(np.abs(rows[:, :-1]))), None
    for start in product((-5.0, -0.3, 0.3, 5.0), repeat=len(pairs)):
        values = reach * np.array(start)
        left, arguments = _left(values, units, entries, z, h[mine], y[mine], top, w)
        cost = np.sum(left**2)
        for _ in range(20):
            on = arguments[:, units] > 0
            jac = np.einsum("ng,ng,gk->nkg", on * 1.0, h[mine][:, entries], top[units]) * w[:, :, None]
            step = np.linalg.lstsq(jac.reshape(-1, len(pairs)), left.ravel(), rcond=1e-9)[0]
            for shrink in (1.0, 0.3, 0.1):
                trial = values + shrink * step
                now, there = _left(trial, units, entries, z, h[mine], y[mine], top, w)
                if np.sum(now**2) < cost * (1 - 1e-9):
                    break
            else:
                break
            values, left, arguments, cost = trial, now, there, np.sum(now**2)
        wrong = float(np.mean(np.max(np.abs(left), axis=1) > 1e-7 * size))
        if best is None or wrong < best[0]:
            best = (wrong, values, arguments)
    assert best is not None
    if best[0] > 0.02:
        return None
    rows, seen = rows.copy(), seen.copy()
    rows[units, entries] = best[1]
    seen[units, entries] = True
    return rows, seen


def _left(values, units, entries, z, h, y, top, weight):
    """What the answers leave when the unknown entries have these values, and the arguments then."""
    arguments = z.copy()
    np.add.at(arguments.T, units, values[:, None] * h[:, entries].T)
    outputs = np.maximum(arguments, 0) @ top[:-1] + top[-1]
    return (y - outputs) * weight, arguments


def close_unseen(pool: Pool, below: Known, rows: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Entries that nothing shows: the unit is off whenever that feature is on, as far as was ever asked."""
    rows = np.where(seen, rows, 0.0)
    if seen.all():
        return rows
    x = transcript(pool)[0]
    h = features_below(pool, below, x)
    z = h @ rows[:, :-1].T + rows[:, -1]
    for unit, entry in np.argwhere(~seen[:, :-1]):
        on = h[:, entry] > 1e-9 * (1 + np.linalg.norm(x, axis=1))
        steepest = np.max(z[on, unit] / h[on, entry], initial=0.0)
        rows[unit, entry] = -max(min(2 * steepest, 1e3), float(np.max(np.abs(rows[unit]))))
    return rows


def drop_spare_units(
    pool: Pool, known: Known, top: Top, open_entries: tuple[tuple[int, int], ...]
) -> tuple[Known, Top, tuple[tuple[int, int], ...]]:
    """The last layer without units that the answers do not need, the one with the least output first."""
    below = known.first(known.depth - 1)
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    kept = np.arange(len(rows))
    for unit in np.argsort(np.linalg.norm(top.coefficients[:-1], axis=1)):
        left = kept[kept != unit]
        if not len(left):
            continue
        fit = fit_top(pool, below.extended(rows[left], known.leaks[-1]))
        if fit.is_output and not fit.wrong.any():
            kept, top = left, fit
    place = {int(unit): number for number, unit in enumerate(kept)}
    still_open = tuple((place[u], i) for u, i in open_entries if u in place)
    return below.extended(rows[kept], known.leaks[-1]), top, still_open
