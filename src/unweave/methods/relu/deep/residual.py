"""Units of the last hidden layer that no line has met, from what the others leave over of the answers.

Where one of them is active alone, what is left is its output: linear in the features below. Answers that contradict
lie in several such regions, so a row is fitted to a few of them that are close together and kept if others, at which
the layers below stand differently, obey it too and it is off wherever the answers are right. Weights of features that
were off there follow from answers at which they are on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from unweave.methods.relu.deep.finish import close_unseen
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, features_at, features_below, fit_top, transcript

MAX_UNITS, MAX_ASKED = 6, 3
SAME = 1e-9
"""Rows whose cosine, in what both show, is within this of one are the same."""
NUM_SEEDS = 40
"""Contradictions around which a row is looked for."""
NUM_PLACES, SPARE = 5, 6
"""Contradictions beside which more is asked, and how many answers more than a row has weights that are active there."""
BEYOND = 3
"""Answers more, two, four and eight times as far as there is room: where the layers below stand differently."""
FITS = 1e-6
"""Miss, relative to what is left over, below which an answer obeys a row."""
MOSTLY = 0.8
"""Share of the contradictions that a row which is seen within one pattern of the layers below has to explain."""
LEFT = 0.2
"""Share of the contradictions that units which are added may leave."""
MOST_NEW = 6
"""Entries that are looked for at once."""
FEWEST_ON = 3
"""Contradictions at which a feature is on that tell its weight."""
RANK = 1e-9
"""Singular values of the features at contradictions below this share of the largest are zero."""
MOST_RIGHT = 600
"""Right answers at which a row is kept off."""
MOST_ON = 0.02
"""Share of the right answers at which a row may be on."""


@dataclass(frozen=True)
class _Rest:
    """What is left over of the answers, weighted by distance, and the features below, with a one, and above."""

    h: np.ndarray
    on: np.ndarray
    above: np.ndarray
    left: np.ndarray
    wrong: np.ndarray
    bar: float


def add_missing_units(
    pool: Pool,
    known: Known,
    top: Top,
    open_entries: tuple[tuple[int, int], ...] = (),
    *,
    lenient: bool = False,
) -> tuple[Known, Top, tuple[tuple[int, int], ...]]:
    """The last layer with units that what is left of the answers shows, and the weights that are open then.

    ``open_entries``: (unit, feature) of weights that were never seen. ``lenient``: also with units that were seen
    within one pattern of the layers below, or that leave much: no unit below is missing.
    """
    first, below, num_asked = known, known.first(known.depth - 1), 0
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    seen, num_old = np.ones(rows.shape, dtype=bool), len(rows)
    for unit, feature in open_entries:
        seen[unit, feature] = False
    for _ in range(4 * MAX_UNITS):
        if not top.wrong.any() or top.wrong.all() or known.leaks[-1]:
            break
        trial, start = _extended(_look(pool, known, top), rows, seen, top), top.coefficients
        if trial is None:
            found = unit_from_residual(pool, known, top, lenient)
            if found is not None:
                trial = _joined(rows, seen, *found[:2])
                if len(trial[0]) > len(rows):
                    start = np.vstack([start[:-1], found[2], start[-1:]])
        better = None if trial is None else _closed(pool, below, *trial, start)
        if better is None or better[1].wrong.sum() >= top.wrong.sum() - 2:
            if num_asked >= MAX_ASKED:
                break
            num_asked += 1
            _ask_beside(pool, known, top)
            known, top = _closed(pool, below, rows, seen, top.coefficients)
            continue
        assert trial is not None
        (rows, seen), (known, top) = trial, better
        if len(rows) >= num_old + MAX_UNITS:
            break
    before = fit_top(pool, first)
    most = before.wrong.sum() - 1 if lenient else LEFT * before.wrong.sum()
    if top.wrong.sum() > most:  # what is missing is not of this layer
        return first, before, open_entries
    size = np.linalg.norm(known.weights[-1], axis=1)
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]]) / size[:, None]
    known = below.extended(rows, known.leaks[-1])
    still_open = tuple((int(u), int(i)) for u, i in np.argwhere(~seen))
    return known, fit_top(pool, known, start=top.coefficients * np.append(size, 1.0)[:, None]), still_open


def _extended(
    rest: _Rest, rows: np.ndarray, seen: np.ndarray, top: Top
) -> tuple[np.ndarray, np.ndarray] | None:
    """With entries of a unit that contradictions show now; None where they show none."""
    for u in range(len(rows)):
        output = top.coefficients[u]
        if seen[u].all() or not output @ output > 0:
            continue
        row, shown = _extend(rest, np.where(seen[u], rows[u], 0.0), seen[u], output, rest.above[:, u])
        if shown.sum() > seen[u].sum():
            rows, seen = rows.copy(), seen.copy()
            rows[u], seen[u] = row, shown
            return rows, seen
    return None


def _closed(
    pool: Pool, below: Known, rows: np.ndarray, seen: np.ndarray, start: np.ndarray
) -> tuple[Known, Top]:
    """The layer with entries that nothing shows set so that they do not, and the output layer on it."""
    wider = below.extended(close_unseen(pool, below, rows, seen))
    return wider, fit_top(pool, wider, start=start)


def _joined(
    rows: np.ndarray, seen: np.ndarray, row: np.ndarray, mine: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """With one row more, or with one that has open entries extended, where both are the same in what they share."""
    for u in np.flatnonzero(~seen.all(axis=1)):
        both = seen[u] & mine
        a, b = rows[u, both], row[both]
        size = np.linalg.norm(a) * np.linalg.norm(b)
        if both.sum() >= 3 and a @ b > (1 - SAME) * size:
            rows, seen = rows.copy(), seen.copy()
            fresh = mine & ~seen[u]
            rows[u, fresh] = row[fresh] * np.linalg.norm(a) / np.linalg.norm(b)
            seen[u] |= mine
            return rows, seen
    return np.vstack([np.where(seen, rows, 0.0), row]), np.vstack([seen, mine])


def unit_from_residual(
    pool: Pool, known: Known, top: Top, lenient: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """A row (weights, bias) that most contradictions obey which any row does, the entries they show, and its output."""
    rest = _look(pool, known, top)
    rows = np.flatnonzero(rest.wrong)
    together = _fit_most(rest, rows)
    if together is not None:
        return together
    # one of each kind: which features are on decides which contradictions are looked at
    some = rows[pool.rng.permutation(len(rows))]
    some = some[np.sort(np.unique(rest.on[some], axis=0, return_index=True)[1])[:NUM_SEEDS]]
    place = rest.h[rows] / np.linalg.norm(rest.h[rows], axis=1, keepdims=True)
    best: tuple[int, np.ndarray, np.ndarray, np.ndarray] | None = None
    for seed in some:
        near = rows[np.argsort(-(place @ rest.h[seed]) / np.linalg.norm(rest.h[seed]), kind="stable")]
        found = _grow(rest, near[: 2 * rest.h.shape[1]], int(seed), lenient)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return None if best is None else best[1:]


def _look(pool: Pool, known: Known, top: Top) -> _Rest:
    x, y, weight, size = transcript(pool)
    below = known.first(known.depth - 1)
    features = np.hstack([features_at(pool, known, x), np.ones((len(x), 1))])
    left = (y - features @ top.coefficients) * weight[:, None]
    h = np.hstack([features_below(pool, below, x), np.ones((len(x), 1))]) * weight[:, None]
    wrong = np.zeros(len(x), dtype=bool)
    wrong[: len(top.wrong)] = top.wrong
    return _Rest(h, h != 0, features * weight[:, None], left, wrong, 10 * top.median_miss * size)


def _fit_most(rest: _Rest, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """A row that most contradictions with one output direction obey, wherever they lie."""
    size = np.linalg.norm(rest.left[rows], axis=1)
    clear = size > 100 * rest.bar
    rows, size = rows[clear], size[clear]
    if len(rows) < rest.h.shape[1]:
        return None
    direction = rest.left[rows] / size[:, None]
    some = np.linspace(0, len(rows) - 1, min(len(rows), NUM_SEEDS)).astype(int)
    alike = direction @ direction[some].T > 1 - SAME
    seed = some[int(np.argmax(alike.sum(axis=0)))]
    mine, output = rows[direction @ direction[seed] > 1 - SAME], direction[seed]
    own = rest.left[mine] @ output
    seen = rest.on[mine].sum(axis=0) >= FEWEST_ON
    inside = np.all(rest.on[mine] <= seen, axis=1)
    mine, own = mine[inside], own[inside]
    if len(mine) < seen.sum() + 3 or np.linalg.matrix_rank(rest.h[mine][:, seen], tol=1e-9) < seen.sum():
        return None
    values = _agreed(rest.h[mine][:, seen], own, own)
    if values is None:
        return None
    row = np.zeros(rest.h.shape[1])
    row[seen] = values
    length = np.linalg.norm(row)
    right = np.flatnonzero(~rest.wrong & np.all(rest.on <= seen, axis=1))
    if len(right) and np.mean(rest.h[right] @ row > 0.1 * np.quantile(own, 0.1)) > MOST_ON:
        return None
    return *_extend(rest, row / length, seen, length * output), length * output


def _grow(
    rest: _Rest, near: np.ndarray, seed: int, lenient: bool
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray] | None:
    """A row through the nearest contradictions with the seed's features active, and through all that agree with it."""
    seen = rest.on[seed]
    mine = near[np.all(rest.on[near] <= seen, axis=1)][: int(seen.sum()) + 3]
    solution = None
    for _ in range(4):
        if len(mine) < seen.sum() + 1:
            return None
        solution = np.linalg.lstsq(rest.h[mine][:, seen], rest.left[mine], rcond=1e-10)[0]
        inside = np.flatnonzero(rest.wrong & np.all(rest.on <= seen, axis=1))
        miss = np.max(np.abs(rest.h[inside][:, seen] @ solution - rest.left[inside]), axis=1)
        size = np.max(np.abs(rest.left[inside]), axis=1)
        obeys = inside[miss <= FITS * size + rest.bar]
        if seed not in obeys:
            return None
        if len(obeys) == len(mine) and np.all(obeys == mine):
            break
        mine = obeys
    assert solution is not None
    u, s, vt = np.linalg.svd(solution, full_matrices=False)
    if len(s) > 1 and s[1] > 1e-5 * s[0]:
        return None
    row = np.zeros(rest.h.shape[1])
    row[seen] = u[:, 0]
    if np.median(rest.h[mine] @ row) < 0:
        row, vt = -row, -vt
    row = _kept_off(rest, row, seen, mine)
    if row is None:
        return None
    alone = len(np.unique(rest.on[mine], axis=0)) < 2 and len(mine) < MOSTLY * rest.wrong.sum()
    if (alone and not lenient) or len(mine) < seen.sum() + 3:
        return None
    output = s[0] * vt[0]
    return len(mine), *_extend(rest, row, seen, output), output


