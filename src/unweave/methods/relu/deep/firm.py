"""Rows of a layer made sharp before anything is built on them: normals at more of their kinks where they are not.

A unit that few kinks have shown, or that corners have, is known to six digits or eight. The next layer is read through
its features, so what is wrong with it is wrong there, many times over. The equations of its kinks tell the error to
expect of every entry; kinks on its zero set whose places alone are known are measured until that is small, then its
zero set is crossed where the features of bad entries are active.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate, refit, row_errors, supporters
from unweave.methods.relu.deep.confirm import zero_set
from unweave.methods.relu.deep.membership import predict
from unweave.methods.relu.deep.view import LayerView
from unweave.probes.lines import Lines

SHARP = 1e-10
"""Error to expect of an entry below which it needs nothing, the row being of length one."""
AT_ONCE = 3
"""Kinks that are measured before the row is fitted again."""
CLOSE = 1e-3
"""A fit may not move a row by more than this."""


def firm_units(view: LayerView, units: list[Candidate], max_rounds: int = 4) -> list[Candidate]:
    """The units, those that are whole and known badly fitted to more of their kinks."""
    out = list(units)
    for number, unit in enumerate(units):
        if unit.whole:
            out[number] = _firm(view, unit, max_rounds)
    return out


def _firm(view: LayerView, unit: Candidate, max_rounds: int) -> Candidate:
    pool, row, tried = view.pool, unit.row, np.zeros(0, dtype=int)
    for _ in range(max_rounds):
        line, t, hit = predict(view, row, unit.seen)
        places = pool.kinks_at(line[hit], t[hit], 10 * view.tolerance(line[hit], t[hit]))
        mine = np.flatnonzero(supporters(view, row, unit.seen, 1e-6))
        others, errors = np.setdiff1d(places, view.kinks[mine]), np.full(len(row), np.inf)
        if len(mine):
            sharper = refit(view, row, unit.seen, mine, others, unit.told)
            if np.linalg.norm(sharper - row) < CLOSE:
                row = sharper
            errors = row_errors(view, row, mine, others, unit.told)
            if errors.max() < SHARP:
                break
        others = np.setdiff1d(others[np.isinf(pool.normal_error[others]) & ~pool.foreign[others]], tried)
        others = others[np.argsort(-np.max(np.abs(pool.slope_jump[others]), axis=1))]
        if not len(others):
            others = cross_zero_set(view, replace(unit, row=row), mine, errors > SHARP)
            if not len(others):
                break
        tried = np.append(tried, others[:AT_ONCE])
        pool.measure(others[:AT_ONCE], view.known)
        view.load()
    _, _, hit = predict(view, row, unit.seen)
    return replace(unit, row=row) if hit.sum() >= unit.hits else unit


def cross_zero_set(view: LayerView, unit: Candidate, mine: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Kinks where short segments cross its zero set with features of bad entries active, the most of them first."""
    pool, known = view.pool, view.known
    if not len(mine):
        return np.zeros(0, dtype=int)
    x, normal = zero_set(view, replace(unit, members=mine))
    if not len(x):
        return np.zeros(0, dtype=int)
    active = known.active(known.features(x)) & bad[:-1]
    picked: list[int] = []
    left = bad[:-1].copy()
    for _ in range(AT_ONCE):
        gain = np.sum(active & left, axis=1) + 0.5 * np.mean(active, axis=1)
        best = int(np.argmax(gain))
        if not active[best].any():
            break
        picked.append(best)
        left &= ~active[best]
        active[best] = False
    if not picked:
        return np.zeros(0, dtype=int)
    x, normal, half = x[picked], normal[picked], 0.5 * known.clearance(x[picked])
    half = np.where(np.isfinite(half), half, 1 + np.linalg.norm(x, axis=1))  # nothing known bends beside it
    inside = np.all(
        [pool.inquiry.meter.domain.contains(x + c * half[:, None] * normal) for c in (-1, 1)], axis=0
    )
    x, normal, half = x[inside], normal[inside], half[inside]
    numbers = pool.add_lines(Lines(x, normal, -half, half, half), known, random=False)
    view.update()
    view.load()
    return numbers[np.abs(pool.t[numbers]) < 1e-3 * half[pool.line[numbers] - len(pool.scans) + len(half)]]
