"""A network from its kinks with the layers, sides and carried forms that were chosen: row after row by least squares.

A row has to give what its unit is where it is on, and nothing above zero elsewhere, which what is open of it is turned
to by linear programs.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.deep.kinks import Kinks
from unweave.methods.relu.deep.levels import Level
from unweave.methods.relu.deep.tracks import keep_signs

SAME = 1e-9
"""How far the network may be from the one it is to be, relative to the spread of the outputs."""
FLAT = 1e-10
"""Singular values below this share of the largest are zero."""
PROGRAMS, HELD = 8, 400
"""Linear programs that keep a unit off where it is not on, and points that the next one takes in."""


def build(kinks: Kinks, levels: list[Level], names) -> Network | None:
    """The network with these levels; None where the units of a layer do not give what is wanted above."""
    features, h = kinks.features, kinks.x
    weights, biases = [], []
    for level in levels:
        base = np.hstack([h, np.ones((len(h), 1))])
        rows = []
        for j, side in zip(level.kinks, level.sides, strict=True):
            row = fit_row(base, side * kinks.z[:, j], kinks.region(int(j), side))
            if row is None:
                return None
            rows.append(row)
        every = np.ones(len(h), dtype=bool)
        for form in level.carried:
            value = features @ form
            row = fit_row(base, value, every)
            if row is None:
                return None
            row[-1] += 1.0 * max(np.ptp(value), 1e-3) - value.min()
            rows.append(row)
        rows = np.array(rows)
        z = base @ rows.T
        weights.append(rows[:, :-1])
        biases.append(rows[:, -1])
        h = np.maximum(z, kinks.leak * z)
    y = features @ kinks.outputs.T
    base = np.hstack([h, np.ones((len(h), 1))])
    top = least(base, y)[0]
    if np.max(np.abs(base @ top - y)) > SAME * np.std(y):
        return None
    weights.append(top[:-1].T)
    biases.append(top[-1])
    return Network(weights, biases, [*names[: len(levels)], "identity"])


def least(base: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares, and the directions (p, n) that are open in it."""
    p, y = base.shape[1], y.reshape(len(base), -1)
    scale = np.linalg.norm(base, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    both = np.vstack([np.hstack([base / scale, y]), np.zeros((p, p + y.shape[1]))])
    r = np.asarray(np.linalg.qr(both, mode="r"))
    u, s, vt = np.linalg.svd(r[:p, :p])
    kept = s > FLAT * max(s[0], 1e-300)
    solution = vt[kept].T @ ((u[:, kept].T @ r[:p, p:]) / s[kept][:, None]) / scale[:, None]
    return solution, vt[~kept].T / scale[:, None]


def fit_row(base: np.ndarray, z: np.ndarray, region: np.ndarray) -> np.ndarray | None:
    """The row with these values in a region and none above zero elsewhere; None where there is none."""
    solution, null = least(base[region], z[region])
    row = solution[:, 0]
    size = float(np.max(np.abs(z)))
    if np.max(np.abs(base[region] @ row - z[region])) > SAME * size:
        return None
    off = np.flatnonzero(~region)
    wrong = off[base[off] @ row > SAME * size]
    taken = off[:: 1 + len(off) // HELD]
    for _ in range(PROGRAMS):
        if not len(wrong):
            return row
        if not null.shape[1]:
            return None
        taken = np.union1d(taken, wrong[:: 1 + len(wrong) // HELD])
        row = keep_signs(row, null, base[taken], -np.ones(len(taken)), np.ones(len(taken)), room=0.1)
        wrong = off[base[off] @ row > SAME * size]
    return None