def _kept_off(rest: _Rest, row: np.ndarray, seen: np.ndarray, mine: np.ndarray) -> np.ndarray | None:
    """The row, off where answers are right, by combinations of features that answers ``mine`` do not tell apart.

    None where it is on at right answers whatever these are.
    """
    right = np.flatnonzero(~rest.wrong & np.all(rest.on <= seen, axis=1))
    least = 0.1 * np.quantile(np.abs(rest.h[mine] @ row), 0.1)
    if not len(right) or np.mean(rest.h[right] @ row > least) <= MOST_ON:
        return row
    size = np.maximum(np.linalg.norm(rest.h[mine][:, seen], axis=0), 1e-300)
    _, s, vt = np.linalg.svd(rest.h[mine][:, seen] / size)
    free = vt[int(np.sum(s > RANK * s[0])) :].T / size[:, None]
    if not free.shape[1]:
        return None
    right = right[np.argsort(-(rest.h[right] @ row))[:MOST_RIGHT]]
    h, z = rest.h[right][:, seen] @ free, rest.h[right] @ row
    scale = np.maximum(np.linalg.norm(rest.h[right][:, seen], axis=1), 1e-300)
    # the combination that is farthest below zero: minimise t with z + h w <= t, all relative to the features
    best = linprog(
        np.append(np.zeros(h.shape[1]), 1.0),
        A_ub=np.hstack([h / scale[:, None], -np.ones((len(h), 1))]),
        b_ub=-z / scale,
        bounds=[(None, None)] * h.shape[1] + [(-np.linalg.norm(row), None)],
    )
    if not best.success:
        return None
    row = row.copy()
    row[seen] += free @ best.x[:-1]
    right = np.flatnonzero(~rest.wrong & np.all(rest.on <= seen, axis=1))
    return row if np.mean(rest.h[right] @ row > least) <= MOST_ON else None


