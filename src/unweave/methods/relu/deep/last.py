"""Sides of a layer's units when it is the last hidden one, and a unit of it that is always active.

Over the answers ``f = sum_u beta_u |z_u| + gamma . h + const`` whatever the sides, h the features below. Then
``gamma = sum_u s_u beta_u r_u`` plus the row of a unit that never switched, if there is one: the signs s follow by a
linear solve, or by going through all of them for the choice that leaves nothing, or a unit that is on everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unweave.methods.relu.deep.dark import fill_weights, find_states, signs_at
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.steady import carriers, likely_choices
from unweave.methods.relu.deep.top import robust_fit, some_rows, transcript
from unweave.methods.relu.deep.view import LayerView

FITS = 1e-7
"""Miss, relative to the answers, below which an answer is explained."""
MOST_WRONG = 0.25
"""Share of the answers that units missing from the last layer may spoil."""
MOST_TRIED = 256
"""Choices of signs for which units that are always on are looked at."""
NUM_FAR = 2000
"""Far answers at which they have to be on."""
SAME = 1e-3
"""Shares of the linear part within this of each other are the same; a leak below this is none."""
ALIKE = 1e-7
"""Relative error to expect of such a row."""
FEWEST, FEWEST_ALIKE = 3, 2
"""Lines whose kinks have to agree on a bias, and where the outputs tell which kinks may be meant."""
STEEPEST = 20.0
"""The largest share: a leak of 0.9."""


@dataclass(frozen=True)
class LastLayer:
    """Oriented rows of the last hidden layer; those after ``num_found`` are always active."""

    rows: np.ndarray
    seen: np.ndarray
    num_found: int
    num_choices: int = 1
    """How many choices of sides leave the same function on all answers."""
    steady: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Rows that a unit which never switched may have, one a choice; empty where its border was met."""
    leak: float = 0.0

    @property
    def is_guess(self) -> bool:
        return len(self.steady) > 0


def orient_last(
    pool: Pool, known: Known, rows: np.ndarray, seen: np.ndarray, kinks: LayerView | None = None
) -> LastLayer | None:
    """Sides of ``rows`` if the outputs are affine in their relus; None if they are not, or it is not settled."""
    x, y, weight, size = transcript(pool)
    rows = np.where(seen, rows, 0.0)
    h = known.features(x)
    z = h @ rows[:, :-1].T + rows[:, -1]
    told = seen[:, :-1]
    if known.depth and not known.leaks[-1]:
        states = find_states(z, h, rows, told)
        signs = signs_at(z, h, told, states)
    else:
        states = np.zeros(told.shape)
        signs = np.where((known.active(h) @ (~told).T.astype(np.int64)) > 0, 0.0, np.sign(z))
    take = np.flatnonzero(np.all(signs != 0, axis=1) & ~known.is_unsure(x))
    if len(take) < 3 * (len(rows) + known.width) + 20:
        return None
    take = take[some_rows(len(take))]
    z, signs = z[take], signs[take]
    crossing = np.minimum(np.sum(signs > 0, axis=0), np.sum(signs < 0, axis=0)) >= 3
    if not crossing.any():
        return None
    moving = np.any(h[take] != 0, axis=0)
    bends = (signs * z)[:, crossing]
    features = np.hstack([bends, h[take][:, moving], np.ones((len(take), 1))])
    answers = y[take] * weight[take, None]
    features = features * weight[take, None]
    solution = robust_fit(features, answers, size)
    miss = np.max(np.abs(features @ solution - answers), axis=1)
    if np.mean(miss > FITS * size) > MOST_WRONG:
        return None
    num = int(crossing.sum())
    beta, gamma = solution[:num], np.zeros((known.width, y.shape[1]))
    gamma[moving] = solution[num:-1]
    told = moving & seen[:, :-1].all(axis=0)  # of the others the linear part has weights that are not seen
    if not told.any():
        return None
    last = _choose_signs(rows, seen, crossing, signs * np.abs(z), beta, gamma, told, h, kinks)
    if last is None or not crossing.all() or np.array_equal(told, moving):
        return last
    return _with_weights(last, rows, beta, np.where(moving[:, None], gamma, 0.0), states, told, h)


