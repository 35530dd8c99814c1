"""The side each unit of a layer is active on, from what the answers say around corners of the layers below.

At a corner ``a = sum_u c_u r_u``, c zero exactly for inactive units: one corner tells all sides. Where it knows fewer
directions than there are units, the sparsest solution is taken if it is unique. A corner that no choice of active units
explains has one active that is missing among the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np

from unweave.methods.relu.deep.corners import Corner, Corners

MAX_SUBSETS = 8_500
MAX_SEARCHES = 8
"""Corners at which the sparsest solution is looked for."""
MAX_MISSING = 7
FEWEST_IDLE = 4
"""Corners, on both sides of a unit, at which it has to be idle to be none of the layer."""
FEWEST_FULL = 4
"""Corners with every unit active that tell a leak."""


@dataclass(frozen=True)
class Sides:
    """What corners said of the sides of a layer's units."""

    votes: np.ndarray
    """(units, 2): for the negative and for the positive side."""
    spoke: list[Corner]
    """Corners that told active units from inactive ones."""
    failed: list[Corner]
    """Corners whose answers no choice of active units explains: a unit that is not among them is active there."""
    num_full: int = 0
    """Corners at which every unit is active."""
    times_on: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    """At how many of the corners that spoke each unit is active."""

    @property
    def is_leaky(self) -> bool:
        """Whether no unit is ever inactive: they leak."""
        return self.num_full >= max(FEWEST_FULL, 0.9 * (len(self.spoke) + len(self.failed)))

    @property
    def settled(self) -> bool:
        return bool(self.spoke) and bool(np.all(self.votes.sum(axis=1) > 0)) and not self.clashes.any()

    @property
    def clashes(self) -> np.ndarray:
        return self.votes.min(axis=1) > 0

    @property
    def idle(self) -> np.ndarray:
        """Units that the answers need on neither side: facets of units farther above are rows of this layer as well."""
        return self.clashes & (self.votes.sum(axis=1) >= FEWEST_IDLE) & (self.times_on == 0)

    def signs(self) -> np.ndarray:
        return np.where(self.votes[:, 1] > self.votes[:, 0], 1.0, -1.0)


def vote_sides(corners: Corners, units: np.ndarray, seen: np.ndarray, *, num_wanted: int = 5) -> Sides:
    """Sides of the units from all corners asked, and from more of them until ``num_wanted`` have told anything.

    A feature with an entry that is not seen joins as a unit of its own: its coefficient takes up what is missing.
    """
    open_features = np.flatnonzero(~seen[:, :-1].all(axis=0))
    rows = np.vstack([np.where(seen, units, 0.0), np.eye(units.shape[1])[open_features]])
    sides = _count(corners.asked, units, rows, seen, open_features)
    for _ in range(2):
        short = num_wanted - len(sides.spoke) - len(sides.failed)
        if short <= 0 or not corners.add(short, rows, least=max(len(rows) - MAX_MISSING, 1)):
            break
        sides = _count(corners.asked, units, rows, seen, open_features)
    return sides