def _extend(
    rest: _Rest, row: np.ndarray, seen: np.ndarray, output: np.ndarray, taken: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """With entries that contradictions agree on at which one feature more is active, or a few.

    ``taken``: what the unit as it is contributes already.
    """
    row, seen = row.copy(), seen.copy()
    own = rest.left @ output / (output @ output)
    off = np.max(np.abs(rest.left - own[:, None] * output), axis=1)
    its = rest.wrong & (
        off <= FITS * np.max(np.abs(rest.left), axis=1) + rest.bar
    )  # others have other outputs
    own = own + taken
    for _ in range(len(row)):
        extra = rest.on & ~seen
        wrong = np.flatnonzero(its & extra.any(axis=1) & (extra.sum(axis=1) <= MOST_NEW))
        patterns, which = np.unique(rest.on[wrong], axis=0, return_inverse=True)
        for number in np.argsort((patterns & ~seen).sum(axis=1), kind="stable"):
            mine, new = wrong[which.ravel() == number], patterns[number] & ~seen
            values = _agreed(rest.h[mine][:, new], own[mine] - rest.h[mine] @ row, own[mine])
            if values is not None:
                row[new], seen = values, seen | new
                break
        else:
            break
    return row, seen


def _agreed(h: np.ndarray, left: np.ndarray, size: np.ndarray) -> np.ndarray | None:
    """Entries that most of the answers agree on; several more of them than there are entries have to."""
    num = h.shape[1]
    if len(h) < num + 3:
        return None
    weight = np.ones(len(h))
    for _ in range(12):
        values = np.linalg.lstsq(h * weight[:, None], left * weight, rcond=1e-10)[0]
        miss = np.abs(h @ values - left)
        weight = 1 / np.sqrt(np.maximum(miss, 0.1 * FITS * np.abs(size)))
    fits = miss <= FITS * np.abs(size)
    good = fits.sum() >= max(num + 3, 0.5 * len(h)) and np.all(np.any(h[fits] != 0, axis=0))
    return values if good else None


def _ask_beside(pool: Pool, known: Known, top: Top) -> None:
    """More answers beside contradictions, at which the known layers stand as there."""
    domain, rng = pool.inquiry.meter.domain, pool.rng
    wrong = top.x[top.wrong]
    room = known.clearance(wrong)
    order = np.argsort(-room / (1e-3 + np.linalg.norm(wrong, axis=1)))
    patterns = np.hstack([z > 0 for z in known.arguments(wrong)])
    _, first = np.unique(patterns[order], axis=0, return_index=True)
    points = []
    for i in order[np.sort(first)][:NUM_PLACES]:
        num = int(
            known.first(known.depth - 1).active(known.first(known.depth - 1).features(wrong[i : i + 1])).sum()
        )
        steps = rng.standard_normal((num + 1 + SPARE + BEYOND, wrong.shape[1]))
        steps *= 0.5 * room[i] / np.linalg.norm(steps, axis=1, keepdims=True)
        steps[-BEYOND:] *= 2.0 ** np.arange(2, 2 + BEYOND)[:, None]
        points.append(wrong[i] + steps)
    x = np.concatenate(points)
    x = x[domain.contains(x)]
    if len(x):
        pool.inquiry.meter.ask(x)
