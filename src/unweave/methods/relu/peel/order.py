"""Which units of a new generation stand above others of it: those that bend where they meet them.

Rays meet other zero sets by chance; here every zero set is followed to all others of its generation, and the share that
these have in it is measured. A unit of the layer has none.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.cross import measure_crossings
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.trace import NEW, Trace
from unweave.methods.relu.deep.tracks import DARK
from unweave.methods.relu.deep.walk import Meetings, wander
from unweave.methods.relu.peel.trails import Region, count_borders

PARTICLES, STEPS, ROUNDS = 12, 24, 4
BENT = 1e-6
"""Share of another unit, relative to the row, above which a trace bends there ..."""
DEVIATIONS = 8.0
"""... if it is that many of its errors, too."""


def bends_among(region: Region, features: Known | Lifted, traces: list[Trace]) -> np.ndarray:
    """(m, m): shares of the others in each trace, relative to its row; nan where they never meet."""
    m, first = len(traces), features.width
    found = np.full((m, m), np.nan)
    if m < 2:
        return found
    rows = np.array([trace.row for trace in traces])
    rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    others = [np.flatnonzero(np.arange(m) != a) for a in range(m)]
    wider = [extend(trace, m - 1) for trace in traces]
    hints: list[list[np.ndarray]] = [[] for _ in range(m)]
    for _ in range(ROUNDS):
        for a, trace in enumerate(wider):
            among = Lifted(features, rows[others[a]])
            x = trace.places[region.rng.integers(len(trace.places), size=PARTICLES)]
            if hints[a]:  # where others met it
                x = np.vstack([x, hints[a]])
                hints[a] = []
            owner = np.zeros(len(x), dtype=int)
            meetings = wander(among, [trace], owner, x, region.low, region.high, region.rng, STEPS)
            meetings = meetings.take(np.flatnonzero(~trace.strays(features, meetings.x)))
            meetings = meetings.take(np.flatnonzero(_is_there(features, traces, others[a], meetings)))
            x = x[~trace.strays(features, x)]
            trace.places = np.vstack([trace.places[:PARTICLES], x])
            if not len(meetings):
                continue
            good = measure_crossings(region.inquiry, [trace], meetings)
            if not good.any():
                continue
            trace.solve()
            for row in np.flatnonzero(good):
                b = others[a][meetings.border[row] - count_borders(features)]
                if np.isnan(found[b, a]):
                    hints[b] += _beside(meetings, int(row))
            seen = trace.seen[first : first + m - 1]
            share, error = trace.row[first:-1], np.linalg.norm(trace.root[first:-1], axis=1)
            length = np.linalg.norm(trace.row[:-1])
            small = np.abs(share) <= np.maximum(BENT * length, DEVIATIONS * error)
            found[a, others[a][seen]] = np.where(small, 0.0, share / length)[seen]
    return found


def _beside(meetings: Meetings, row: int) -> list[np.ndarray]:
    """Places on the border that is met, on both sides of the one that meets it."""
    normal, facet = meetings.normal[row], meetings.facet[row]
    along = facet - (facet @ normal) * normal
    size = np.linalg.norm(along)
    if not size > 1e-6 * np.linalg.norm(facet):
        return []
    step = 0.3 * meetings.room[row] * along / size
    return [meetings.x[row] + step, meetings.x[row] - step]


def _is_there(
    features: Known | Lifted, traces: list[Trace], others: np.ndarray, meetings: Meetings
) -> np.ndarray:
    """Where the border that is met is part of another trace as far as that is known."""
    h, jac = features.jacobian(meetings.x)
    extended = np.hstack([h, np.ones((len(h), 1))])
    number = meetings.border - count_borders(features)
    there = np.zeros(len(meetings), dtype=bool)
    for row in np.flatnonzero(number >= 0):
        trace = traces[others[number[row]]]
        told = np.vstack([extended[row], np.hstack([jac[row].T, np.zeros((jac.shape[2], 1))])])
        there[row] = bool(np.all(trace.is_known(told)))
    return there


class Extended(Trace):
    """A trace over the other units of its generation, too, taken to be none of them until it meets them."""

    first: int = 0

    def strays(self, features: Known | Lifted, x: np.ndarray) -> np.ndarray:
        """Which places lie where the trace is not known."""
        extended = np.hstack([features.features(x), np.ones((len(x), 1))])
        null = np.vstack([self.null[: self.first], self.null[-1:]])
        return np.linalg.norm(extended @ null, axis=1) > DARK * np.linalg.norm(extended, axis=1)

    def is_known(self, w: np.ndarray) -> np.ndarray:
        below = np.hstack([w[:, : self.first], w[:, -1:]])
        null = np.vstack([self.null[: self.first], self.null[-1:]])
        size = np.linalg.norm(below, axis=1)
        among = size <= 1e-9 * np.linalg.norm(w, axis=1)
        known = np.linalg.norm(below @ null, axis=1) <= 10 * NEW * np.maximum(size, 1e-300)
        return np.where(among, super().is_known(w), known)


def extend(trace: Trace, more: int) -> Extended:
    """The trace over as many features more, of which nothing is known."""
    width = len(trace.row) - 1

    def wide(part: np.ndarray) -> np.ndarray:
        shape = (*part.shape[:-1], more)
        return np.concatenate([part[..., :width], np.zeros(shape), part[..., width:]], axis=-1)

    new = np.zeros((width + 1 + more, more))
    new[width : width + more] = np.eye(more)
    wider = Extended(
        trace.seed,
        trace.places,
        wide(trace.gauge),
        wide(trace.system),
        trace.errors,
        wide(trace.span.T).T,
        np.hstack([wide(trace.null.T).T, new]),
        trace.crossed,
    )
    wider.first = width
    return wider


def settle(bends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which traces are units of the layer, and which stand above it; the others may be either.

    One that goes straight over a unit of the layer is no unit above it. The first is the one at which most others bend,
    and of several the one that goes straight over most.
    """
    bent = np.abs(np.nan_to_num(bends)) > 0
    straight, above = bends == 0, np.asarray(bent.any(axis=1))
    sure = np.zeros(len(bends), dtype=bool)
    if not len(bends) or above.all():
        return sure, above
    votes = bent.sum(axis=0) + straight[:, ~above].sum(axis=1) / (1 + len(bends))
    sure[int(np.argmax(np.where(above, -1.0, votes)))] = True
    while True:
        more = ~sure & ~above & straight[:, sure].any(axis=1)
        if not more.any():
            return sure, np.asarray(bent[:, sure].any(axis=1))
        sure |= more
