"""Candidate units of the next layer: rows in the known features that several open kinks agree on.

A kink at which the active features are independent gives a whole row on its active set (``LayerView.row``). Kinks of
one unit agree on the entries they share: they are averaged, and the union of their active sets is known. Kinks that
leave directions open take part as linear constraints: one is attached when a scale and its new entries satisfy more
constraints than they have unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from unweave.methods.relu.deep.view import LayerView

MOST_NEW = 6
"""New entries that one kink may add."""
MOST_THREES, SPARE, MOST_FOUND = 2000, 2, 12
"""Sets of three kinks that are tried, equations that they have to spare, and how many such rows are looked at."""
FAR_OFF, MOST_FITS = 1e4, 8
"""Errors by which an equation of a row may be off; else fits that heed it less."""


@dataclass(frozen=True)
class Candidate:
    """A row of weights and bias, scale free; ``seen``: entries that are known, ``members``: kinks that carry it."""

    row: np.ndarray
    seen: np.ndarray
    members: np.ndarray
    """Rows of the view."""
    hits: int = 0
    predicted: int = 0
    shown: bool = False
    """Whether corners of the layers below have shown it: growing it again from kinks would bring less."""
    oriented: bool = False
    """Whether it is known to be on where its row is positive."""
    told: np.ndarray | None = None
    """More equations ``a . row = 0`` in units of their errors for a row of length one: from following its zero set."""

    @property
    def whole(self) -> bool:
        return bool(self.seen.all())


def grow(view: LayerView, seed: int, free: np.ndarray, max_rounds: int = 8) -> Candidate:
    """All free kinks that agree with the seed's row on shared entries, and the row of their union."""
    row, seen = view.row[seed].copy(), view.mask[seed].copy()
    members = np.zeros(len(view.row), dtype=bool)
    members[seed] = True
    usable = np.isfinite(view.row_error) & free
    weights = np.where(np.isfinite(view.row_error), 1 / view.row_error**2, 0.0)
    for _ in range(max_rounds):
        shared = view.mask & seen
        theirs = np.sum(view.row**2 * shared, axis=1)
        mine = np.sum(row**2 * shared, axis=1)
        scale = np.sum(view.row * row * shared, axis=1) / np.maximum(theirs, 1e-300)
        miss = np.sum((row - scale[:, None] * view.row) ** 2 * shared, axis=1)
        miss = np.sqrt(miss / np.maximum(mine, 1e-300))
        weak = np.sqrt(1 / np.maximum(np.minimum(mine / (row @ row), theirs), 1e-6))
        allowed = np.minimum(1e-4, 1e-7 + 30 * (view.row_error + view.row_error[seed]) * weak)
        agree = usable & (shared.sum(axis=1) >= 3) & (miss < allowed) & (np.abs(scale) > 1e-6)
        agree[seed] = True
        new = agree & ~members
        members |= agree
        w = np.where(
            members[:, None], weights[:, None] * view.mask / np.maximum(scale[:, None] ** 2, 1e-300), 0.0
        )
        total = w.sum(axis=0)
        now = total > 0
        grown = bool((now & ~seen).any())
        row = np.where(now, (w * view.row * scale[:, None]).sum(axis=0) / np.maximum(total, 1e-300), 0.0)
        seen = now
        if not grown and not new.any():
            break
    return Candidate(row / np.linalg.norm(row), seen, np.flatnonzero(members))


def attach(view: LayerView, candidate: Candidate, free: np.ndarray, max_steps: int = 12) -> Candidate:
    """Free kinks that fit the candidate with at least one constraint to spare, and the entries they add."""
    row, seen, members = candidate.row, candidate.seen, set(candidate.members.tolist())
    for _ in range(max_steps):
        fit = _best_fit(view, row[:, None] * seen[:, None], seen, free, members)
        if fit is None:
            break
        row, seen, taken = fit
        members |= taken
        mine = np.array(sorted(members))
        sharper = refit(view, row, seen, mine, told=candidate.told)
        if np.linalg.norm(sharper - row) < 1e-3:
            row = sharper
    row = -row if row @ candidate.row < 0 else row
    return replace(candidate, row=row, seen=seen, members=np.array(sorted(members), dtype=int))


def grow_open(view: LayerView, seed: int, free: np.ndarray, max_directions: int = 4) -> Candidate | None:
    """From a kink that leaves a few directions open: the first other kink that settles them, then all that fit."""
    seen = view.mask[seed]
    _, s, vt = np.linalg.svd(view.constraints[seed][:, seen], full_matrices=True)
    s = np.append(s, np.zeros(max(vt.shape[0] - len(s), 0)))[: vt.shape[0]]
    null = vt[s < max(1e-7, 10 * view.noise[seed])]
    if not 1 <= len(null) <= max_directions:
        return None
    basis = np.zeros((len(seen), len(null)))
    basis[seen] = null.T
    fit = _best_fit(view, basis, seen, free, {seed})
    if fit is None:
        return None
    row, seen, taken = fit
    return attach(view, Candidate(row, seen, np.array(sorted({seed} | taken))), free)


