"""Corners of the known layers: points around which their features move in many directions.

At a random point the features move in as many directions as units are active, or as there are inputs. Where inactive
units are brought to their borders, each adds a direction of its own. Offline.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.extremes import spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool

RANK = 1e-5
"""Directions in which the rows move by less than this share of the largest do not count."""


def find_corners(
    known: Known, rows: np.ndarray, pool: Pool, num_starts: int = 48, near: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points around which the features move in most directions, best first.

    Where, in how many directions, the room, and whether all features that move at all move independently.

    ``rows``: units (weights, bias) whose zero sets they keep off. ``near``: points around which to begin.
    """
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, known.input_size
    x = spread_points(domain, num_starts, d, rng, 0.6)
    if near is not None and len(near):
        x = near[rng.integers(len(near), size=num_starts)]
        size = np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(d) + 0.05
        x = x + size * rng.uniform(0.1, 0.8, size=(num_starts, 1)) * rng.standard_normal(x.shape)
    if known.depth:
        x = _descend_to_corners(known, x, rng)
    good = np.all(np.isfinite(x), axis=1) & domain.contains(np.where(np.isfinite(x), x, 0.0))
    x = x[good]
    room = room_around(known, rows, x)
    moves = rng.standard_normal((3 * known.width + 40, d))
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    eps = 1e-2 * np.minimum(room, 1 + np.linalg.norm(x, axis=1))
    there = x[:, None] + eps[:, None, None] * moves
    rise = known.features(there.reshape(-1, d)).reshape(len(x), len(moves), -1) - known.features(x)[:, None]
    s = np.linalg.svd(rise / np.maximum(eps, 1e-300)[:, None, None], compute_uv=False)
    rank = np.sum(s > RANK * np.maximum(s[:, :1], 1e-300), axis=1)
    rank[eps <= 1e-9] = 0
    if any(known.open_entries):
        rank[known.is_unsure(there.reshape(-1, d)).reshape(len(x), -1).any(axis=1)] = 0
    free = rank == np.sum(np.max(np.abs(rise), axis=1) > 0, axis=1)
    least = s[np.arange(len(x)), np.maximum(rank - 1, 0)]
    order = np.lexsort((-np.minimum(least, 1.0) * np.minimum(room, 1.0), -rank))
    return x[order], rank[order], room[order], free[order]


def _descend_to_corners(known: Known, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bring inactive units to zero one after the other, those already there kept at zero; the last layer's first."""
    num, d = x.shape
    widths = [len(b) for b in known.biases]
    total = sum(widths)
    layer_of = np.repeat(np.arange(known.depth), widths)
    chosen, blocked = np.zeros((num, total), dtype=bool), np.zeros((num, total), dtype=bool)
    jitter = rng.uniform(0.5, 1.5, size=(num, total)) * np.where(layer_of == known.depth - 1, 1.0, 3.0)
    limit = 30 * (1 + np.linalg.norm(x, axis=1))
    for _ in range(d + 4):
        z, g = _stacked(known, x)
        size = np.linalg.norm(g, axis=2)
        off = (z < -1e-9) & (size > 1e-6) & ~chosen & ~blocked & (chosen.sum(axis=1) < d)[:, None]
        apart = np.where(off, np.abs(z) / np.maximum(size, 1e-300) * jitter, np.inf)
        pick = np.argmin(apart, axis=1)
        can = np.isfinite(apart[np.arange(num), pick])
        if not can.any():
            break
        trial = chosen.copy()
        trial[np.flatnonzero(can), pick[can]] = True
        there, ok = _newton(known, x, trial)
        ok &= can & (np.linalg.norm(there, axis=1) < limit)
        x = np.where(ok[:, None], there, x)
        chosen[ok] = trial[ok]
        blocked[np.flatnonzero(can & ~ok), pick[can & ~ok]] = True
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
