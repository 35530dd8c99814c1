"""Particles on the zero sets of traces, over known layers: where these meet borders across which they are not known.

A particle moves straight in its facet to the first border of a known unit; where the trace is known beyond, it goes on
along the bent facet, else it turns back. Offline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.trace import Trace

TIGHT = 1e-7
"""Room around a meeting, relative to its place, below which it is of no use."""
TURN, STRAY = 8, 0.5
"""Steps after which a particle heads for another border, and how far it strays from the straight way."""
SAME = 0.05
"""Meetings closer than this share of the room around them are one."""
TRIES = 3
"""Meetings of a trace and a border that are asked at in vain."""


@dataclass(frozen=True)
class Meetings:
    """Places where zero sets meet borders."""

    trace: np.ndarray
    border: np.ndarray
    x: np.ndarray
    side: np.ndarray
    """The sign of the border's unit where the trace is known."""
    normal: np.ndarray
    """Unit normal of the border, towards its unit's positive side, and how fast that unit grows there."""
    rate: np.ndarray
    facet: np.ndarray
    """The trace's gradient on the known side, and the change of the features beyond, a rate of the border's unit."""
    change: np.ndarray
    room: np.ndarray

    def __len__(self) -> int:
        return len(self.trace)

    def take(self, rows: np.ndarray) -> Meetings:
        return Meetings(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def wander(
    features: Known | Lifted,
    traces: list[Trace],
    owner: np.ndarray,
    x: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
    num_steps: int = 40,
) -> Meetings:
    """Move particles ``x``, in place, on the zero sets of the traces ``owner``; every meeting, the roomiest of a kind.

    Each heads for the border of a unit whose share is open, another one from time to time.
    """
    rows = np.array([trace.row for trace in traces])[owner]
    n, d = x.shape
    at = np.arange(n)
    found: list[tuple[np.ndarray, ...]] = []
    goal = np.zeros(n, dtype=int)
    for turn in range(num_steps):
        if turn % TURN == 0:
            goal = _choose_goals(features, traces, owner, rng)
        x[:] = _settle(features, rows, x)
        _, jac = features.jacobian(x)
        zs, gs = features.gradients(x)
        z, g = np.concatenate(zs, axis=1), np.concatenate(gs, axis=1)
        facet = np.einsum("np,npd->nd", rows[:, :-1], jac)
        aim = goal >= 0
        v = rng.standard_normal(x.shape)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        towards = -np.sign(z[at, goal])[:, None] * g[at, goal]
        towards /= np.maximum(np.linalg.norm(towards, axis=1, keepdims=True), 1e-300)
        v = _along(np.where(aim[:, None], towards + STRAY * v, v), facet)
        speed = np.einsum("nbd,nd->nb", g, v)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(speed * z < 0, -z / speed, np.inf)
            walls = np.where(v > 0, (high - x) / v, np.where(v < 0, (low - x) / v, np.inf))
        border, wall = np.argmin(times, axis=1), np.maximum(np.min(walls, axis=1), 0.0)
        time = times[at, border]
        ends = wall <= time
        way = np.where(ends, wall, time)
        size = np.linalg.norm(g, axis=2)
        there = x + way[:, None] * v
        apart = np.abs(z + way[:, None] * speed) / np.maximum(size, 1e-300)
        apart[size < 1e-12] = np.inf
        apart[at, border] = np.inf
        room = np.minimum(apart.min(axis=1), np.minimum(there - low, high - there).min(axis=1))
        tight = ~(room > TIGHT * (1 + np.linalg.norm(there, axis=1)))
        stay = ends | tight | ~np.isfinite(way)
        normal = g[at, border] / np.maximum(size[at, border], 1e-300)[:, None]
        out = -np.sign(z[at, border])[:, None] * normal
        eps = np.where(stay, 0.0, 0.2 * room)[:, None]
        safe = np.where(stay[:, None], x, there)
        _, beyond = features.jacobian(safe + eps * out)
        change = np.einsum("npd,nd->np", beyond - jac, out) / np.maximum(size[at, border], 1e-300)[:, None]
        change[stay] = 0.0
        known = np.zeros(n, dtype=bool)
        for j in np.unique(owner):
            mine = np.flatnonzero(owner == j)
            known[mine] = traces[j].is_known(np.hstack([change[mine], np.zeros((len(mine), 1))]))
        after = np.einsum("np,npd->nd", rows[:, :-1], beyond)
        goes = ~stay & known & (np.linalg.norm(after, axis=1) > 1e-9 * np.linalg.norm(facet, axis=1))
        meets = np.flatnonzero(~stay & ~known)
        if len(meets):
            found.append(
                (
                    owner[meets],
                    border[meets],
                    there[meets],
                    np.sign(z[at, border])[meets],
                    normal[meets],
                    size[at, border][meets],
                    facet[meets],
                    change[meets],
                    room[meets],
                )
            )
        slide = _along(out, after)
        x[:] = np.where(
            goes[:, None],
            safe + 0.5 * np.where(stay, 0.0, room)[:, None] * slide,
            x + 0.6 * np.where(np.isfinite(way), way, 0.0)[:, None] * v,
        )
    if not found:
        return _no_meetings(d, rows.shape[1] - 1)
    return _roomiest(Meetings(*(np.concatenate(parts) for parts in zip(*found, strict=True))), traces)


def _settle(features, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The nearest point of the zero set, within the cell."""
    for _ in range(2):
        h, jac = features.jacobian(x)
        facet = np.einsum("np,npd->nd", rows[:, :-1], jac)
        z = np.sum(rows[:, :-1] * h, axis=1) + rows[:, -1]
        x = x - (z / np.maximum(np.einsum("nd,nd->n", facet, facet), 1e-300))[:, None] * facet
    return x


def _choose_goals(features, traces: list[Trace], owner: np.ndarray, rng) -> np.ndarray:
    """For each particle the number of a border of the last layers whose share is open; -1 where there is none."""
    count = sum(g.shape[1] for g in features.gradients(np.zeros((1, features.input_size)))[1])
    last = len(features.gradients(np.zeros((1, features.input_size)))[1][-1][0])
    if features.width == features.input_size + count:  # without sides every unit is a feature
        last = count
    goal = np.full(len(owner), -1)
    for j, trace in enumerate(traces):
        mine = np.flatnonzero(owner == j)
        share = np.linalg.norm(trace.null[-1 - last : -1], axis=1)
        open_units = np.flatnonzero(share > 1e-6)
        open_units = open_units[[trace.failures.get(count - last + int(u), 0) < TRIES for u in open_units]]
        if len(open_units):
            goal[mine] = count - last + rng.choice(open_units, size=len(mine))
    return goal


def _along(direction: np.ndarray, facet: np.ndarray) -> np.ndarray:
    """The direction within the facet, of length one."""
    size = np.maximum(np.einsum("nd,nd->n", facet, facet), 1e-300)
    v = direction.copy()
    for _ in range(2):  # once more: in two inputs little is left of v
        v -= (np.einsum("nd,nd->n", v, facet) / size)[:, None] * facet
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300)


def _roomiest(meetings: Meetings, traces: list[Trace]) -> Meetings:
    """For each trace and border the meeting with most room, less where both are nearly parallel."""
    size = np.maximum(np.linalg.norm(meetings.facet, axis=1), 1e-300)
    along = np.abs(np.einsum("nd,nd->n", meetings.facet, meetings.normal)) / size
    score = meetings.room * np.sqrt(np.maximum(1 - along**2, 0.0))
    failed = np.array(
        [traces[j].failures.get(int(b), 0) for j, b in zip(meetings.trace, meetings.border, strict=True)]
    )
    again = np.array(
        [_is_dead_end(traces[j], meetings, row) for row, j in enumerate(meetings.trace)], dtype=bool
    )
    kept = np.flatnonzero((score > 0) & (failed < TRIES) & ~again)
    meetings, score = meetings.take(kept), score[kept]
    key = meetings.trace * (int(meetings.border.max(initial=0)) + 1) + meetings.border
    order = np.lexsort((-score, key))
    first = np.append(True, np.diff(key[order]) > 0)[: len(order)]
    return meetings.take(order[first])


def _is_dead_end(trace: Trace, meetings: Meetings, row: int) -> bool:
    """Whether it was asked at this place before, in vain."""
    border, x, near = int(meetings.border[row]), meetings.x[row], SAME * meetings.room[row]
    return any(b == border and np.max(np.abs(x - place)) < near for b, place in trace.dead_ends)


def _no_meetings(d: int, p: int) -> Meetings:
    none, empty = np.zeros(0, dtype=int), np.zeros(0)
    wide = np.zeros((0, d))
    return Meetings(none, none, wide, empty, wide, empty, wide, np.zeros((0, p)), empty)