def grow_from_three(view: LayerView, mine: np.ndarray, rng: np.random.Generator) -> list[Candidate]:
    """Rows that three of the kinks tell together with equations to spare, where none of them leaves few open."""
    kinks = np.flatnonzero(mine & np.isfinite(view.noise))
    threes = np.array(list(combinations(kinks, 3)), dtype=int).reshape(-1, 3)
    threes = threes[rng.permutation(len(threes))[:MOST_THREES]]
    if not len(threes):
        return []
    seen = np.any(view.mask[threes], axis=1)
    enough = np.sum(view.num_constraints[threes], axis=1) >= seen.sum(axis=1) - 1 + SPARE
    threes, seen = threes[enough], seen[enough]
    system = (
        view.constraints[threes].reshape(len(threes), 3 * view.constraints.shape[1], seen.shape[1])
        * seen[:, None]
    )
    # entries that are not seen take no part: each is held at zero
    held = np.eye(seen.shape[1])[None] * ~seen[:, None]
    _, s, vt = np.linalg.svd(np.concatenate([system, held], axis=1), full_matrices=False)
    fits = s[:, -1] <= (1e-7 + 30 * view.noise[threes].max(axis=1)) * s[:, 0]
    fits &= s[:, -2] > np.maximum(1e-4, 100 * s[:, -1])
    found = []
    for number in np.flatnonzero(fits)[np.argsort(s[fits, -1], kind="stable")][:MOST_FOUND]:
        found.append(attach(view, Candidate(vt[number, -1], seen[number], np.sort(threes[number])), mine))
    return found


def settle(view: LayerView, basis: np.ndarray, seen: np.ndarray, free: np.ndarray) -> Candidate | None:
    """The row among combinations of the columns of ``basis`` that the kink which fits best leaves."""
    fit = _best_fit(view, basis, seen, free & ~np.any(view.active & ~seen[:-1], axis=1), set())
    if fit is None:
        return None
    row, seen, taken = fit
    return Candidate(row, seen, np.array(sorted(taken)))


def _best_fit(view: LayerView, basis: np.ndarray, seen: np.ndarray, free: np.ndarray, taken: set[int]):
    """The kink that extends rows ``basis @ a`` best: the row, what is seen of it now, and who agrees."""
    directions = basis.shape[1]
    over = view.active & ~seen[:-1]
    num_new = over.sum(axis=1)
    unknown = directions + num_new
    usable = free & np.isfinite(view.noise) & (view.num_constraints >= unknown + 1) & (num_new <= MOST_NEW)
    if taken:
        usable[list(taken)] = False
    if directions == 1:
        usable &= num_new > 0
    best = None
    for count in np.unique(num_new[usable]):
        rows = np.flatnonzero(usable & (num_new == count))
        columns = np.nonzero(over[rows])[1].reshape(len(rows), count)
        own = view.constraints[rows] @ basis
        new = np.take_along_axis(view.constraints[rows], columns[:, None, :], axis=2)
        system = np.concatenate([own, new], axis=2)
        size = np.linalg.norm(system, axis=1)
        ok = size.min(axis=1) > 1e-9
        rows, columns, system, size = rows[ok], columns[ok], system[ok], size[ok]
        if not len(rows):
            continue
        _, s, vt = np.linalg.svd(system / size[:, None, :], full_matrices=False)
        solution = vt[:, -1] / size
        known_part = np.linalg.norm(solution[:, :directions], axis=1)
        fits = s[:, -1] <= (1e-7 + 30 * view.noise[rows]) * s[:, 0]
        if s.shape[1] > 1:
            fits &= s[:, -2] > np.maximum(1e-4, 100 * s[:, -1])
        fits &= known_part > 1e-4 * np.linalg.norm(solution, axis=1)
        spare = np.minimum(view.num_constraints[rows] - unknown[rows], 3)
        for i in np.flatnonzero(fits):
            key = (-spare[i], count, s[i, -1])
            if best is None or key < best[0]:
                best = (key, rows[i], columns[i], solution[i])
    if best is None:
        return None
    _, kink, columns, solution = best
    row, seen = basis @ solution[:directions], seen.copy()
    row[columns] = solution[directions:]
    seen[columns] = True
    return row / np.linalg.norm(row), seen, {int(kink)}


