"""The units of one layer: candidates from open kinks, kept when their zero sets show where they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate, attach, grow, grow_open, refit, supporters
from unweave.methods.relu.deep.confirm import confirm, patterns_at
from unweave.methods.relu.deep.membership import predict
from unweave.methods.relu.deep.view import LayerView

MAX_OPEN_SEEDS = 120


def update_units(view: LayerView, units: list[Candidate]) -> tuple[list[Candidate], np.ndarray]:
    """The units on all the evidence there is now, and the kinks that none of them explains."""
    free = np.ones(len(view.row), dtype=bool)
    kept: list[Candidate] = []
    for unit in units:
        judged = judge(view, unit, free)
        if judged is None and not is_sure(
            unit.hits, unit.predicted
        ):  # confirmed by asking: it stays while it hits
            _, _, hit = predict(view, unit.row, unit.seen)
            judged = (
                replace(unit, hits=int(hit.sum()), predicted=len(hit)) if hit.sum() > 0.9 * len(hit) else None
            )
        if judged is not None and not any(one.whole and agree(one, judged) for one in kept):
            kept = [one for one in kept if one.whole or not judged.whole or not agree(one, judged)] + [judged]
            free &= ~supporters(view, judged.row, judged.seen)
    view.free = free
    return kept, free


def find_units(view: LayerView, units: list[Candidate]) -> list[Candidate]:
    """Units behind the open kinks, besides those already found."""
    view.doubtful = []
    kept, free = update_units(view, units)
    for seed in np.argsort(view.row_error):
        if not free[seed] or not np.isfinite(view.row_error[seed]) or view.was_rejected(seed):
            continue
        candidate = grow(view, seed, free)
        judged = judge(view, candidate, free)
        if judged is not None and not _known_already(judged, kept):
            kept.append(judged)
            free &= ~supporters(view, judged.row, judged.seen)
        else:
            view.reject(seed)
    if view.known.depth:
        tried = 0
        for seed in np.argsort(view.noise):
            if tried >= MAX_OPEN_SEEDS or not np.isfinite(view.noise[seed]):
                break
            if not free[seed] or view.complete[seed] or view.was_rejected(seed):
                continue
            tried += 1
            candidate = grow_open(view, seed, free)
            judged = None if candidate is None else judge(view, candidate, free)
            if judged is not None and not _known_already(judged, kept):
                kept.append(judged)
                free &= ~supporters(view, judged.row, judged.seen)
            else:
                view.reject(seed)
    kept = drop_facets(view, kept)
    kept = confirm_doubtful(view, kept)
    _, free = update_units(view, kept)
    return kept


def confirm_doubtful(view: LayerView, units: list[Candidate], most: int = 6) -> list[Candidate]:
    """With candidates met on few lines whose zero sets show where the sure units stand differently."""
    sure = [unit.row for unit in units if unit.whole and unit.hits >= 6]
    if len(sure) < 2 or not view.known.depth:
        return units
    asked = 0
    for unit in sorted(view.doubtful, key=lambda u: (-u.hits, -len(u.members))):
        key = tuple(view.kinks[unit.members[:2]].tolist())
        if key in view.asked_about or _known_already(unit, units) or asked >= most:
            continue
        own = patterns_at(view, view.x[unit.members], np.array(sure))
        told = True if len(np.unique(own, axis=0)) >= 2 and unit.hits >= 3 else None
        if told is None:
            asked += 1
            view.asked_about.add(key)
            told = confirm(view, unit, np.array(sure))
        if told:
            units = [*units, unit]
    return units


def drop_facets(view: LayerView, units: list[Candidate]) -> list[Candidate]:
    """Without doubtful units whose kinks all lie in one pattern of the sure ones: facets of a deeper unit."""
    sure = [unit for unit in units if unit.whole and unit.hits >= 8]
    if len(sure) < 2 or view.pool.lines is None:
        return units
    rows = np.array([unit.row for unit in sure])
    kept = []
    for unit in units:
        if is_sure(unit.hits, unit.predicted) and unit.hits < 12 and not (unit.whole and unit.hits >= 8):
            line, t, hit = predict(view, unit.row, unit.seen)
            h = view.known.features(view.pool.lines.points(line[hit], t[hit]))
            patterns = np.unique(h @ rows[:, :-1].T + rows[:, -1] > 0, axis=0)
            if len(patterns) < 2:
                continue
        kept.append(unit)
    return kept


def judge(view: LayerView, candidate: Candidate, free: np.ndarray) -> Candidate | None:
    """The candidate refitted on all its kinks and extended, or None where its zero set does not show."""
    row, seen = candidate.row, candidate.seen
    for _ in range(2):
        mine = np.flatnonzero(supporters(view, row, seen, 1e-6))
        if not len(mine):
            break
        sharper = refit(view, row, seen, mine, told=candidate.told)
        if np.linalg.norm(sharper - row) > 1e-2:
            break
        row = sharper
    line, t, hit = predict(view, row, seen)
    if not is_sure(int(hit.sum()), len(hit)):
        if hit.sum() >= 2 and hit.all() and len(candidate.members) >= 2 and seen.sum() >= 4:
            view.doubtful.append(replace(candidate, row=row, hits=int(hit.sum()), predicted=len(hit)))
        return None
    mine = np.flatnonzero(supporters(view, row, seen, 1e-6))
    if len(mine):
        places = view.pool.kinks_at(line[hit], t[hit], 10 * view.tolerance(line[hit], t[hit]))
        sharper = refit(view, row, seen, mine, np.setdiff1d(places, view.kinks[mine]), candidate.told)
        if np.linalg.norm(sharper - row) < 1e-3:
            row = sharper
            _, _, hit = predict(view, row, seen)
    result = replace(candidate, row=row, hits=int(hit.sum()), predicted=len(hit))
    if seen.all():
        return result
    wider = attach(view, result, free)
    _, _, hit = predict(view, wider.row, wider.seen)
    if hit.sum() >= result.hits and hit.sum() >= 0.9 * len(hit):
        return replace(wider, hits=int(hit.sum()), predicted=len(hit))
    return result


def is_sure(hits: int, predicted: int) -> bool:
    return (hits >= 4 and hits >= 0.95 * predicted) or (hits >= 12 and hits >= 0.85 * predicted)


def agree(unit: Candidate, other: Candidate) -> bool:
    """Whether two candidates are parallel in the entries that both have seen."""
    shared = unit.seen & other.seen
    a, b = unit.row[shared], other.row[shared]
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return bool(size > 0 and abs(a @ b) > (1 - 1e-10) * size and shared.sum() >= 3)


def _known_already(unit: Candidate, units: list[Candidate]) -> bool:
    return any(agree(unit, other) for other in units)
