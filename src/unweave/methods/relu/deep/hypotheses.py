"""The sides of all units of a layer at once: the choice that corners of the layers below obey.

A choice of sides says which units are active at every corner, so the derivative there has to be a combination of their
rows, none of them left out. One corner that knows fewer directions than there are units tells no pattern by itself, and
weights that are not known cost an equation each where their unit is active; together corners leave one choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.deadline import held
from unweave.methods.relu.deep.corners import Corner

MOST_UNITS = 12
"""Units all of whose sides are tried."""
MOST_SOLVED = 40_000
"""Combinations that are solved for, all corners together."""
FEWEST = 2
"""Corners by which a choice has to be ahead of every other."""

MOST_BESIDE, FEWEST_BESIDE, MOST_CORNERS = 9, 4, 60
"""Units all of whose sides are tried beside one that is missing; corners for that, at least and at most."""
AHEAD = 3
"""Equations to spare, and by which such a choice has to be ahead of every other; where two are missing its square."""
AGAINST = 8
"""Equations that one corner which contradicts counts for: a choice that makes few units active obeys more of them."""
NUM_TURNS = 8
"""Times that equations are weighed anew: at some corners another unit is missing."""
SAME = 1e-7
"""Equations that agree are off by less than some hundred times this."""

ALIKE = 1e-3
"""Coefficients that differ by less than this share are the same."""
UNIQUE = 1e-6
"""Singular values of the equations, relative to the largest, that leave one row and no other."""


def choose_sides(
    corners: list[Corner], rows: np.ndarray, seen: np.ndarray, *, most_against: float = 0.0
) -> np.ndarray | None:
    """Signs (units,) that make the rows active where they are positive; None where corners do not tell.

    ``most_against``: share of the corners that may contradict the choice.
    """
    num = len(rows)
    if not 2 <= num <= MOST_UNITS:
        return None
    rows = np.where(seen, rows, 0.0)
    choices = 1.0 - 2.0 * ((np.arange(2**num)[:, None] >> np.arange(num)) & 1)
    told = told_corners(corners, rows, seen)
    score, against = np.zeros(len(choices)), np.zeros(len(choices))
    for corner in told[: max(MOST_SOLVED // len(choices), 1)]:
        if held().passed:
            return None
        z = rows[:, :-1] @ corner.features + rows[:, -1]
        verdict = _judge(corner, rows, seen, choices * z > 0)
        score += verdict
        against += verdict < 0
    best = np.argsort(-score, kind="stable")[:2]
    ahead = score[best[0]] - score[best[1]] >= FEWEST
    enough = score[best[0]] >= FEWEST and against[best[0]] <= most_against * (score + 2 * against)[best[0]]
    return choices[best[0]] if ahead and enough else None


def told_corners(corners: list[Corner], rows: np.ndarray, seen: np.ndarray) -> list[Corner]:
    """Corners at which the argument of every unit is known; those that say the same as another say it once."""
    kept: list[Corner] = []
    for corner in corners:
        if np.any((np.abs(corner.features) > 1e-12) & ~seen[:, :-1]):
            continue
        if not any(_is_same(corner, other, rows) for other in kept):
            kept.append(corner)
    return kept


def _is_same(corner: Corner, other: Corner, rows: np.ndarray) -> bool:
    """Whether at both the units stand alike, the same features move and the answers do in the same way."""
    if not (corner.whole and other.whole) or not np.array_equal(corner.moving, other.moving):
        return False
    apart = np.linalg.norm(corner.derivative - other.derivative)
    if apart > ALIKE * np.linalg.norm(corner.derivative):
        return False
    a, b = (rows[:, :-1] @ one.features + rows[:, -1] > 0 for one in (corner, other))
    return bool(np.array_equal(a, b))


def _judge(corner: Corner, rows: np.ndarray, seen: np.ndarray, on: np.ndarray) -> np.ndarray:
    """For patterns (m, units) of active ones: 1 where they explain a corner with an equation to spare, -1 where not.

    0 where nothing is told.
    """
    frame, weight = corner.basis.T, corner.errors.min() / corner.errors
    open_features = np.flatnonzero(corner.moving & ~seen[:, :-1].all(axis=0))
    columns = np.hstack([frame @ rows[:, :-1].T, frame[:, open_features]]) * weight[:, None]
    taken = np.hstack([on, on @ ~seen[:, open_features]])
    moves = np.linalg.norm(columns, axis=0) > 1e-9
    patterns, number = np.unique(taken & moves, axis=0, return_inverse=True)
    target, noise = corner.slopes * weight[:, None], float(corner.errors.min())
    u, s, vt = np.linalg.svd(patterns[:, None, :] * columns[None], full_matrices=False)
    used = s > 1e-5 * np.maximum(s[:, :1], 1e-300)
    shares = np.where(used, 1 / np.where(used, s, 1.0), 0.0)
    solution = vt.transpose(0, 2, 1) @ (shares[:, :, None] * (u.transpose(0, 2, 1) @ target))
    miss = np.max(np.abs(columns @ solution - target), axis=(1, 2))
    rank, size = used.sum(axis=1), patterns.sum(axis=1)
    spare, unique = len(target) - rank, rank == size
    level = np.maximum(100 * noise * np.max(shares, axis=1), 1e-6 * np.max(np.abs(solution), axis=(1, 2)))
    length = np.linalg.norm(solution, axis=2)
    idle = np.any(patterns[:, : len(rows)] & (length[:, : len(rows)] <= level[:, None]), axis=1)
    explains = miss <= 100 * noise
    verdict = np.where(explains, np.where(unique & ~idle, 1, np.where(unique, -1, 0)), -1)
    return np.where(spare > 0, verdict, 0)[number.ravel()]


@dataclass(frozen=True)
class Missing:
    """Sides of all units, and a unit that is on at most corners besides them."""

    signs: np.ndarray
    basis: np.ndarray
    """(features, p): its weights are the first column and any combination of the others."""
    frame: np.ndarray
    """The features that these weights are of; the others are open for a unit that is on wherever they move."""
    error: float
    """Relative error to expect of the weights."""
    corners: list[Corner]
    """Those at which it shows."""
    num: int
    """How many units are missing besides; 0: none, the units whose rows are told are on instead."""


def choose_with_missing(
    corners: list[Corner], rows: np.ndarray, seen: np.ndarray, num_missing: int = 1
) -> Missing | None:
    """Sides of all units where one more is on at most corners, and that one; None where corners do not tell.

    Off the rows that a choice makes active, all that a corner shows is one direction: what is at right angles to both
    is at right angles to the row that is missing. The right choice is the one for which most such equations agree. As
    many as there are outputs may be missing.
    """
    num, n = len(rows), rows.shape[1] - 1
    rows = np.where(seen, rows, 0.0)
    if not 2 <= num <= MOST_BESIDE:
        return None
    told = told_corners(corners, rows, seen)[:MOST_CORNERS]
    if len(told) < FEWEST_BESIDE:
        return None
    choices = 1.0 - 2.0 * ((np.arange(2**num)[:, None] >> np.arange(num)) & 1)
    grams = np.zeros((len(choices), len(told), n, n))
    counts = np.zeros((len(choices), len(told)))
    on = np.array([choices * (rows[:, :-1] @ c.features + rows[:, -1]) > 0 for c in told])
    for number, corner in enumerate(told):
        across, counts[:, number], _ = _equations(corner, rows, seen, on[number], num_missing)
        grams[:, number] = across.transpose(0, 2, 1) @ across
    common = np.all(on, axis=0).sum(axis=1)
    weight = np.where(counts > 0, 1.0, 0.0)
    # features that no equation is of would be at right angles to all of them
    held_off = np.einsum("hcii->hi", grams) <= 0
    width = n - held_off.sum(axis=1)
    kept = np.arange(n) < common[:, None] + num_missing
    for _ in range(NUM_TURNS):
        if held().passed:
            return None
        total = np.einsum("hc,hcij->hij", weight, grams)
        total[:, np.arange(n), np.arange(n)] += held_off * n * np.trace(total, axis1=1, axis2=2)[:, None]
        _, space = np.linalg.eigh(total)
        space = space * kept[:, None]
        miss = np.sqrt(np.maximum(np.einsum("hin,hcij,hjn->hc", space, grams, space, optimize=True), 0.0))
        weight = np.where(counts > 0, 1 / np.maximum(miss, SAME), 0.0)
    agree = (counts > 0) & (miss < 100 * SAME)
    against = (counts > 0) & ~agree | (counts < 0)
    score = np.sum(agree * counts, axis=1) - (width - num_missing - common) - AGAINST * against.sum(axis=1)
    score[width <= num_missing + common] = -np.inf
    order = np.argsort(-score, kind="stable")
    best, ahead = int(order[0]), AHEAD**num_missing
    if (
        score[best] < ahead
        or score[best] - score[order[1]] < ahead
        or agree[best].sum() < 3 * against[best].sum()
    ):
        return None
    mine = np.flatnonzero(agree[best])
    system, noise, free = [], 0.0, int(common[best]) + num_missing
    for number in mine:
        across, _, error = _equations(told[number], rows, seen, on[number][best : best + 1], num_missing)
        system.append(across[0])
        noise = max(noise, float(error[0]))
    system = np.vstack(system)
    frame = np.linalg.norm(system, axis=0) > UNIQUE * np.linalg.norm(system)
    rank = int(frame.sum()) - free
    _, s, vt = np.linalg.svd(system[:, frame], full_matrices=True)
    if not rank > 0 or not free > 0 or s[rank - 1] < UNIQUE * s[0]:
        return None
    basis = np.zeros((n, free))
    basis[frame] = vt[rank:].T
    error = (noise + float(np.max(np.abs(system @ basis)))) / float(s[rank - 1])
    signs, on = choices[best].copy(), on[:, best].copy()
    for unit in _on_after_all(rows, seen, on[mine], basis, frame)[:num_missing]:
        signs[unit], on[:, unit] = -signs[unit], ~on[:, unit]
        num_missing -= 1
    always = (rows[np.all(on, axis=0), :-1] * frame).T
    if always.shape[1]:
        q = np.linalg.qr(always)[0]
        u, _, _ = np.linalg.svd(basis - q @ (q.T @ basis))
        basis = np.hstack([u[:, :num_missing], always])
    if num_missing and _may_be_turned(told, rows, seen, on, basis[:, :num_missing], frame, mine):
        return None
    corners = [told[number] for number in mine]
    return Missing(signs, basis[frame], frame, error, corners, num_missing)


def _on_after_all(
    rows: np.ndarray, seen: np.ndarray, on: np.ndarray, basis: np.ndarray, frame: np.ndarray
) -> np.ndarray:
    """Units that a choice has off at all corners, and whose rows are among those that it needs besides: they are on."""
    found = []
    for unit in np.flatnonzero(~on.any(axis=0)):
        told = frame & seen[unit, :-1]
        row = rows[unit, :-1][told]
        if told.sum() <= basis.shape[1] + 1:
            continue
        left = row - basis[told] @ np.linalg.lstsq(basis[told], row, rcond=1e-9)[0]
        if np.linalg.norm(left) < ALIKE * np.linalg.norm(row):
            found.append(unit)
    return np.array(found, dtype=int)


def _may_be_turned(
    corners: list[Corner],
    rows: np.ndarray,
    seen: np.ndarray,
    on: np.ndarray,
    basis: np.ndarray,
    frame: np.ndarray,
    mine: np.ndarray,
) -> bool:
    """Whether the corners allow most units to be turned round, by what that adds to the rows that are missing.

    They do where the coefficient of a unit is the same combination of those of the missing rows at every corner, as in
    the last layer, whose units count alike everywhere.
    """
    num, p = len(rows), basis.shape[1]
    every = np.vstack([rows[:, :-1], basis.T])
    own: list[list[np.ndarray]] = [[] for _ in range(num)]
    others: list[list[np.ndarray]] = [[] for _ in range(num)]
    for number in mine:
        corner = corners[number]
        weight = (corner.errors.min() / corner.errors)[:, None]
        active = np.append(np.flatnonzero(on[number]), num + np.arange(p))
        dark = np.flatnonzero(corner.moving & (np.any(~seen[on[number], :-1], axis=0) | ~frame))
        columns = np.hstack([corner.basis.T @ every[active].T, corner.basis.T[:, dark]]) * weight
        if columns.shape[1] > len(columns):
            continue
        solution = np.linalg.lstsq(columns, corner.slopes * weight, rcond=1e-10)[0]
        for place, unit in enumerate(active[:-p]):
            own[unit].append(solution[place])
            others[unit].append(solution[len(active) - p : len(active)])
    fixed = turned = 0
    for unit in range(num):
        target = np.concatenate(own[unit]) if own[unit] else np.zeros(0)
        if len(own[unit]) < 2 or len(target) <= p:
            continue
        system = np.hstack(others[unit]).T
        left = target - system @ np.linalg.lstsq(system, target, rcond=1e-10)[0]
        same = np.linalg.norm(left) < ALIKE * np.linalg.norm(target)
        fixed, turned = fixed + (not same), turned + same
    return bool(turned >= fixed)


def _equations(
    corner: Corner, rows: np.ndarray, seen: np.ndarray, on: np.ndarray, num_missing: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For patterns (m, units) what (m, directions, features) the missing rows are at right angles to.

    And how many equations these are, with their errors; 0: none, -1: the corner shows more directions besides the
    active rows.
    """
    frame, weight = corner.basis.T, corner.errors.min() / corner.errors
    frame = frame * weight[:, None]
    open_features = np.flatnonzero(corner.moving & ~seen[:, :-1].all(axis=0))
    columns = np.hstack([frame @ rows[:, :-1].T, frame[:, open_features]])
    taken = np.hstack([on, on @ ~seen[:, open_features]])
    patterns, number = np.unique(taken, axis=0, return_inverse=True)
    target, noise = corner.slopes * weight[:, None], float(corner.errors.min())
    active = patterns[:, None, :] * columns[None]
    u, s, _ = np.linalg.svd(active, full_matrices=False)
    u = u * (s > 1e-5 * np.maximum(s[:, :1], 1e-300))[:, None, :]
    left = target - u @ (u.transpose(0, 2, 1) @ target)
    own, size, _ = np.linalg.svd(left, full_matrices=False)
    k = num_missing - 1
    shows = size[:, k] > 1e4 * noise
    several = (
        shows & (size[:, k + 1] > np.maximum(1e-6 * size[:, k], 100 * noise))
        if size.shape[1] > k + 1
        else ~shows & False
    )
    free = (
        np.eye(len(target))
        - u @ u.transpose(0, 2, 1)
        - own[:, :, : k + 1] @ own[:, :, : k + 1].transpose(0, 2, 1)
    )
    count = np.round(np.trace(free, axis1=1, axis2=2))
    across = free @ frame
    count = np.where(several, -1.0, np.where(shows, count, 0.0))
    across = np.where((count > 0)[:, None, None], across, 0.0)
    error = noise / np.maximum(size[:, k], 1e-300) + 1e-14
    return across[number.ravel()], count[number.ravel()], error[number.ravel()]
