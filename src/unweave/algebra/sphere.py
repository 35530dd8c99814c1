"""All sign vectors s in {-1, +1}^m with ``|A s - b|^2`` near its least value: a depth-first sphere decoder.

With ``A = Q R`` the distance is a sum over rows of the triangle, so signs are fixed from the last to the first and
a branch ends when its partial sum exceeds the radius (Fincke and Pohst 1985). Columns are ordered so that those that
say most come first. More unknowns than equations are allowed: a tiny multiple of the identity below A changes every
distance by the same amount.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg


@dataclass(frozen=True)
class SignChoices:
    """Sign vectors (rows) with their squared distances, nearest first; ``complete`` unless the search was cut short."""

    signs: np.ndarray
    distances: np.ndarray
    complete: bool


def nearest_signs(
    matrix: np.ndarray, target: np.ndarray, *, within: float, max_nodes: int = 200_000
) -> SignChoices:
    """Every s whose ``|matrix @ s - target|^2`` is at most ``within`` above the least, up to ``max_nodes`` branches."""
    m = matrix.shape[1]
    small = 1e-7 * max(float(np.linalg.norm(matrix, 2)), 1e-300)
    stacked = np.vstack([matrix, small * np.eye(m)])
    factors: Any = scipy.linalg.qr(stacked, mode="economic", pivoting=True)
    q, r, order = factors
    padded = np.concatenate([target, np.zeros(m)])
    right = q.T @ padded
    rest = float(padded @ padded - right @ right)
    found: list[tuple[float, np.ndarray]] = []
    best = _rounded(r, right)
    radius = float(np.sum((r @ best - right) ** 2)) + within
    nodes = 0
    stack: list[tuple[int, float, np.ndarray]] = [(m - 1, 0.0, np.zeros(m))]
    while stack and nodes < max_nodes:
        level, distance, signs = stack.pop()
        nodes += 1
        if distance > radius:
            continue
        if level < 0:
            found.append((distance, signs))
            radius = min(radius, distance + within)
            continue
        centre = right[level] - r[level, level + 1 :] @ signs[level + 1 :]
        towards = 1.0 if centre * r[level, level] >= 0 else -1.0
        for sign in (-towards, towards):  # the nearer one is looked at first
            after = distance + float((centre - r[level, level] * sign) ** 2)
            if after <= radius:
                chosen = signs.copy()
                chosen[level] = sign
                stack.append((level - 1, after, chosen))
    found = sorted((pair for pair in found if pair[0] <= radius), key=lambda pair: pair[0])
    signs = np.zeros((len(found), m))
    if found:
        signs[:, order] = np.array([s for _, s in found])
    distances = np.array([distance for distance, _ in found]) + max(rest, 0.0)
    return SignChoices(signs, distances, not stack)


def _rounded(r: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Successive rounding: a first sign vector for the radius."""
    signs = np.zeros(len(right))
    for level in range(len(right) - 1, -1, -1):
        centre = right[level] - r[level, level + 1 :] @ signs[level + 1 :]
        signs[level] = 1.0 if centre * r[level, level] >= 0 else -1.0
    return signs
