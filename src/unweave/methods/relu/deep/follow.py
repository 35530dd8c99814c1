"""Units above known layers from one kink each, followed over borders of the known units.

Where more features are active than there are inputs a kink tells little of its unit's row. Its zero set is followed:
particles find where it meets borders that are not crossed yet (``walk``), a few questions tell the share of what
changes there (``cross``). Zero sets of units farther above bend where nothing known does, and are lost soon.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.methods.relu.deep.cross import measure_crossings
from unweave.methods.relu.deep.extremes import is_bounded
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.shared import KinkEquations, join_traces, take_kinks
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.walk import wander

PARTICLES = 12
FIRST, LATER = (2, 3, 6), 8
"""Borders that a trace is tried at in its first rounds: most that begin at deeper units are lost there. And later: what
it has in common with kinks and with others may tell the rest."""
SLACK = 3
"""Failures that a trace may have before it is lost, besides half of the borders that it has crossed."""
QUIET = 2
"""Rounds in a row without a crossing after which nothing more is to be had."""


def follow(
    pool: Pool,
    features: Known | Lifted,
    traces: list[Trace],
    *,
    sure: bool = False,
    strict: bool = False,
    kinks: np.ndarray | None = None,
    max_rounds: int = 24,
    say: Callable[[str], None] = lambda text: None,
) -> list[Trace]:
    """The traces as far as they go; those that were lost are left out unless they are ``sure`` to be units.

    ``strict``: lost are all that do not show wherever they should, at any border that they meet. ``kinks``: such as may
    be of the same units, with normals.
    """
    rng = pool.rng
    low, high = follow_box(pool)
    quiet, number = 0, np.zeros(0, dtype=int) if kinks is None else kinks
    others = KinkEquations.at(pool, features, number)
    for turn in range(max_rounds):
        if not sure:
            traces = drop_twins(pool, features, traces)
        live = [trace for trace in traces if trace.null.shape[1]]
        if not live:
            break
        owner = np.repeat(np.arange(len(live)), PARTICLES)
        x = np.concatenate([_some(trace.places, rng) for trace in live])
        meetings = wander(features, live, owner, x, low, high, rng)
        for j, trace in enumerate(live):
            trace.places = np.vstack([trace.places[: -PARTICLES or None][:PARTICLES], x[owner == j]])
        if len(meetings) and not sure:  # few of each while it is not clear which are lost
            rank = np.zeros(len(meetings), dtype=int)
            for j in np.unique(meetings.trace):
                mine = np.flatnonzero(meetings.trace == j)
                rank[mine[np.argsort(-meetings.room[mine])]] = np.arange(len(mine))
            meetings = meetings.take(np.flatnonzero(rank < (*FIRST, LATER)[min(turn, len(FIRST))]))
        crossed = (
            measure_crossings(pool.inquiry, live, meetings) if len(meetings) else np.zeros(0, dtype=bool)
        )
        for j in np.unique(meetings.trace[crossed]):
            live[j].solve()
            while take_kinks(live[j], others):
                pass
        if not sure:
            traces = join_traces(traces)
            traces = [trace for trace in traces if trace.num_failures < SLACK + trace.crossed / 2]
        if strict:
            traces = [trace for trace in traces if len(trace.blocked) < 2]
        quiet = 0 if crossed.any() else quiet + 1
        say(
            f"    follow {turn}: {len(traces)} traces, {int(crossed.sum())} of {len(meetings)} crossed, "
            f"open {[t.null.shape[1] for t in traces]}, queries {pool.num_queries}"
        )
        if quiet >= QUIET:
            break
    if strict:
        traces = [trace for trace in traces if not trace.blocked]
    return traces if sure else drop_twins(pool, features, traces)


def begin(pool: Pool, features: Known | Lifted, kink: int) -> Trace:
    """What one kink says of its unit's row."""
    x, g = pool.x[kink], pool.normal[kink]
    h, jac = features.jacobian(x[None])
    place = pool.place_error[kink] + 1e-14 * (1 + np.linalg.norm(x))
    errors = np.append(np.full(len(g), pool.normal_error[kink] + 1e-13), place)
    return Trace.begin(kink, x, h[0], jac[0], g, errors)


def _some(places: np.ndarray, rng) -> np.ndarray:
    """Where particles start."""
    return places[rng.integers(len(places), size=PARTICLES)]


def drop_twins(pool: Pool, features: Known | Lifted, traces: list[Trace]) -> list[Trace]:
    """Of traces on one zero set the one that knows more."""
    order = sorted(traces, key=lambda trace: trace.null.shape[1])
    kept: list[Trace] = []
    for trace in order:
        if not any(lies_on(pool, features, other, np.array([trace.seed]))[0] for other in kept):
            kept.append(trace)
    return kept


def lies_on(pool: Pool, features: Known | Lifted, trace: Trace, kinks: np.ndarray) -> np.ndarray:
    """Which kinks, with normals, lie on what is known of the trace's zero set."""
    x, g = pool.x[kinks], pool.normal[kinks]
    h, jac = features.jacobian(x)
    extended = np.hstack([h, np.ones((len(x), 1))])
    facet = np.einsum("p,npd->nd", trace.row[:-1], jac)
    size = np.maximum(np.linalg.norm(facet, axis=1), 1e-300)
    dark = np.zeros(len(x), dtype=bool)
    if trace.null.shape[1]:
        away = np.einsum("npd,pq->ndq", jac, trace.null[:-1])
        dark = np.max(np.abs(away), axis=(1, 2), initial=0.0) > 1e-4 * np.linalg.norm(jac, axis=(1, 2))
        dark |= np.linalg.norm(extended @ trace.null, axis=1) > 1e-4 * np.linalg.norm(extended, axis=1)
    far = np.abs(extended @ trace.row) / size
    cosine = np.abs(np.sum(facet * g, axis=1)) / size
    allowed = 1e-6 * (1 + np.linalg.norm(x, axis=1)) + 10 * trace.spread(extended) / size
    return ~dark & (far < allowed) & (cosine > 1 - 1e-5)


def follow_box(pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    """Where zero sets are followed: the domain's own box, or around most of the kinks."""
    domain, d = pool.inquiry.meter.domain, pool.input_size
    if is_bounded(domain, d):
        points = np.concatenate([domain.sample(200, d, pool.rng), domain.edge(400, d, pool.rng)])
        return points.min(axis=0), points.max(axis=0)
    reach = 2 * float(np.quantile(np.abs(pool.x), 0.9))
    return np.full(d, -reach), np.full(d, reach)
