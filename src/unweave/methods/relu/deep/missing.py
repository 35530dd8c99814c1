"""Units of a layer that lines have not shown, from corners of the layers below at which they are active.

With rows r_u found and one more unit r active, ``a = sum_u c_u r_u + c r`` at a corner, c_u zero for inactive units.
Off the span of the r_u all such corners show one direction q; writing ``r = q + sum_u t_u r_u``, the coefficient of
r_u over that of q is t_u wherever u is inactive. The bias is the value of r that several kinks share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate, settle
from unweave.methods.relu.deep.corners import Corner
from unweave.methods.relu.deep.sides import Sides
from unweave.methods.relu.deep.view import LayerView

SAME = 1e-6
"""Directions and shares within this of each other are the same."""
FEWEST = 3
"""Corners that have to show the same unit."""


@dataclass(frozen=True)
class Shown:
    """A unit active at some corners: its weights are ``basis[:, 0]`` plus any combination of the other columns."""

    basis: np.ndarray
    corners: list[Corner]
    error: float
    """Relative error to expect of its weights."""
    is_last: bool
    """Whether it looks the same at all its corners, as units of the last layer do: no share can be told then."""

    @property
    def weights(self) -> np.ndarray | None:
        return self.basis[:, 0] / np.linalg.norm(self.basis[:, 0]) if self.basis.shape[1] == 1 else None


def show_units(sides: Sides, rows: np.ndarray) -> list[Shown]:
    """Units besides ``rows`` that corners show, each active alone among those missing, the most shown first."""
    failed = [corner for corner in sides.failed if corner.whole]
    if len(failed) < FEWEST or len(rows) >= rows.shape[1] - 1:
        return []
    slopes = np.array([corner.derivative for corner in failed])
    found = rows[:, :-1].T
    coefficients = np.einsum("un,cnk->cuk", np.linalg.pinv(found), slopes)
    left = slopes - np.einsum("nu,cuk->cnk", found, coefficients)
    u, s, vt = np.linalg.svd(left, full_matrices=False)
    error = np.array([np.linalg.norm(corner.errors) for corner in failed])
    alone = s[:, 0] > 1e3 * error
    if s.shape[1] > 1:
        alone &= s[:, 1] < np.maximum(SAME * s[:, 0], 30 * error)
    directions, outputs = u[:, :, 0], s[:, :1] * vt[:, 0]
    shown, open_corners = [], list(np.flatnonzero(alone))
    while len(open_corners) >= FEWEST:
        cosine = directions[open_corners] @ directions[open_corners].T
        off = np.sqrt(np.maximum(1 - cosine**2, 0.0))
        same = off < SAME + 30 * (error / s[:, 0])[open_corners][None]
        best = int(np.argmax(same.sum(axis=1)))
        mine = np.array(open_corners)[same[best]]
        if len(mine) < FEWEST:
            break
        open_corners = [c for c in open_corners if c not in mine]
        turn = np.sign(directions[mine] @ directions[mine[0]])
        basis = _shares(
            np.mean(turn[:, None] * directions[mine], axis=0),
            turn[:, None] * outputs[mine],
            coefficients[mine],
            np.array([failed[c].features for c in mine]) @ found + rows[:, -1] > 0,
            sides,
            found,
        )
        if basis is not None:
            sizes = np.linalg.norm(outputs[mine], axis=1)
            shown.append(
                Shown(
                    basis,
                    [failed[c] for c in mine],
                    float(np.median(error[mine] / s[mine, 0])),
                    len(mine) > FEWEST and float(np.ptp(sizes)) < SAME * float(sizes.max()),
                )
            )
    return sorted(shown, key=lambda one: (one.basis.shape[1], -len(one.corners)))


def _shares(
    q: np.ndarray, own: np.ndarray, coefficients: np.ndarray, on: np.ndarray, sides: Sides, found: np.ndarray
) -> np.ndarray | None:
    """``q`` with the share of every found row that corners agree on; the others as further columns."""
    shares = np.einsum("cuk,ck->uc", coefficients, own) / np.sum(own**2, axis=1)
    size = np.round(np.log(np.linalg.norm(own, axis=1)), 6)
    weights, open_rows = q.copy(), []
    told = (sides.votes.sum(axis=1) > 0) & ~sides.clashes
    signs = sides.signs()
    for unit in range(found.shape[1]):
        agreed = []
        for side in (False, True):
            if told[unit] and side == (signs[unit] > 0):
                continue
            at = on[:, unit] == side
            values = shares[unit][at]
            # one pattern of the layers above: an active unit's share would not change either
            if len(np.unique(size[at])) < (1 if told[unit] else 2):
                continue
            middle = np.median(values)
            if np.all(np.abs(values - middle) < 100 * SAME * (1 + abs(middle))):
                agreed.append(middle)
            elif told[unit]:
                return None
        if len(agreed) == 1:
            weights = weights + agreed[0] * found[:, unit]
        else:
            open_rows.append(found[:, unit])
    return np.stack([weights, *open_rows], axis=1)


def find_border(view: LayerView, shown: Shown) -> Candidate | None:
    """The unit with its bias, where kinks show it."""
    weights = shown.weights
    if weights is not None:
        return _bias_from_places(view, weights, shown.error)
    n, p = shown.basis.shape
    basis = np.zeros((n + 1, p + 1))
    basis[:n, :p], basis[n, p] = shown.basis / np.linalg.norm(shown.basis, axis=0), 1.0
    return settle(view, basis, view.free)


def _bias_from_places(
    view: LayerView, weights: np.ndarray, error: float, fewest: int = 2
) -> Candidate | None:
    """The value that ``weights . h`` takes at most of the open kinks, several of them."""
    places = view.open
    h = view.known.features(view.pool.x[places])
    values = h @ weights
    allowed = (1e-9 + 10 * error) * (1e-3 + np.linalg.norm(h, axis=1))
    order = np.argsort(values)
    values, allowed, line = values[order], allowed[order], view.pool.line[places][order]
    end = np.searchsorted(values, values + 2 * allowed, side="right")
    lines = np.array([len(np.unique(line[a:b])) for a, b in enumerate(end)])
    if not len(lines) or lines.max() < fewest:
        return None
    at = int(np.argmax(lines))
    row = np.append(weights, -np.median(values[at : end[at]]))
    members = np.flatnonzero(np.isin(view.kinks, places[order[at : end[at]]]))
    return Candidate(row / np.linalg.norm(row), np.ones(len(row), dtype=bool), members, int(lines.max()))


def always_on(view: LayerView, weights: np.ndarray) -> np.ndarray:
    """The row of a unit that was never seen to switch: its bias is any that keeps it on."""
    z = view.known.features(view.pool.inquiry.meter.transcript()[0]) @ weights
    if np.median(z) < 0:
        weights, z = -weights, -z
    return np.append(weights, 1.01 * max(0.0, -float(np.min(z))) + 1.0)