def _count(
    corners: list[Corner], units: np.ndarray, rows: np.ndarray, seen: np.ndarray, open_features: np.ndarray
) -> Sides:
    votes, spoke, failed = np.zeros((len(units), 2), dtype=int), [], []
    dense: list[tuple[Corner, np.ndarray]] = []
    num_searches = num_full = 0
    times_on = np.zeros(len(units), dtype=int)
    for corner in corners:
        moves = np.append(np.ones(len(units), dtype=bool), corner.moving[open_features])
        outcome = read_pattern(corner, rows[moves], search=num_searches < MAX_SEARCHES)
        num_searches += outcome is None or outcome[1] is None
        if outcome is None:
            continue
        if not len(outcome[0]):
            failed.append(corner)
            continue
        on, solution = np.zeros(len(rows), dtype=bool), None
        on[moves] = outcome[0]
        if outcome[1] is not None:
            solution = np.zeros((len(rows), outcome[1].shape[1]))
            solution[moves] = outcome[1]
        full = bool(on[moves].all())
        num_full += full
        h = corner.features
        z = units[:, :-1] @ h + units[:, -1]
        if (
            full and moves.sum() >= corner.basis.shape[1]
        ):  # all active, or one that is missing makes it look so
            dense.append((corner, z))
            continue
        told = np.flatnonzero(~np.any((np.abs(h) > 1e-12) & ~seen[:, :-1], axis=1))
        positive = np.where(on[: len(units)], z > 0, z <= 0).astype(int)
        votes[told, positive[told]] += 1
        spoke.append(corner)
        times_on += on[: len(units)]
        if solution is None:
            continue
        dark = np.zeros(
            (len(units), 2)
        )  # what entries that are read here add to an argument, and how many of them
        for place, feature in enumerate(open_features):
            takers = np.flatnonzero(on[: len(units)] & ~seen[:, feature])
            if len(takers) == 1 and corner.moving[feature]:
                own, whole = solution[takers[0]], solution[len(units) + place]
                value = float(own @ whole / (own @ own))
                dark[takers[0]] += value * h[feature], np.abs(h[feature]) > 1e-12
        num_dark = np.sum((np.abs(h) > 1e-12) & ~seen[:, :-1], axis=1)
        for unit in np.flatnonzero(
            (num_dark > 0) & (num_dark == dark[:, 1])
        ):  # it is on: its argument is positive
            votes[
                unit,
                int((np.where(seen[unit], units[unit], 0.0)[:-1] @ h + units[unit, -1] + dark[unit, 0]) > 0),
            ] += 1
    for corner, z in dense:
        agrees = spoke and np.all((votes[:, 1] > votes[:, 0]) == (z > 0))
        (spoke if agrees else failed).append(corner)
    return Sides(votes, spoke, failed, num_full, times_on)


def read_pattern(
    corner: Corner, rows: np.ndarray, search: bool = True
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Which units are active at a corner (none listed: no choice explains it), with coefficients; None: not told."""
    system = corner.basis.T @ rows[:, :-1].T
    weight = corner.errors.min() / corner.errors
    u, s, vt = np.linalg.svd(system * weight[:, None], full_matrices=True)
    noise = float(corner.errors.min())
    rank = int(np.sum(s > 1e-5 * s[0]))
    target = corner.slopes * weight[:, None]
    solution = vt[:rank].T @ ((u[:, :rank].T @ target) / s[:rank, None])
    if np.max(np.abs(system * weight[:, None] @ solution - target)) > 100 * noise:
        return np.zeros(0, dtype=bool), None
    level = 100 * noise / s[rank - 1]
    if np.max(np.abs(solution)) < 10 * level:
        return None
    if rank == len(rows):
        size = np.linalg.norm(solution, axis=1)
        return size > max(level, 1e-6 * size.max()), solution
    missing = len(rows) - rank
    if not search or missing > MAX_MISSING or comb(len(rows), missing) > MAX_SUBSETS:
        return None
    pattern = _sparsest(solution, vt[rank:].T, level)
    return None if pattern is None else (pattern, None)


def _sparsest(solution: np.ndarray, null: np.ndarray, level: float):
    """Which entries of ``solution + null t`` are not zero when as many as possible are; None if that is not unique."""
    n, m = null.shape
    subsets = np.array(list(combinations(range(n), m)))
    blocks = null[subsets]
    fine = np.abs(np.linalg.det(blocks)) > 1e-5**m
    subsets, blocks = subsets[fine], blocks[fine]
    if not len(subsets):
        return None
    t = np.linalg.solve(blocks, solution[subsets])
    all_solutions = solution[None] - null[None] @ t
    size = np.linalg.norm(all_solutions, axis=2)
    cut = np.maximum(10 * level, 1e-5 * size.max(axis=1))
    zeros = np.sum(size < cut[:, None], axis=1)
    most = zeros.max()
    if most < m + 2:
        return None
    patterns = np.unique(size[zeros == most] >= cut[zeros == most, None], axis=0)
    return patterns[0] if len(patterns) == 1 else None
