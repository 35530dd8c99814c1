"""On which side of a trace's zero set points lie, also where the trace's own value is not known.

A trace that is done knows its whole zero set, or that part of it which is connected: along any way between two points
its crossings are counted without a question.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.tracks import is_dark, keep_signs
from unweave.methods.relu.lifted.draw import box_faces
from unweave.methods.relu.peel.trails import Region, clearance, facets

POINTS = 800
"""Points at which the signs of a unit are held where its row is open, at first; ..."""
MORE, TURNS = 4, 4
"""... as many times more are looked at, and those that are wrong held as well, some times."""
BESIDE = 0.01
"""How far beside a zero set its sign is read, relative to the next border."""
MOST = 2_000_000
"""Numbers in one table of features along ways."""


def break_up(
    features: Known | Lifted, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where known units bend along ways: the way, the share of it, and the features there; straight in between."""
    if isinstance(features, Lifted):
        owner, t, h = break_up(features.known, starts, ends)
        owner, t, h, u = _cut(owner, t, h, features.rows)
        return owner, t, np.hstack([h, np.abs(u)])
    owner = np.repeat(np.arange(len(starts)), 2)
    t, h = np.tile([0.0, 1.0], len(starts)), np.stack([starts, ends], axis=1).reshape(-1, starts.shape[1])
    for w, b, leak in features.layers():
        owner, t, h, u = _cut(owner, t, h, np.hstack([w, b[:, None]]))
        h = np.maximum(u, leak * u)
    return owner, t, h


def _cut(owner: np.ndarray, t: np.ndarray, h: np.ndarray, rows: np.ndarray):
    """With the places at which one of the units changes its sign; their values."""
    u = h @ rows[:, :-1].T + rows[:, -1]
    at, unit = np.nonzero(((u[:-1] > 0) != (u[1:] > 0)) & (owner[:-1] == owner[1:])[:, None])
    share = u[at, unit] / (u[at, unit] - u[at + 1, unit])
    between = u[at] + (u[at + 1] - u[at]) * share[:, None]
    between[np.arange(len(at)), unit] = 0.0
    new = t[at] + (t[at + 1] - t[at]) * share
    order = np.lexsort((np.append(t, new), np.append(owner, owner[at])))
    h = np.vstack([h, h[at] + (h[at + 1] - h[at]) * share[:, None]])[order]
    return np.append(owner, owner[at])[order], np.append(t, new)[order], h, np.vstack([u, between])[order]


def count_sides(region: Region, features: Known | Lifted, traces: list[Trace], x: np.ndarray) -> np.ndarray:
    """(points, traces) on which side of each zero set the points lie; the trace's own sign where that is known."""
    if not traces:
        return np.zeros((len(x), 0))
    centre = region.low + (region.high - region.low) * region.rng.uniform(0.4, 0.6, size=x.shape[1])
    points = np.vstack([x, *(_beside(region, features, trace) for trace in traces)])
    counts = np.zeros((len(points), len(traces)), dtype=int)
    for rows in np.array_split(np.arange(len(points)), 1 + len(points) * 40 * features.width // MOST):
        owner, _, h = break_up(features, np.broadcast_to(centre, (len(rows), x.shape[1])), points[rows])
        extended = np.hstack([h, np.ones((len(h), 1))])
        goes_on = owner[:-1] == owner[1:]
        for j, trace in enumerate(traces):
            z, dark = extended @ trace.row, is_dark(trace, extended)
            crossed = goes_on & ((z[:-1] > 0) != (z[1:] > 0)) & ~dark[:-1] & ~dark[1:]
            counts[rows, j] = np.bincount(owner[:-1][crossed], minlength=len(rows))
    sides = 1.0 - 2.0 * (counts % 2)
    own = np.array([np.sum(sides[len(x) + 3 * j : len(x) + 3 * j + 3, j]) for j in range(len(traces))])
    return sides[: len(x)] * np.where(own < 0, -1.0, 1.0)


def _beside(region: Region, features: Known | Lifted, trace: Trace) -> np.ndarray:
    """Three points close to the zero set, on its positive side."""
    x = trace.places[[0, len(trace.places) // 2, -1]]
    normal = facets(features, np.repeat(trace.row[None], 3, axis=0), x)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    step = BESIDE * np.minimum(clearance(features, x), region.scale)
    return np.clip(x + step[:, None] * normal, region.low, region.high)


def keep_sides(
    region: Region, features: Known | Lifted, traces: list[Trace], more: np.ndarray | None = None
) -> np.ndarray:
    """The rows of the traces, where they are open such that every point has the sign that is counted.

    ``more``: points at which they surely are to have it.
    """
    rows = np.array([trace.row for trace in traces])
    some = [j for j, trace in enumerate(traces) if trace.null.shape[1]]
    if not some:
        return rows
    domain, d = region.inquiry.meter.domain, region.inquiry.input_size
    num = (1 + MORE) * POINTS
    more = np.zeros((0, d)) if more is None else more
    x = [domain.sample(num, d, region.rng), box_faces(region.low, region.high, num, region.rng)]
    x = np.clip(np.concatenate([more, *x]), region.low, region.high)
    sides = count_sides(region, features, [traces[j] for j in some], x)
    extended = np.hstack([features.features(x), np.ones((len(x), 1))])
    for place, j in enumerate(some):
        dark, side = is_dark(traces[j], extended), sides[:, place]
        held = np.flatnonzero(dark)
        held = np.union1d(held[:: 1 + MORE], held[held < len(more)])
        for _ in range(TURNS):
            wrong = np.flatnonzero(dark & (side * (extended @ rows[j]) < 0))
            if not len(wrong):
                break
            held = np.union1d(held, wrong)
            rows[j] = keep_signs(
                traces[j].row, traces[j].null, extended[held], side[held], np.ones(len(held)), room=0.05
            )
    return rows