def supporters(view: LayerView, row: np.ndarray, seen: np.ndarray, place: float = 1e-7) -> np.ndarray:
    """Which measured kinks lie on the zero set of the row with its normal, all their active entries seen."""
    gradient = np.einsum("n,mnd->md", row[:-1], view.jac)
    size = np.linalg.norm(gradient, axis=1)
    apart = np.abs(view.extended @ row) / np.maximum(size, 1e-300) / (1 + np.linalg.norm(view.x, axis=1))
    cosine = np.abs(np.sum(gradient * view.g, axis=1)) / np.maximum(size, 1e-300)
    dark = np.any(view.active & ~seen[:-1], axis=1)
    return ~dark & (size > 1e-12) & (apart < place) & (cosine > 1 - 1e-6)


def refit(
    view: LayerView,
    row: np.ndarray,
    seen: np.ndarray,
    members: np.ndarray,
    places: np.ndarray | None = None,
    told: np.ndarray | None = None,
) -> np.ndarray:
    """The row from all constraints of its kinks, each in units of its error.

    ``places``: kinks of the pool of which only the place is known. ``told``: more equations.
    """
    system, used, scale = _equations(view, row, seen, members, places, told)
    solution, weight = np.ones(len(scale)), np.ones(len(system))
    for _ in range(MOST_FITS):
        solution = np.linalg.svd(system * weight[:, None], full_matrices=False)[2][-1] / scale
        miss = np.abs(system @ (solution * scale)) / max(np.linalg.norm(solution), 1e-300)
        if np.max(miss, initial=0.0) < FAR_OFF:
            break
        weight = 1 / np.maximum(miss, 0.01 * FAR_OFF)  # kinks of other units close by: most are its own
    out = np.zeros_like(row)
    out[used] = solution
    out *= (out @ row) / max(out @ out, 1e-300)
    out[seen & ~used] = row[seen & ~used]
    return out / max(np.linalg.norm(out), 1e-300)


def row_errors(
    view: LayerView,
    row: np.ndarray,
    members: np.ndarray,
    places: np.ndarray | None = None,
    told: np.ndarray | None = None,
) -> np.ndarray:
    """Errors to expect of the entries of a row, all of it seen, fitted to its kinks; infinite where they leave them."""
    out = np.full(len(row), np.inf)
    system, used, scale = _equations(view, row, np.ones(len(row), dtype=bool), members, places, told)
    if len(system) >= used.sum():
        _, s, vt = np.linalg.svd(system, full_matrices=False)
        spread = vt[:-1].T / np.maximum(s[:-1], 1e-300) / scale[:, None]
        out[used] = np.linalg.norm(spread, axis=1) / np.linalg.norm(row)
    return out


def _equations(
    view: LayerView,
    row: np.ndarray,
    seen: np.ndarray,
    members: np.ndarray,
    places: np.ndarray | None = None,
    told: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What kinks say of a row, in units of the errors: equations, the entries they are of, and their scales."""
    gradient = np.einsum("n,mnd->md", row[:-1], view.jac[members])
    size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)
    x, g = view.x[members], view.g[members]
    place = 1 / size / (1 + np.linalg.norm(x, axis=1)) / 1e-13
    positions = view.extended[members] * place[:, None]
    jac = view.jac[members]
    across = np.swapaxes(jac, 1, 2) - g[:, :, None] * np.einsum("mnd,md->mn", jac, g)[:, None, :]
    across = across / (size * (view.error[members] + 1e-14))[:, None, None]
    normals = np.concatenate([across, np.zeros((*across.shape[:2], 1))], axis=2).reshape(-1, len(row))
    system = np.vstack([positions, normals])
    if places is not None and len(places):
        system = np.vstack([system, _place_rows(view, row, places)])
    if told is not None:
        system = np.vstack([system, told])
    system = system[np.all(np.isfinite(system), axis=1)]
    used = seen & (np.linalg.norm(system, axis=0) > 0)
    scale = np.linalg.norm(system[:, used], axis=0)
    return system[:, used] / scale, used, scale


def _place_rows(view: LayerView, row: np.ndarray, places: np.ndarray) -> np.ndarray:
    """One constraint a kink: the row vanishes there."""
    pool = view.pool
    x = pool.x[places]
    h, jac = view.known.jacobian(x)
    gradient = np.einsum("n,mnd->md", row[:-1], jac)
    size = np.linalg.norm(gradient, axis=1)
    error = pool.place_error[places] + 1e-13 * (1 + np.linalg.norm(x, axis=1))
    moves = size > 1e-12  # where the row does not move with x, the kink is another's
    return (np.hstack([h, np.ones((len(x), 1))]) / np.maximum(size * error, 1e-300)[:, None])[moves]
