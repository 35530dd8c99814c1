"""The last hidden layer over layers whose sides are told: its units, their sides, and their rows.

The answers are linear in the last layer's rows once the sides of its units are known: signs, all of which are tried.
Chains that fit as well as one unit's are taken for one unit's. What is open is chosen such that every row has one sign
on either side of its chains.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unweave.core import clock
from unweave.core.deadline import held
from unweave.methods.relu.maps.kept import keep
from unweave.methods.relu.maps.pieces import Layer, Pieces, side_of, sides_of_units

FITS = 1e-5
"""What the answers may leave, relative to their spread, before all weights are fitted."""
SETTLED = 1e-7
"""... and after it."""
RANK = 1e-11
"""Singular values below this share of the largest are zero."""
NOTHING = 1e-10
"""A feature smaller than this, relative to the largest, shows nowhere."""
MOST_WAYS = 24
"""Choices of sides that are looked at more closely."""
PROGRAMS, HELD, ZERO, ROOM = 8, 400, 1e-9, 0.1
"""Linear programs for what is open, and points that the next one takes in; values that count as zero, and those at
which open rows are held, relative to the typical one."""
WORSE = 3.0
"""By how much less well chains may fit that are taken for one unit's."""
SAME = 1e-5
"""Outputs of one unit differ by no more."""


