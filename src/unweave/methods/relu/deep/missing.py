"""Units of a layer that lines have not shown, from corners of the layers below at which they are active.

With rows r_u found and one more unit r active, ``a = sum_u c_u r_u + c r`` at a corner, c_u zero for inactive units.
Off the span of the r_u all such corners show one direction q; writing ``r = q + sum_u t_u r_u``, the coefficient of
r_u over that of q is t_u wherever u is inactive. The bias is the value of r that several kinks share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from unweave.methods.relu.deep.candidates import Candidate, settle
from unweave.methods.relu.deep.corners import Corner, common_frame
from unweave.methods.relu.deep.sides import Sides
from unweave.methods.relu.deep.view import LayerView

SAME = 1e-6
"""Directions and shares within this of each other are the same."""
FEWEST, MANY = 3, 12
"""Corners that have to show the same unit, and how many show that nothing above it ever switches."""


@dataclass(frozen=True)
class Shown:
    """A unit active at some corners: its weights are ``basis[:, 0]`` plus any combination of the other columns."""

    basis: np.ndarray
    frame: np.ndarray
    """The features that these weights are of; those of the others do not show."""
    corners: list[Corner]
    error: float
    """Relative error to expect of its weights."""
    is_last: bool
    """Whether it looks the same at all its corners, as units of the last layer do: no share can be told then."""
    open_units: tuple[int, ...] = ()
    """Rows found whose share is not known: they stand alike at nearly all its corners."""

    @property
    def weights(self) -> np.ndarray | None:
        return self.basis[:, 0] / np.linalg.norm(self.basis[:, 0]) if self.basis.shape[1] == 1 else None


def show_units(sides: Sides, rows: np.ndarray, need: int | None = None) -> list[Shown]:
    """Units besides ``rows`` that corners show, each active alone among those missing, the most shown first.

    ``need``: a feature that moves at the corners.
    """
    frame, failed = common_frame(sides.failed, need)
    if len(failed) < FEWEST or len(rows) >= frame.sum():
        return []
    slopes = np.array([corner.derivative[frame] for corner in failed])
    found = rows[:, :-1][:, frame].T
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
        shares = _shares(
            np.mean(turn[:, None] * directions[mine], axis=0),
            turn[:, None] * outputs[mine],
            coefficients[mine],
            np.array([failed[c].features for c in mine]) @ rows[:, :-1].T + rows[:, -1] > 0,
            sides,
            found,
        )
        if shares is not None:
            basis, open_units = shares
            sizes = np.linalg.norm(outputs[mine], axis=1)
            shown.append(
                Shown(
                    basis,
                    frame,
                    [failed[c] for c in mine],
                    float(np.median(error[mine] / s[mine, 0])),
                    len(mine) >= MANY and float(np.ptp(sizes)) < SAME * float(sizes.max()),
                    open_units,
                )
            )
    return sorted(shown, key=lambda one: (one.basis.shape[1], -len(one.corners)))


def show_rare(sides: Sides, rows: np.ndarray) -> Shown | None:
    """A unit that is active at the corners which ``rows``, whose sides are known, do not explain.

    There the derivative is a combination of the active rows and its own, so off the active rows both are parallel: as
    many linear equations for its row as the corner knows directions, less the active units and one.
    """
    if not sides.settled or not 0 < len(sides.failed) <= len(sides.spoke):
        return None
    signs = sides.signs()
    common, blocks = np.ones(len(rows), dtype=bool), []
    for corner in sides.failed:
        on = signs * (rows[:, :-1] @ corner.features + rows[:, -1]) > 0
        weight = (corner.errors.min() / corner.errors)[:, None]
        both = np.hstack([corner.basis.T @ rows[on, :-1].T, corner.slopes]) * weight
        u, s, _ = np.linalg.svd(both / np.linalg.norm(both, axis=0))
        rank = int(np.sum(s > SAME * s[0]))
        common &= on
        if rank <= on.sum() + 1 and rank < len(u):
            blocks.append(u[:, rank:].T @ (weight * corner.basis.T))
    if not blocks:
        return None
    system = np.vstack(blocks)
    frame = np.any(np.abs(system) > 1e-9, axis=0)
    weight = np.ones(len(system))
    for _ in range(12):  # another unit that is missing may spoil some
        _, s, vt = np.linalg.svd(system[:, frame] * weight[:, None], full_matrices=True)
        num = int(frame.sum()) - int(np.sum(s > 10 * SAME * s[0]))
        null = vt[-max(num, int(common.sum()) + 1) :]
        weight = 1 / np.sqrt(np.maximum(np.linalg.norm(system[:, frame] @ null.T, axis=1), SAME))
    size = np.linalg.norm(system[:, frame] @ null.T, axis=1)
    owner = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    fits = np.array([size[owner == c].max() < 100 * SAME for c in range(len(blocks))])
    good = np.linalg.matrix_rank(system[np.isin(owner, np.flatnonzero(fits))][:, frame], tol=1e-5)
    if len(null) != common.sum() + 1 or fits.sum() < FEWEST or good != frame.sum() - len(null):
        return None
    if int(sum(len(block) for block, fit in zip(blocks, fits, strict=True) if fit)) < good + 2:
        return None
    error = float(np.median([np.linalg.norm(c.errors) / np.linalg.norm(c.slopes) for c in sides.failed]))
    return Shown(null.T, frame, sides.failed, 10 * error, False)


def show_last_units(corners: list[Corner], rows: np.ndarray, fewest: int = 4) -> list[Shown] | None:
    """The same for the last layer, where every unit counts alike wherever it is active; None: it is not the last.

    ``a = gamma + sum_u sign(z_u) beta_u r_u`` at all corners at which the units that are missing stand alike; at the
    others the row of one of them is left over.
    """
    frame, corners = common_frame(corners)
    if len(corners) < fewest:
        return None
    slopes = np.array([corner.derivative[frame] for corner in corners])
    error = np.array([np.linalg.norm(corner.errors) for corner in corners])
    num, n, k = slopes.shape
    z = np.array([corner.features for corner in corners]) @ rows[:, :-1].T + rows[:, -1]
    parts = np.where(z > 0, 1.0, -1.0)[:, None, :] * rows[:, :-1][:, frame].T[None]
    system = np.concatenate([np.broadcast_to(np.eye(n), (num, n, n)), parts], axis=2)
    weight, size = np.ones(num), np.linalg.norm(slopes, axis=(1, 2))
    miss = size
    for _ in range(20):
        w = weight[:, None, None]
        a, y = (w * system).reshape(num * n, -1), (w * slopes).reshape(num * n, k)
        solution = np.linalg.lstsq(a, y, rcond=1e-11)[0]
        left = slopes - system @ solution
        miss = np.linalg.norm(left, axis=(1, 2))
        weight = 1 / np.sqrt(np.maximum(miss, 30 * error))
    alike = miss < np.maximum(100 * error, SAME * size)
    patterns = len(np.unique(z[alike] > 0, axis=0))
    if alike.sum() < fewest or 2 * alike.sum() < num or patterns < 2:
        return None
    shown = []
    for c in np.flatnonzero(~alike):
        u, s, _ = np.linalg.svd(left[c], full_matrices=False)
        if len(s) == 1 or s[1] < SAME * s[0]:
            shown.append(Shown(u[:, :1], frame, [corners[c]], float(error[c] / s[0]), True))
    return shown


def show_space(sides: Sides, rows: np.ndarray, need: int | None = None) -> Shown | None:
    """All that corners show besides ``rows``, where several units are active at once: a basis of their rows.

    With Q the directions off the span of the rows and d the coefficients there, that of an inactive unit u is linear
    in d: ``c_u = tau_u . d``, and the rows missing are combinations of the columns of ``Q + sum_u r_u tau_u'``.
    """
    frame, corners = common_frame([*sides.failed, *sides.spoke], need)
    if len(corners) < FEWEST or not sides.failed:
        return None
    slopes = np.array([corner.derivative[frame] for corner in corners])
    error = np.array([np.linalg.norm(corner.errors) for corner in corners])
    found = rows[:, :-1][:, frame].T
    coefficients = np.einsum("un,cnk->cuk", np.linalg.pinv(found), slopes)
    left = slopes - np.einsum("nu,cuk->cnk", found, coefficients)
    u, s, _ = np.linalg.svd((left / error[:, None, None]).transpose(1, 0, 2).reshape(left.shape[1], -1))
    rank = int(np.sum(s > 1e3))
    if not 0 < rank <= frame.sum() - len(rows) or len(corners) < 2 * rank + 3:
        return None
    basis = u[:, :rank]
    own = np.einsum("nr,cnk->ckr", basis, left)
    on = np.array([corner.features for corner in corners]) @ rows[:, :-1].T + rows[:, -1] > 0
    told = (sides.votes.sum(axis=1) > 0) & ~sides.clashes
    signs, shown = sides.signs(), basis.copy()
    for unit in range(len(rows)):
        agreed = []
        for side in (False, True):
            at = on[:, unit] == side
            if told[unit] and side == (signs[unit] > 0):
                continue
            system, target = own[at].reshape(-1, rank), coefficients[at, unit].ravel()
            if len(target) < rank + 2:
                continue
            tau, _, its_rank, sizes = np.linalg.lstsq(system, target, rcond=1e-6)
            spread = np.sum(sizes > 1e-4 * sizes[0]) if len(sizes) else 0
            miss = np.max(np.abs(system @ tau - target))
            if its_rank == rank == spread and miss < 100 * SAME * np.max(np.abs(target), initial=1e-300):
                agreed.append(tau)
        if len(agreed) != 1:
            return None
        shown = shown + np.outer(found[:, unit], agreed[0])
    return Shown(shown, frame, corners, float(np.median(error)), False)


def _shares(
    q: np.ndarray, own: np.ndarray, coefficients: np.ndarray, on: np.ndarray, sides: Sides, found: np.ndarray
) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """``q`` with the share of every found row that corners agree on; the others as further columns."""
    shares = np.einsum("cuk,ck->uc", coefficients, own) / np.sum(own**2, axis=1)
    size = np.round(np.log(np.linalg.norm(own, axis=1)), 6)
    weights, open_rows = q.copy(), []
    told = (sides.votes.sum(axis=1) > 0) & ~sides.clashes
    signs = sides.signs()
    for unit in range(found.shape[1]):
        agreed, modes = [], [_mode(shares[unit][at], size[at]) for at in (~on[:, unit], on[:, unit])]
        varies = [most >= FEWEST and kinds < 0.6 * most for _, kinds, most in modes]
        for side, (middle, kinds, most) in enumerate(modes):
            if told[unit] and side == (signs[unit] > 0):
                continue
            # one pattern of the layers above: an active unit's share would not change either, unless the other side is
            # seen to be the active one
            if kinds < (1 if told[unit] or varies[1 - side] else 2):
                continue
            if kinds >= 0.6 * most:
                agreed.append(middle)
            elif told[unit]:
                return None
        if len(agreed) == 1:
            weights = weights + agreed[0] * found[:, unit]
        else:
            open_rows.append(unit)
    return np.stack([weights, *found[:, open_rows].T], axis=1), tuple(open_rows)


def find_border(view: LayerView, shown: Shown) -> Candidate | None:
    """A unit of what is shown, with its bias, where kinks tell it."""
    if shown.weights is not None:
        return _bias_from_places(view, shown)
    p = shown.basis.shape[1]
    basis, seen = np.zeros((len(shown.frame) + 1, p + 1)), np.append(shown.frame, True)
    basis[:-1][shown.frame, :p] = shown.basis / np.linalg.norm(shown.basis, axis=0)
    basis[-1, p] = 1.0
    found = settle(view, basis, seen, view.free)
    return None if found is None else replace(found, shown=True)


def _bias_from_places(view: LayerView, shown: Shown, fewest: int = 2) -> Candidate | None:
    """The value that ``weights . h`` takes at most of the open kinks, several of them."""
    assert shown.weights is not None
    weights = np.zeros(len(shown.frame))
    weights[shown.frame] = shown.weights
    h = view.known.features(view.pool.x[view.open])
    # where one feature alone is on any zero set is a value of it
    clear = ~np.any(h[:, ~shown.frame] != 0, axis=1) & (view.known.active(h).sum(axis=1) > 1)
    places, h = view.open[clear], h[clear]
    values = h @ weights
    allowed = (1e-9 + 10 * shown.error) * (1e-3 + np.linalg.norm(h, axis=1))
    order = np.argsort(values)
    values, allowed, line = values[order], allowed[order], view.pool.line[places][order]
    end = np.searchsorted(values, values + 2 * allowed, side="right")
    lines = np.array([len(np.unique(line[a:b])) for a, b in enumerate(end)])
    if not len(lines) or lines.max() < fewest:
        return None
    at = int(np.argmax(lines))
    row = np.append(weights, -np.median(values[at : end[at]]))
    members = np.flatnonzero(np.isin(view.kinks, places[order[at : end[at]]]))
    return Candidate(
        row / np.linalg.norm(row), np.append(shown.frame, True), members, int(lines.max()), shown=True
    )


def _mode(values: np.ndarray, kinds: np.ndarray) -> tuple[float, int, int]:
    """The value that most kinds of corners agree on, how many do, and how many kinds there are.

    Not all have to: another unit that is missing may be active at some.
    """
    if not len(values):
        return 0.0, 0, 0
    same = np.abs(values[:, None] - values) < 100 * SAME * (1 + np.abs(values))
    counts = np.array([len(np.unique(kinds[row])) for row in same])
    best = int(np.argmax(counts))
    return float(np.median(values[same[best]])), int(counts[best]), len(np.unique(kinds))


def fill_entries(
    sides: Sides, rows: np.ndarray, more: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The rows ``more`` with entries that were not ``seen``, from corners at which these features move.

    Other features stand still there; on those that both kinds of corners know, the rows are combinations of each other.
    """
    more, seen = more.copy(), seen.copy()
    for feature in np.flatnonzero(~seen[:-1]):
        options = [*show_units(sides, rows, int(feature)), show_space(sides, rows, int(feature))]
        for one in options:
            if seen[feature] or one is None or one.basis.shape[1] != len(more):
                continue
            both = one.frame & seen[:-1]
            theirs = np.zeros((len(one.frame), len(more)))
            theirs[one.frame] = one.basis
            mix, _, rank, _ = np.linalg.lstsq(theirs[both], more[:, :-1][:, both].T, rcond=1e-7)
            miss = np.max(np.abs(theirs[both] @ mix - more[:, :-1][:, both].T))
            if rank == len(more) < both.sum() and miss < 100 * SAME * np.max(np.abs(more[:, :-1])):
                fresh = one.frame & ~seen[:-1]
                more[:, :-1][:, fresh] = (theirs[fresh] @ mix).T
                seen[:-1] |= fresh
    return more, seen


