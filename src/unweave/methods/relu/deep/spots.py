"""The side each unit of a layer is active on, from answers around corners of the layers below.

Near a point the answers are ``c . (W h)`` plus a constant, h the known features, until a unit of the layer or above
switches; c is zero exactly for inactive units. At a random point the features move in few directions; at a corner,
where inactive units below are brought to their borders, they move in many: then c follows by least squares, and one
corner tells all sides. Where directions are still missing, the sparsest solution is taken if it is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from unweave.methods.relu.deep.extremes import spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool

MAX_SUBSETS = 20_000
RANK = 1e-5
"""Directions in which the rows move by less than this share of the largest do not count."""
MODEL = 1e-9
"""Relative error to expect of what the rows found predict."""


def find_corners(
    known: Known, rows: np.ndarray, pool: Pool, num_starts: int = 48, away_from: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Points around which ``rows @ (h, 1)`` moves in most directions, best first, and in how many.

    They keep off the zero sets of ``away_from``, of the rows themselves where that is not given.
    """
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, known.input_size
    x = spread_points(domain, num_starts, d, rng, 0.6)
    if known.depth:
        x = _descend_to_corners(known, x, rng)
    good = np.all(np.isfinite(x), axis=1) & domain.contains(np.where(np.isfinite(x), x, 0.0))
    x = x[good]
    room = room_around(known, rows if away_from is None else away_from, x)
    moves = rng.standard_normal((6 * rows.shape[1] + 40, d))
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    rank, least = np.zeros(len(x), dtype=int), np.zeros(len(x))
    for i, point in enumerate(x):
        eps = 1e-2 * room[i]
        if not eps > 1e-9:
            continue
        rise = (known.features(point + eps * moves) - known.features(point[None])) @ rows[:, :-1].T / eps
        s = np.linalg.svd(rise, compute_uv=False)
        rank[i] = int(np.sum(s > RANK * s[0])) if s[0] > 0 else 0
        least[i] = s[rank[i] - 1] if rank[i] else 0.0
    order = np.lexsort((-np.minimum(least, 1.0) * np.minimum(room, 1.0), -rank))
    return x[order], rank[order]