def _with_weights(
    last: LastLayer,
    rows: np.ndarray,
    beta: np.ndarray,
    gamma: np.ndarray,
    states: np.ndarray,
    told: np.ndarray,
    h: np.ndarray,
) -> LastLayer:
    """With weights that were not seen where their units are on, from the linear part ``gamma`` (features, outputs)."""
    num, rho = last.num_found, (1 + last.leak) / (1 - last.leak)
    sides = np.sign(np.sum(last.rows[:num] * rows, axis=1))
    steady = last.rows[num:]
    left = gamma - rho * np.einsum("u,uk,up->pk", sides, beta, rows[:, :-1])
    outputs = (
        np.linalg.lstsq(steady[:, :-1][:, told].T, left[told], rcond=1e-9)[0] if len(steady) else beta[:0]
    )
    # of units in the order of the rows: what the answers gain for a feature from its weight
    shares = np.where(states != 0, rho * sides[:, None] + states, 0.0)
    parts = np.einsum("up,uk->upk", shares, beta) * sides[:, None, None]
    parts = np.concatenate([parts, np.repeat(outputs[:, None], len(told), axis=1)])
    seen = np.vstack([last.seen[:num, :-1], np.repeat(told[None], len(steady), axis=0)])
    least = np.zeros(seen.shape)
    arguments = h @ last.rows[:num, :-1].T + last.rows[:num, -1]
    for unit, feature in np.argwhere(~seen[:num]):
        on = h[:, feature] > 0
        alone = on & ~np.any((h > 0) & ~seen[unit] & (np.arange(len(told)) != feature), axis=1)
        if sides[unit] * states[unit, feature] > 0 and alone.any():
            least[unit, feature] = max(0.0, float(np.max(-arguments[alone, unit] / h[alone, feature])))
    filled, seen = fill_weights(np.where(seen, last.rows[:, :-1], 0.0), seen, parts, left, least)
    whole, seen = np.hstack([filled, last.rows[:, -1:]]), np.hstack([seen, last.seen[:, -1:]])
    if last.is_guess and len(steady):
        more = carriers(filled[num:].T @ outputs, h)
        whole, seen = np.vstack([whole[:num], more]), np.vstack([seen[:num], np.ones(more.shape, dtype=bool)])
    return replace(last, rows=whole, seen=seen)


def _choose_signs(rows, seen, crossing, z, beta, gamma, moving, h, kinks) -> LastLayer | None:
    """Signs that explain the linear part, and what they leave."""
    k = gamma.shape[1]
    units, still = np.flatnonzero(crossing), np.flatnonzero(~crossing)
    parts = np.einsum("uk,un->unk", beta, rows[units][:, :-1][:, moving])
    parts = parts.reshape(len(units), k * int(np.sum(moving)))
    target = gamma[moving].ravel()
    # a unit that never switched on these answers takes any coefficient
    free = [np.kron(rows[v, :-1][moving][:, None], np.eye(k)) for v in still]
    system = np.hstack([parts.T, *free]) if len(still) else parts.T
    solution, _, rank, _ = np.linalg.lstsq(system, target, rcond=1e-11)
    scale = np.linalg.norm(target) + np.max(np.linalg.norm(parts, axis=1), initial=0.0)
    signs = np.ones(len(rows))
    signs[still] = np.where(np.median(z[:, still], axis=0) > 0, 1.0, -1.0)
    if rank == system.shape[1]:
        left = np.linalg.norm(system @ solution - target)
        leak = read_leak(solution[: len(units)])
        if left < 1e-6 * scale and leak is not None:
            signs[units] = np.sign(solution[: len(units)])
            size = np.linalg.norm(solution[len(units) :].reshape(len(still), k), axis=1)
            signs[still] *= np.where(size > 1e-6 * np.max(np.abs(beta), initial=1.0), 1.0, -1.0)
            return LastLayer(rows * signs[:, None], seen, len(rows), leak=leak)
    if len(still):
        return None
    return _with_steady_units(rows, seen, parts, target, solution, moving, h, kinks)


def read_leak(rho: np.ndarray) -> float | None:
    """The leak of units whose linear part is ``rho`` times what their bends say; None where they do not agree."""
    size = np.abs(rho)
    middle = float(np.median(size))
    if not 1 - SAME < middle < STEEPEST or np.any(np.abs(size - middle) > SAME * middle):
        return None
    leak = (middle - 1) / (middle + 1)
    if leak < SAME:
        return 0.0
    digits = next((n for n in range(1, 9) if abs(round(leak, n) - leak) < 1e-3 * 10.0**-n), 12)
    return round(leak, digits)


