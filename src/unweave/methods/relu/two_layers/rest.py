"""The sides of second-layer units, and what they leave over that is linear in the first layer's features.

Sides add up to a matrix (planes, outputs) that the answers give. What no sides explain is a *rest*: of units that are
always active, or of weights that are not known yet.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.signs import SignSolution, solve_signs
from unweave.probes.inquiry import SAFETY

MOST_TURNS = 20
BESIDE = 1e-4
"""Distance from a direction, in the size of the unit's own part, at which a unit agrees with it."""
MOST_DEPENDENT = 1e8
SINGLE = 1e-5
"""Second singular value of a rest, relative to the first, that is one unit's."""


def tolerant_signs(vectors: np.ndarray, target: np.ndarray, spread: float) -> tuple[SignSolution, float]:
    """Signs at the tightest tolerance that gives any; the weights may be wrong in later digits before refinement."""
    size = float(np.max(np.abs(vectors), initial=1e-300))
    for relative in (1e-9, 1e-7, 1e-5):
        found = solve_signs(vectors, target, SAFETY * max(spread, relative * size))
        if found.signs is not None:
            break
    return found, SAFETY * max(spread, 1e-8 * size)


def signs_with_rest(
    vectors: np.ndarray, tilt: np.ndarray, error: float, shown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Signs for which what is left could come from units that are always active: weights of one sign an output."""
    num = len(vectors)
    best, best_score = np.ones(num), np.inf
    single = _signs_with_single(vectors[:, np.repeat(shown, tilt.shape[1])], tilt[shown], error)
    if single is not None:
        best = single
    elif 0 < num <= 16:
        codes = 1.0 - 2.0 * ((np.arange(1 << num)[:, None] >> np.arange(num)) & 1)
        for chunk in np.array_split(codes, max(1, len(codes) // 1024)):
            rest = (tilt.ravel() - chunk @ vectors).reshape(len(chunk), *tilt.shape)
            mixed = np.minimum(np.sum(np.maximum(rest, 0), axis=1), np.sum(np.maximum(-rest, 0), axis=1)).sum(
                axis=1
            )
            total = np.sum(np.abs(rest), axis=(1, 2))
            score = mixed + 1e-6 * total
            if score.min() < best_score:
                best, best_score = chunk[int(np.argmin(score))], float(score.min())
    elif num:
        best = np.where(np.linalg.lstsq(vectors.T, tilt.ravel(), rcond=None)[0] < 0, -1.0, 1.0)
    rest = (tilt.ravel() - best @ vectors).reshape(tilt.shape)
    return best, significant(rest, error)


def _signs_with_single(vectors: np.ndarray, tilt: np.ndarray, error: float) -> np.ndarray | None:
    """Signs for which what is left is one unit's that is always active: they and that unit are fitted in turn."""
    if not len(vectors) or tilt.shape[1] == 1:
        return None
    signs = _signs_beside(vectors, tilt)
    if signs is not None and single_row(_left_by(signs, vectors, tilt, error)) is not None:
        return signs
    part = np.zeros_like(tilt)
    for _ in range(MOST_TURNS):
        signs = np.where(np.linalg.lstsq(vectors.T, (tilt - part).ravel(), rcond=None)[0] < 0, -1.0, 1.0)
        rest = _left_by(signs, vectors, tilt, error)
        if single_row(rest) is not None:
            return signs
        left, values, right = np.linalg.svd(rest, full_matrices=False)
        part = values[0] * np.outer(left[:, 0], right[0])
    return None


def _signs_beside(vectors: np.ndarray, tilt: np.ndarray) -> np.ndarray | None:
    """Signs where the units' rows are independent, from the output direction of one further unit.

    ``tilt = sum_l s_l B_l c_l' + r o'``: with the coefficients G of tilt in the rows B_l every ``G_l - s_l c_l`` is
    parallel to o. Each unit proposes two directions, one for either sign; the one on which most agree is o.
    """
    shaped = vectors.reshape(-1, *tilt.shape)
    left, sizes, right = np.linalg.svd(shaped, full_matrices=False)
    rows, outputs = left[:, :, 0], sizes[:, :1] * right[:, 0]
    if len(rows) > tilt.shape[0] or np.linalg.cond(rows) > MOST_DEPENDENT:
        return None
    parts = np.linalg.lstsq(rows.T, tilt, rcond=None)[0]
    moved = parts - np.array([1.0, -1.0])[:, None, None] * outputs  # (signs, units, outputs)
    length = np.linalg.norm(moved, axis=2)
    proposed = (moved / np.maximum(length, 1e-300)[:, :, None])[length > BESIDE * sizes[:, 0]]
    aside = np.sqrt(np.maximum(length[None] ** 2 - np.einsum("plk,qk->qpl", moved, proposed) ** 2, 0.0))
    apart = np.min(aside, axis=1) / sizes[:, 0]
    best = int(np.argmax(np.sum(apart < BESIDE, axis=1)))
    return np.where(aside[best, 0] <= aside[best, 1], 1.0, -1.0)


def _left_by(signs: np.ndarray, vectors: np.ndarray, tilt: np.ndarray, error: float) -> np.ndarray:
    return significant(tilt - (signs @ vectors).reshape(tilt.shape), error)


def significant(rest: np.ndarray, error: float) -> np.ndarray:
    return np.where(np.abs(rest) > error, rest, 0.0)


def single_row(rest: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Row over the first layer and output weights, of length one, whose product ``rest`` is, if it is of one unit."""
    if not rest.any():
        return None
    left, values, right = np.linalg.svd(rest, full_matrices=False)
    if np.any(values[1:] > SINGLE * values[0]):
        return None
    return np.where(rest.any(axis=1), values[0] * left[:, 0], 0.0), right[0]