def _descend_to_corners(known: Known, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bring inactive units to zero one after the other, those already there kept at zero."""
    num, d = x.shape
    widths = [len(b) for b in known.biases]
    total = sum(widths)
    layer_of = np.repeat(np.arange(known.depth), widths)
    chosen = np.zeros((num, total), dtype=bool)
    alive = np.ones(num, dtype=bool)
    jitter = rng.uniform(0.5, 1.5, size=(num, total)) * np.where(layer_of == known.depth - 1, 1.0, 1.5)
    limit = 30 * (1 + np.linalg.norm(x, axis=1))
    for _ in range(d):
        z, g = _stacked(known, x)
        size = np.linalg.norm(g, axis=2)
        apart = np.where(
            (z < -1e-9) & (size > 1e-6) & ~chosen, np.abs(z) / np.maximum(size, 1e-300) * jitter, np.inf
        )
        pick = np.argmin(apart, axis=1)
        can = alive & np.isfinite(apart[np.arange(num), pick])
        if not can.any():
            break
        trial = chosen.copy()
        trial[np.flatnonzero(can), pick[can]] = True
        there, ok = _newton(known, x, trial)
        ok &= can & (np.linalg.norm(there, axis=1) < limit)
        x = np.where(ok[:, None], there, x)
        chosen[ok] = trial[ok]
        alive &= ok
    return x


def _newton(known: Known, x: np.ndarray, chosen: np.ndarray, num_steps: int = 6):
    """Common zeros of the chosen arguments."""
    d = x.shape[1]
    for _ in range(num_steps):
        z, g = _stacked(known, x)
        z, g = z * chosen, g * chosen[:, :, None]
        gram = np.einsum("nui,nuj->nij", g, g)
        scale = np.trace(gram, axis1=1, axis2=2) / d + 1e-300
        # the shortest step, by a pseudo-inverse: fewer borders than inputs
        inverse = np.linalg.pinv(
            np.where(np.isfinite(gram), gram, 0.0) / scale[:, None, None], rcond=1e-10, hermitian=True
        )
        step = np.einsum("nij,nuj,nu->ni", inverse, g, z) / scale[:, None]
        x = x - np.where(np.isfinite(step), step, 0.0)
    z, g = _stacked(known, x)
    close = np.max(np.abs(z) * chosen / np.maximum(np.linalg.norm(g, axis=2), 1e-300), axis=1)
    return x, close < 1e-10 * (1 + np.linalg.norm(x, axis=1))


def _stacked(known: Known, x: np.ndarray):
    zs, gs = known.gradients(x)
    return np.concatenate(zs, axis=1), np.concatenate(gs, axis=1)


def room_around(known: Known, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Distance of each x from the nearest zero set of ``rows``, by a bound on how fast they move."""
    z = np.abs(known.features(x) @ rows[:, :-1].T + rows[:, -1])
    speed = np.linalg.norm(rows[:, :-1], axis=1)
    for w in known.weights[::-1]:
        speed = speed * np.linalg.norm(w, 2)
    return np.min(z / np.maximum(speed, 1e-300), axis=1, initial=np.inf)


@dataclass(frozen=True)
class Sides:
    """What corners said of the sides of a layer's units."""

    votes: np.ndarray
    """(units, 2): for the negative and for the positive side."""
    spoke: np.ndarray
    """Corners that told active units from inactive ones."""
    failed: np.ndarray
    """Corners whose answers no choice of active units explains: a unit that is not among them is active there."""
    entries: dict[tuple[int, int], list[float]]
    """(unit, feature): values of entries that were not seen, one a corner."""

    @property
    def settled(self) -> bool:
        return bool(len(self.spoke)) and bool(np.all(self.votes.sum(axis=1) > 0)) and not self.clashes.any()

    @property
    def clashes(self) -> np.ndarray:
        return self.votes.min(axis=1) > 0

    def signs(self) -> np.ndarray:
        return np.where(self.votes[:, 1] > self.votes[:, 0], 1.0, -1.0)


def vote_sides(
    pool: Pool,
    known: Known,
    units: np.ndarray,
    seen: np.ndarray,
    *,
    num_wanted: int = 5,
    max_missing: int = 7,
) -> Sides:
    """Sides of the units from corners that move them in most directions, ``num_wanted`` of them.

    A feature with an entry that is not seen joins as a unit of its own: its coefficient takes up what is missing.
    """
    open_features = np.flatnonzero(~seen[:, :-1].all(axis=0))
    rows = np.vstack([np.where(seen, units, 0.0), np.eye(units.shape[1])[open_features]])
    n, rng = len(rows), pool.rng
    votes, spoke, failed, tried = np.zeros((len(units), 2), dtype=int), [], [], 0
    entries: dict[tuple[int, int], list[float]] = {}
    dense: list[tuple[np.ndarray, np.ndarray]] = []
    x, ranks = find_corners(known, rows, pool)
    room = room_around(known, rows, x) if len(x) else np.zeros(0)
    for i in range(len(x)):
        if (
            len(spoke) + len(failed) + len(dense) >= num_wanted
            or tried >= 3 * num_wanted
            or n - ranks[i] > max_missing
        ):
            break
        if ranks[i] == 0 or comb(n, n - ranks[i]) > MAX_SUBSETS:
            break
        tried += 1
        outcome = read_corner(pool, known, rows, x[i], ranks[i], room[i], rng)
        if outcome is None:
            continue
        on, solution = outcome
        if not len(on):
            failed.append(x[i])
            continue
        h = known.features(x[i][None])
        z = (h @ rows[:, :-1].T + rows[:, -1])[0, : len(units)]
        if on.all() and n >= known.width:  # all active, or one that is missing makes it look so
            dense.append((x[i], z))
            continue
        told = np.flatnonzero(~np.any((np.abs(h) > 1e-12) & ~seen[:, :-1], axis=1))
        positive = np.where(on[: len(units)], z > 0, z <= 0).astype(int)
        votes[told, positive[told]] += 1
        spoke.append(x[i])
        if solution is not None:
            for place, feature in enumerate(open_features):
                takers = np.flatnonzero(on[: len(units)] & ~seen[:, feature])
                if len(takers) == 1:
                    own, whole = solution[takers[0]], solution[len(units) + place]
                    value = float(own @ whole / (own @ own))
                    entries.setdefault((int(takers[0]), int(feature)), []).append(value)
    for point, z in dense:
        agrees = spoke and np.all((votes[:, 1] > votes[:, 0]) == (z > 0))
        (spoke if agrees else failed).append(point)
    d = known.input_size
    return Sides(votes, np.array(spoke).reshape(-1, d), np.array(failed).reshape(-1, d), entries)


def read_corner(pool: Pool, known: Known, rows: np.ndarray, x: np.ndarray, rank: int, room: float, rng):
    """Which units are active at a corner (none listed: answers contradict) with their coefficients; None: not told."""
    n, d = len(rows), known.input_size
    start = min(0.5 * room, 0.05 * (1 + np.linalg.norm(x)))
    for shrink in (1.0, 0.1, 0.01):
        eps, best = start * shrink, None
        for _ in range(12):
            moves = rng.standard_normal((n + 6, d))
            moves *= eps / np.linalg.norm(moves, axis=1, keepdims=True)
            rise = (known.features(x + moves) - known.features(x[None])) @ rows[:, :-1].T
            s = np.linalg.svd(rise, compute_uv=False)
            if best is None or s[rank - 1] > best[0]:
                best = (s[rank - 1], moves, rise)
        assert best is not None
        least, moves, rise = best
        if least < 1e-6 * eps:
            return None
        points = np.concatenate([x[None], x + moves])
        if not np.all(pool.inquiry.meter.domain.contains(points)):
            return None
        answers, bars = pool.inquiry.ask(points)
        y = answers[1:] - answers[0]
        noise = 4 * float(bars.max()) + MODEL * float(np.max(np.abs(y)))
        u, s, vt = np.linalg.svd(rise, full_matrices=True)
        r = int(np.sum(s > RANK * s[0]))
        if r != rank:
            return None
        solution = vt[:r].T @ ((u[:, :r].T @ y) / s[:r, None])
        if np.max(np.abs(rise @ solution - y)) > 20 * noise:
            continue
        level = 100 * noise / s[r - 1]
        if np.max(np.abs(solution)) < 10 * level:
            return None
        if r == n:
            size = np.linalg.norm(solution, axis=1)
            return size > max(level, 1e-6 * size.max()), solution
        pattern = _sparsest(solution, vt[r:].T, level)
        return None if pattern is None else (pattern, None)
    return np.zeros(0, dtype=bool), None


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