def _with_steady_units(rows, seen, parts, target, share, moving, h, kinks) -> LastLayer | None:
    """The choice of signs that leaves least, and units which are on everywhere for that.

    Fewest such units, then the smallest; ``share``: signs as a linear solve tells them, roughly.
    """
    choices = 2.0 * likely_choices(share) - 1.0
    n = int(np.sum(moving))
    left = (target - choices @ parts).reshape(len(choices), n, -1)
    sizes = np.linalg.svd(left, compute_uv=False)
    scale = np.linalg.norm(target) + np.max(np.linalg.norm(parts, axis=1))
    rank, norm = np.sum(sizes > 1e-6 * scale, axis=1), np.linalg.norm(sizes, axis=1)
    order = np.lexsort((norm, rank))[:MOST_TRIED]
    choices, left, rank = choices[order], left[order], rank[order]
    if rank[0] == 0:
        return LastLayer(rows * choices[0][:, None], seen, len(rows), int(np.sum(rank == 0)))
    single = np.flatnonzero(rank == 1)
    extra = np.zeros((len(single), rows.shape[1] - 1))
    u, _, vt = np.linalg.svd(left[single], full_matrices=False)
    extra[:, moving], outputs = u[:, :, 0], vt[:, 0]
    size = np.linalg.norm(h, axis=1)
    far = np.flatnonzero(size > np.quantile(size, 0.9))[:NUM_FAR]
    z = (h[far] / (size[far, None] + 1e-300)) @ extra.T
    extra = extra * np.where(np.sum(z, axis=0) < 0, -1.0, 1.0)[:, None]
    low = np.min(np.abs(z), axis=0) * np.where(np.ptp(np.sign(z), axis=0) > 0, -1.0, 1.0)
    for number in range(len(single)):
        bias = _bias_from_places(extra[number], moving, outputs[number], kinks)
        if bias is None:
            bias = _bias_from_kinks(extra[number], kinks)
        if bias is not None:
            more = np.append(extra[number], bias)[None]
            return _joined(rows, seen, choices[single[number]], more, len(single), moving=moving)
    valid = np.flatnonzero(low >= -1e-6)
    if len(valid):
        chosen, guessed = single[valid[0]], extra[valid[:8]]
    else:
        chosen, guessed = 0, extra[:8]
    rest = np.zeros((rows.shape[1] - 1, left.shape[2]))
    rest[moving] = left[chosen]
    more = carriers(rest, h)
    guessed = guessed if len(guessed) else more[:, :-1]
    return _joined(rows, seen, choices[chosen], more, len(valid), guessed)


def _joined(rows, seen, signs, more, num_choices, guessed=None, moving=None) -> LastLayer:
    """Rows on their sides, and units that are always on; only weights of features that were ``moving`` are theirs."""
    rows, seen_more = np.vstack([rows * signs[:, None], more]), np.ones(more.shape, dtype=bool)
    if moving is not None:
        seen_more[:, :-1] = moving
    guessed = np.zeros((0, 0)) if guessed is None else guessed
    return LastLayer(rows, np.vstack([seen, seen_more]), len(signs), num_choices, guessed)


def _bias_from_places(
    row: np.ndarray, moving: np.ndarray, output: np.ndarray, view: LayerView | None
) -> float | None:
    """The bias at which a row passes through open kinks of several lines where the outputs bend as its unit's do."""
    if view is None:
        return None
    pool, lines = view.pool, FEWEST
    at = view.open
    if len(output) > 1:
        jump = pool.slope_jump[at]
        size = np.maximum(np.linalg.norm(jump, axis=1), 1e-300)
        at, lines = at[np.abs(jump @ output) > (1 - ALIKE**2 / 2) * size], FEWEST_ALIKE
    h = view.known.features(pool.x[at])
    told = ~np.any(h[:, ~moving] != 0, axis=1) & (view.known.active(h).sum(axis=1) > 1)
    at, h = at[told], h[told]
    values, allowed = h @ row, ALIKE * (1e-3 + np.linalg.norm(h, axis=1))
    best, most = None, lines - 1
    for i in range(len(at)):
        same = np.abs(values - values[i]) <= allowed + allowed[i]
        num = len(np.unique(pool.line[at[same]]))
        if num > most:
            best, most = -float(np.median(values[same])), num
    return best


def _bias_from_kinks(row: np.ndarray, view: LayerView | None) -> float | None:
    """The bias at which a row with this direction passes through open kinks that have its normal."""
    if view is None:
        return None
    gradient = np.einsum("n,mnd->md", row, view.jac)
    size = np.linalg.norm(gradient, axis=1)
    cosine = np.abs(np.sum(gradient * view.g, axis=1)) / np.maximum(size, 1e-300)
    fits = view.free & (size > 1e-9) & (cosine > 1 - 1e-9) & (view.rank >= 3)
    return -float(np.median(view.h[fits] @ row)) if fits.any() else None