def always_on(view: LayerView, shown: Shown, num_points: int = 1500) -> np.ndarray:
    """Rows that span what is shown and are positive at all points asked: units that were never seen to switch.

    Which rows, and which biases, no answer tells: what stands above makes up for any choice.
    """
    h = view.known.features(view.pool.inquiry.meter.transcript()[0])
    size = np.linalg.norm(h, axis=1)
    far = np.flatnonzero(size >= np.median(size))
    some = far[np.linspace(0, len(far) - 1, min(num_points, len(far))).astype(int)]
    space = np.zeros((shown.basis.shape[1], h.shape[1]))
    space[:, shown.frame] = (shown.basis / np.linalg.norm(shown.basis, axis=0)).T
    z = (h[some] / size[some, None]) @ space.T
    p = len(space)
    # the combination whose least value is largest: maximise t with z w >= t, |w| <= 1
    best = linprog(
        np.append(np.zeros(p), -1.0),
        A_ub=np.hstack([-z, np.ones((len(z), 1))]),
        b_ub=np.zeros(len(z)),
        bounds=[(-1, 1)] * p + [(None, None)],
    )
    weights = np.sign(np.median(z, axis=0) + 1e-300)[:, None] * space
    if p > 1 and best.success and best.x[p] > 0:
        weights = (best.x[:p] + 0.5 * best.x[p] * np.eye(p)) @ space
    least = np.min(h @ weights.T, axis=0)
    rows = np.hstack([weights, (1.01 * np.maximum(-least, 0.0) + 1.0)[:, None]])
    return rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
