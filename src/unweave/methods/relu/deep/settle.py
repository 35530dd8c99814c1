"""What no crossing has told of units without sides, from the answers: Gauss-Newton in open directions of their rows.

Where the zero set of a unit never meets the border of one below, that weight shows only beyond, as a bend of answers
that depends on the unit's sign. The answers are linear in the features of all units; their derivatives by the rows go
through the units above.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import fit_top, some_rows, transcript

BETTER = 0.9
"""What a step has to leave of the share of wrong answers."""


def rows_of(features) -> list[np.ndarray]:
    """Of every generation, the lowest first."""
    out = []
    while isinstance(features, Lifted):
        out.append(features.rows)
        features = features.known
    return out[::-1]


def stack(base, rows: list[np.ndarray]):
    for part in rows:
        base = Lifted(base, part)
    return base


def settle(
    pool: Pool, base, features, nulls: list[list[np.ndarray]], max_steps: int = 12, say=lambda text: None
):
    """The features with the open directions of their rows as the answers have them, and the output layer on them."""
    rows, top = rows_of(features), fit_top(pool, features)
    x, y, weight, size = transcript(pool)
    few = some_rows(len(x))
    x, y, weight = x[few], y[few], weight[few]
    for turn in range(max_steps):
        jac, keys = _derivatives(base, rows, top.coefficients, nulls, x)
        features = stack(base, rows)
        h = np.hstack([features.features(x), np.ones((len(x), 1))])
        n, k = y.shape
        miss = (y - h @ top.coefficients) * weight[:, None]
        off = np.max(np.abs(miss), axis=1)
        middle = float(np.median(off))
        if not top.wrong.any() or not len(keys):
            break
        robust = 1 / np.sqrt(np.maximum(off, 0.3 * middle + 1e-14 * size))
        w = np.repeat(robust * weight, k)
        a = np.concatenate([jac.reshape(len(keys), n * k).T, np.kron(h, np.eye(k))], axis=1) * w[:, None]
        scale = np.maximum(np.linalg.norm(a, axis=0), 1e-300)
        step = np.linalg.lstsq(a / scale, (miss * robust[:, None]).ravel(), rcond=1e-10)[0] / scale
        better = None
        for share in (1.0, 0.5, 0.2, 0.05):
            trial = [part.copy() for part in rows]
            for (g, j, q), change in zip(keys, step, strict=False):
                trial[g][j] += share * change * nulls[g][j][:, q]
            new = fit_top(pool, stack(base, trial))
            if new.share_wrong < BETTER * top.share_wrong:
                better = trial, new
                break
        if better is None:
            break
        rows, top = better
        say(f"  settle {turn}: median {top.median_miss:.1e}, wrong {top.share_wrong:.4f}")
        if not top.wrong.any():
            break
    return stack(base, rows), top


def _derivatives(base, rows, coefficients, nulls, x):
    """Of the answers (open directions, n, k) by the open directions of all rows, and (generation, unit, direction)."""
    features = [base]
    for part in rows:
        features.append(Lifted(features[-1], part))
    values = [np.hstack([f.features(x), np.ones((len(x), 1))]) for f in features[:-1]]
    signs = [np.sign(h @ part.T) for h, part in zip(values, rows, strict=True)]
    d, k = base.width, coefficients.shape[1]
    widths = [len(part) for part in rows]
    first = d + np.cumsum([0, *widths])
    # derivative of the answers by the size of every unit, the highest first
    by = np.broadcast_to(coefficients[d:-1], (len(x), sum(widths), k)).copy()
    for g in range(len(rows) - 1, 0, -1):
        own = by[:, first[g] - d : first[g + 1] - d] * signs[g][:, :, None]
        by[:, : first[g] - d] += np.einsum("njk,ji->nik", own, rows[g][:, d : first[g]])
    out, keys = [], []
    for g, part in enumerate(nulls):
        for j, null in enumerate(part):
            if not null.shape[1]:
                continue
            slope = by[:, first[g] - d + j] * signs[g][:, j, None]
            for q, way in enumerate((values[g] @ null).T):
                out.append(way[:, None] * slope)
                keys.append((g, j, q))
    return (np.array(out) if out else np.zeros((0, len(x), k))), keys
