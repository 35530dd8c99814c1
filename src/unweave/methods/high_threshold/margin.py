"""Halfspaces of a union to the resolution of the labels: one max-margin linear program a halfspace, then a centre.

Given a union known to about a hundredth, the active rows that lie outside all other halfspaces must lie inside this
one, and all silent rows outside it. Of all halfspaces with that property the one with the largest margin is taken;
rows far from the boundary enter as constraints only when they are violated. From there the mean of all halfspaces with
that property is found by sampling (``centre``). Without wrong labels the error is about
``d / (N n(t))``, n the normal density: it falls with the number of rows N, not with its root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from unweave.methods.high_threshold.centre import find_centre
from unweave.methods.high_threshold.union import Union, score_batches

CLEAR = 0.1
"""Active rows whose other scores are below minus this belong to one halfspace, whatever the error of the start."""
NEAR = 0.5
"""Rows further than this from the boundary are not looked at."""


@dataclass(frozen=True)
class Margins:
    """The refined union with each halfspace's margin: negative where no halfspace separates the rows."""

    union: Union
    margins: np.ndarray
    num_own: np.ndarray
    """Active rows that belong to each halfspace alone."""


def fit_margins(
    x: np.ndarray,
    labels: np.ndarray,
    union: Union,
    *,
    clear: float | np.ndarray = CLEAR,
    rng: np.random.Generator | None = None,
) -> Margins:
    """The max-margin halfspaces near those of ``union``; one that fails keeps its start.

    ``clear``, one number or one a halfspace, is how far a row may be scored on the wrong side of a halfspace.
    With ``rng`` each is replaced by the centre of all halfspaces that separate the same rows.
    """
    silent, own, count = _relevant_rows(x, labels, union, clear)
    normals, offsets = union.normals.copy(), union.offsets.copy()
    margins = np.full(len(union), -np.inf)
    for i in range(len(union)):
        if len(own[i]) and len(silent[i]):
            found = separate(x[silent[i]], x[own[i]], normals[i], float(offsets[i]))
            if found is not None:
                normals[i], offsets[i], margins[i] = found
            if rng is not None and margins[i] > 0:
                centre = find_centre(x[silent[i]], x[own[i]], normals[i], float(offsets[i]), rng)
                normals[i], offsets[i] = centre or (normals[i], offsets[i])
    return Margins(Union(normals, offsets), margins, count)


def separate(
    outside: np.ndarray, inside: np.ndarray, normal: np.ndarray, offset: float, *, max_rounds: int = 15
) -> tuple[np.ndarray, float, float] | None:
    """Normal, offset and margin of the widest strip between two sets of rows, from a halfspace close to it.

    The unknown is the change of (normal, offset), the normal's within its tangent space; rows are added to the
    program as they are violated. None when the solver finds nothing.
    """
    d = len(normal)
    turned, moved, margin = normal, offset, 0.0
    low, high = outside @ normal - offset, inside @ normal - offset
    below, above = _extreme(-low, 8 * d), _extreme(high, 8 * d)
    for _ in range(max_rounds):
        table = np.concatenate(
            [
                np.column_stack([outside[below], -np.ones(len(below)), np.ones(len(below))]),
                np.column_stack([-inside[above], np.ones(len(above)), np.ones(len(above))]),
            ]
        )
        found = linprog(
            np.append(np.zeros(d + 1), -1.0),
            A_ub=table,
            b_ub=np.concatenate([-low[below], high[above]]),
            A_eq=np.append(normal, [0.0, 0.0])[None],
            b_eq=[0.0],
            bounds=[(-NEAR, NEAR)] * (d + 1) + [(None, None)],
            method="highs",
        )
        if found.x is None:
            return None
        turned, moved, margin = normal + found.x[:d], offset + float(found.x[d]), float(found.x[-1])
        too_high = np.flatnonzero(outside @ turned - moved > 1e-12 - margin)
        too_low = np.flatnonzero(inside @ turned - moved < margin - 1e-12)
        if not (len(np.setdiff1d(too_high, below)) or len(np.setdiff1d(too_low, above))):
            break
        below = np.union1d(below, too_high[_extreme(-(outside[too_high] @ turned), 4 * d)])
        above = np.union1d(above, too_low[_extreme(inside[too_low] @ turned, 4 * d)])
    length = float(np.linalg.norm(turned))
    return turned / length, moved / length, margin / length


def _extreme(values: np.ndarray, count: int) -> np.ndarray:
    """Places of the ``count`` smallest values."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.argpartition(values, count)[:count]


def _relevant_rows(x, labels, union: Union, clear: float | np.ndarray):
    """For each halfspace the silent rows near it, the active rows near it that only it can explain, their number."""
    silent: list[list[np.ndarray]] = [[] for _ in range(len(union))]
    own: list[list[np.ndarray]] = [[] for _ in range(len(union))]
    count = np.zeros(len(union), dtype=int)
    for start, scores in score_batches(x, union):
        active = labels[start : start + len(scores)]
        possible = scores > -clear
        single = active & (possible.sum(axis=1) == 1)
        for i in range(len(union)):
            near = np.abs(scores[:, i]) < NEAR
            mine = single & possible[:, i]
            # A row of this halfspace that is still scored below -clear would be in nobody's list: none is, if the
            # start is closer than that.
            count[i] += int(mine.sum())
            silent[i].append(start + np.flatnonzero(near & ~active))
            own[i].append(start + np.flatnonzero(near & mine))
    return [np.concatenate(part) for part in silent], [np.concatenate(part) for part in own], count