def design_rows(pieces: Pieces, layer: Layer, groups: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Least squares for an affine part (p, k) and one row for every group, which vanishes on its chains."""
    h, k = layer(pieces.x), pieces.y.shape[1]
    n, p = h.shape
    side, size = sides_of_units(pieces, groups), np.std(pieces.y) + 1e-300
    blocks = [np.einsum("np,ij->nipj", h, np.eye(k)).reshape(n * k, p * k)]
    zeros = []
    for place, group in enumerate(groups):
        blocks.append(
            np.einsum("np,i->nip", side[:, [place]] * h, pieces.outputs[group[0]]).reshape(n * k, p)
        )
        there = layer(np.concatenate([pieces.corners[chain] for chain in group]))
        row = np.zeros((len(there), (k + len(groups)) * p))
        row[:, (k + place) * p : (k + place + 1) * p] = there
        zeros.append(row)
    a = np.vstack([np.hstack(blocks), *zeros])
    return a, np.append(pieces.y.ravel() / size, np.zeros(len(a) - n * k))


def _left(a: np.ndarray, y: np.ndarray) -> float:
    """What least squares leave."""
    u, s, _ = np.linalg.svd(a / column_scale(a), full_matrices=False)
    u = u[:, s > RANK * s[0]]
    return float(np.max(np.abs(y - u @ (u.T @ y))))


def group_chains(
    pieces: Pieces, layer: Layer, groups: list[list[int]], deadline: float
) -> list[list[int]] | None:
    """Chains that one unit explains together; None where the answers are not of such a layer."""
    left = _left(*design_rows(pieces, layer, groups))
    if left > FITS:
        return None
    fits = max(SETTLED, WORSE * left)
    tried: set[tuple[int, ...]] = set()
    while clock.now() < deadline:
        for one, two in combinations(range(len(groups)), 2):
            both = sorted(groups[one] + groups[two])
            if (
                tuple(both) in tried
                or np.linalg.norm(pieces.outputs[groups[one][0]] - pieces.outputs[groups[two][0]]) > SAME
            ):
                continue
            tried.add(tuple(both))
            merged = [*(g for i, g in enumerate(groups) if i not in (one, two)), both]
            if _left(*design_rows(pieces, layer, merged)) <= fits:
                groups = merged
                break
        else:
            break
    return groups


def with_sides(
    pieces: Pieces, groups: list[list[int]], p: int, leak: float, loose: bool
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """What the constant, and every row, is in the unknowns of ``_design``: its affine part, and its own."""
    k = pieces.y.shape[1]
    constant = np.zeros(((k + len(groups)) * p, k))
    constant[(p - 1) * k : p * k] = np.eye(k)
    affine, own = [], []
    for place, group in enumerate(groups):
        part, mine = np.zeros((len(constant), p)), np.zeros((len(constant), p))
        part[: p * k] = (1 + leak) / 2 * np.kron(np.eye(p), pieces.outputs[group[0]][:, None])
        mine[(k + place) * p : (k + place + 1) * p] = (1 - leak) / 2 * np.eye(p)
        affine.append(part)
        own.append(mine)
    for output in range(k if loose else 0):
        part = np.zeros((len(constant), p))
        part[: p * k] = np.kron(np.eye(p), np.eye(k)[:, [output]])
        affine.append(part)
        own.append(np.zeros_like(part))
    return constant, affine, own


def tell_last(
    pieces: Pieces, layer: Layer, groups: list[list[int]], loose: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sides of the units that fit, and their rows in the features, the best first.

    ``loose``: where a unit that never switches passes on what is linear, any sides do; its row is one more.
    """
    a, y = design_rows(pieces, layer, groups)
    p = len(layer.ways) + 1
    r = triangle(np.column_stack([a, y]))
    a, y = r[:, :-1], r[:, -1]
    constant, affine, own = with_sides(pieces, groups, p, layer.leak, loose)
    first, affine, own = a @ constant, [a @ part for part in affine], [a @ part for part in own]
    found: list[tuple[float, np.ndarray, np.ndarray]] = []
    n, count = len(affine), len(groups)
    tried = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    for signs in np.hstack([tried, np.ones((len(tried), n - count))]):
        design = np.hstack(
            [*[part + sign * mine for part, mine, sign in zip(affine, own, signs, strict=True)], first]
        )
        solution = _least(design, y)
        left = float(np.linalg.norm(y - design @ solution))
        if left <= FITS * np.sqrt(len(pieces.x)):
            found.append((left, signs, solution[: n * p].reshape(n, p)))
        full = loose and len(found) >= MOST_WAYS  # any sides fit, but for what they leave open
        if full or held().passed:
            break
    found.sort(key=lambda one: one[0] if not loose else 0.0)
    return [(signs, above) for _, signs, above in found[:MOST_WAYS]]


def solve_last(
    pieces: Pieces, layer: Layer, groups: list[list[int]], signs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the last layer with these sides, and the constant of the outputs.

    What is open in them is chosen such that every row has one sign on either side of its chains.
    """
    a, y = design_rows(pieces, layer, groups)
    n, p, count = len(signs), len(layer.ways) + 1, len(groups)
    constant, affine, own = with_sides(pieces, groups, p, layer.leak, n > count)
    turn = np.hstack(
        [*[part + sign * mine for part, mine, sign in zip(affine, own, signs, strict=True)], constant]
    )
    a = a @ turn
    scale = column_scale(a)
    u, s, vt = np.linalg.svd(a / scale, full_matrices=False)
    kept = s > RANK * s[0]
    solution = vt[kept].T @ ((u[:, kept].T @ y) / s[kept]) / scale
    null = vt[~kept].T / np.where(np.isfinite(scale), scale, np.median(scale))[:, None]
    rows, ways = solution[: n * p].reshape(n, p), null[: n * p].reshape(n, p, -1)
    toward = signs[:count] * positive_sides(pieces, layer, groups, signs, rows)

    def signed(x: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of all rows, positive on the side that is counted, and how open directions change them."""
        h, sides = layer(x), side_of(sides, groups) * toward
        turns = np.concatenate([sides[:, [unit]] * (h @ ways[unit]) for unit in range(count)])
        return (sides * (h @ rows[:count].T)).T.ravel(), turns

    every = [
        np.concatenate(pair)
        for pair in zip(signed(pieces.x, pieces.sides), signed(pieces.more, pieces.more_sides), strict=True)
    ]
    size, open_by = float(np.median(np.abs(every[0]))) + 1e-300, np.linalg.norm(every[1], axis=1)
    shown = open_by > ZERO * open_by.max(initial=0.0)
    values, turns, open_by = every[0][shown], every[1][shown], open_by[shown]
    taken, step = np.linspace(0, len(values) - 1, min(HELD, len(values))).astype(int), np.zeros(null.shape[1])
    for _ in range(PROGRAMS if len(values) else 0):
        wrong = np.flatnonzero(values + turns @ step < -ZERO * size)
        if not len(wrong):
            break
        taken = np.union1d(taken, wrong[:: 1 + len(wrong) // HELD])
        room = ROOM * size * open_by / float(np.median(open_by))
        step = keep((values - room)[taken], turns[taken], size)
    solution = solution + null @ step
    solution = solution * (np.std(pieces.y) + 1e-300)
    return solution[: n * p].reshape(n, p), solution[n * p :]


def positive_sides(
    pieces: Pieces, layer: Layer, groups: list[list[int]], signs: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The sign of every row where its unit is on."""
    count = len(groups)
    on = sides_of_units(pieces, groups) * signs[:count] > 0
    return np.where(np.sum((layer(pieces.x) @ rows[:count].T) * on, axis=0) < 0, -1.0, 1.0)


def _least(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    scale = column_scale(a)
    return np.linalg.lstsq(a / scale, y, rcond=RANK)[0] / scale


def triangle(a: np.ndarray) -> np.ndarray:
    """As good for least squares, in fewer rows."""
    return np.asarray(np.linalg.qr(a, mode="r"))


def column_scale(a: np.ndarray) -> np.ndarray:
    """Lengths of columns; without bound for those that are nothing but rounding."""
    size = np.linalg.norm(a, axis=0)
    return np.where(size > NOTHING * size.max(), size, np.inf)
