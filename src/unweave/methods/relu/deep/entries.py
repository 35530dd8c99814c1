"""Weights of rare units of the last layer whose feature was never on together with them, asked for one by one.

Where such a unit is on, points are moved offline to the border of the feature and a little beyond, the unit still on
whatever the weight: there the answer tells it. Where no way leads there the two are never on together, as far as is
known.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, fit_top

NUM_STARTS, NUM_STEPS = 48, 14
TRIES = 3
"""Places at which a weight is asked for."""
ROOM = 0.05
"""Share of the unit's argument by which a weight as large as the largest may change it."""
STEPS = np.array([1.0, 0.6])
"""How far beyond the border is asked."""
AGREE = 1e-7
"""Values of one weight within this of each other are the same, and one that is not known so well is not taken."""


def ask_entries(
    pool: Pool, known: Known, top: Top, open_entries: tuple[tuple[int, int], ...]
) -> tuple[Known, Top, tuple[tuple[int, int], ...]]:
    """The last layer with open entries that answers beyond the borders of their features tell."""
    if not open_entries or known.leaks[-1] or known.depth < 2:
        return known, top, open_entries
    below = known.first(known.depth - 1)
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    seen = np.ones(rows.shape, dtype=bool)
    for unit, feature in open_entries:
        seen[unit, feature] = False
    other = np.where(seen, rows, 0.0)
    for unit in np.flatnonzero(~seen.all(axis=1)):
        if not np.any(top.coefficients[unit] != 0):
            continue
        for _ in range(int((~seen[unit]).sum())):  # with every weight more ways open
            before = seen[unit].sum()
            for feature in np.flatnonzero(~seen[unit]):
                value = _ask_entry(pool, below, other, seen, top, int(unit), int(feature))
                if value is not None:
                    other[unit, feature], seen[unit, feature] = value, True
            if seen[unit].sum() == before or seen[unit].all():
                break
    other = np.where(seen, other, rows)
    size = np.linalg.norm(other[:, :-1], axis=1)
    trial = below.extended(other / size[:, None])
    fit = fit_top(pool, trial, start=top.coefficients * np.append(size, 1.0)[:, None])
    if not fit.is_output or fit.wrong.sum() > fit_top(pool, known, start=top.coefficients).wrong.sum():
        return known, fit_top(pool, known, start=top.coefficients), open_entries
    return trial, fit, tuple((int(u), int(i)) for u, i in np.argwhere(~seen))


def _ask_entry(
    pool: Pool, below: Known, rows: np.ndarray, seen: np.ndarray, top: Top, unit: int, feature: int
) -> float | None:
    """One weight that answers at two places agree on; None where no place shows it, or they do not agree."""
    x, step, normal = _approach(pool, below, rows, seen, unit, feature)
    column = top.coefficients[unit]
    values: list[float] = []
    for i in range(min(len(x), TRIES)):
        points = x[i] + (STEPS * step[i])[:, None] * normal[i]
        h = below.features(points)
        if (
            not pool.inquiry.meter.domain.contains(points).all()
            or _is_dark(below, h, seen, unit, feature).any()
        ):
            continue
        answers, bars = pool.inquiry.ask(points)
        z = h @ rows[:, :-1].T + rows[:, -1]
        outputs = np.maximum(z, 0)
        outputs[:, unit] = 0.0
        left = answers - outputs @ top.coefficients[:-1] - top.coefficients[-1]
        own = left @ column / (column @ column)
        told = (own - z[:, unit]) / h[:, feature]
        error = 100 * bars / np.linalg.norm(column) / h[:, feature]
        if np.max(error) > AGREE * np.linalg.norm(rows[unit, :-1]):
            continue
        error = error + AGREE * (1e-3 + np.abs(told).max())
        off = np.max(np.abs(left - own[:, None] * column), axis=1)
        if (
            np.all(own > 0)
            and np.ptp(told) <= error.max()
            and np.all(off <= 100 * bars + AGREE * np.abs(left).max())
        ):
            values.append(float(told[0]))
            same = np.abs(np.array(values) - told[0]) <= error.max()
            if same.sum() >= 2:
                return float(np.median(np.array(values)[same]))
    return None


def _approach(
    pool: Pool, below: Known, rows: np.ndarray, seen: np.ndarray, unit: int, feature: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points at the border of a feature with the unit on, roomiest first, how far to go beyond and where to."""
    x = pool.inquiry.meter.transcript()[0]
    row = rows[unit]
    h = below.features(x)
    on = (h @ row[:-1] + row[-1] > 0) & ~_is_dark(below, h, seen, unit, -1)
    x = x[np.flatnonzero(on)]
    x = x[pool.rng.permutation(len(x))[:NUM_STARTS]].copy()
    at = np.arange(len(x))
    for _ in range(NUM_STEPS):
        if not len(x):
            break
        z, own, g, up = _local(below, x, row, feature)
        v = g - (np.sum(g * up, axis=1) / np.maximum(np.sum(up * up, axis=1), 1e-300))[:, None] * up
        speed = np.sum(v * g, axis=1)
        full = np.where(speed > 1e-12, -z / np.maximum(speed, 1e-300), 0.0)
        trial = x + full[:, None] * v
        best = x.copy()
        better = np.zeros(len(x), dtype=bool)
        for share in (1.0, 0.5, 0.25, 0.1):
            there = x + share * (trial - x)
            h = below.features(there)
            fine = (h @ row[:-1] + row[-1] > 0.2 * own) & ~_is_dark(below, h, seen, unit, feature) & ~better
            best[fine], better = there[fine], better | fine
        x = best
    if not len(x):
        return x, np.zeros(0), x
    z, own, g, up = _local(below, x, row, feature)
    size = np.linalg.norm(g, axis=1)
    step = ROOM * own / np.maximum(np.max(np.abs(row)) * size, 1e-300)
    close = (np.abs(z) <= 1e-9 * (1e-3 + np.linalg.norm(x, axis=1) * size)) & (own > 0) & (size > 1e-9)
    score = np.where(close, step / (1e-3 + np.linalg.norm(x, axis=1)), 0.0)
    order = at[np.argsort(-score)][: int(close.sum())]
    return x[order], step[order], (g / np.maximum(size, 1e-300)[:, None])[order]


def _local(below: Known, x: np.ndarray, row: np.ndarray, feature: int):
    """Arguments of the feature and of the unit at the points, and their gradients."""
    zs, gs = below.gradients(x)
    h, jac = below.jacobian(x)
    return (
        zs[-1][:, feature],
        h @ row[:-1] + row[-1],
        gs[-1][:, feature],
        np.einsum("p,npd->nd", row[:-1], jac),
    )


def _is_dark(below: Known, h: np.ndarray, seen: np.ndarray, unit: int, but: int) -> np.ndarray:
    """Where a feature is on whose weight is not known, ``but`` one."""
    hidden = ~seen[unit, :-1]
    if but >= 0:
        hidden = hidden.copy()
        hidden[but] = False
    return np.any(below.active(h)[:, hidden], axis=1)
