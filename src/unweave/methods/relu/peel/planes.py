"""Hyperplanes of the first layer by the votes of the pool's lines, from few normals.

A kink with its normal is a candidate. A unit of the first layer bends the answers where a line crosses its plane,
unless it is hidden there; a facet of a deeper unit ends at the first plane it meets. So a candidate is a plane of
the first layer if lines see it on both sides of several others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.follow import begin
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.peel.rates import Lookout

NEAR = 1e-7
"""Kinks closer to a plane than this, relative to the domain, lie on it."""
QUIET = 6
"""Lines in a row without a new plane after which the rest is left to what is followed."""
MANY, SEEN = 8, 0.6
"""Kinks on a plane, and the share of the lines crossing it that see it, by which other planes are judged, ..."""
HIDDEN, APART = 0.25, 3
"""... the share that see one that is partly hidden, and how many other planes it is seen on both sides of."""
PLACES = 24
"""Kinks of a plane from which it is followed."""


@dataclass
class _Candidate:
    trace: Trace
    kinks: np.ndarray
    share: float
    """Of the lines that cross it, those that see it."""


def find_planes(pool: Pool, scale: float) -> tuple[list[Trace], np.ndarray]:
    """Planes that surely are of the first layer, and one kink of each other plane that several lines see."""
    lookout, features = Lookout(pool, Known(pool.input_size)), Known(pool.input_size)
    taken = np.zeros(len(pool.x), dtype=bool)
    found: list[_Candidate] = []
    quiet = 0
    for line in range(len(pool.scans)):
        fresh = np.flatnonzero((pool.line == line) & ~taken)
        if not len(fresh):
            continue
        pool.measure(fresh, features)
        before = len(found)
        for kink in fresh[np.isfinite(pool.normal_error[fresh])]:
            if taken[kink]:
                continue
            one = _candidate(pool, lookout, int(kink), scale)
            if one is not None:
                found.append(one)
                taken[one.kinks] = True
        strong = [one for one in found[before:] if len(one.kinks) >= MANY and one.share >= SEEN]
        quiet = 0 if strong else quiet + 1
        if quiet >= QUIET:
            break
    judges = [one for one in found if len(one.kinks) >= MANY and one.share >= SEEN]
    sure = [one for one in found if len(one.kinks) >= MANY and _num_apart(pool, one, judges) >= APART]
    others = [one for one in found if not any(one is other for other in sure)]
    others = sorted(others, key=lambda one: -len(one.kinks))
    return [one.trace for one in sure], np.array([one.trace.seed for one in others], dtype=int)


def _candidate(pool: Pool, lookout: Lookout, kink: int, scale: float) -> _Candidate | None:
    """The plane of a kink, fitted to all kinks on it; None where no other lies on it, or most lines see nothing."""
    trace = begin(pool, Known(pool.input_size), kink)
    for _ in range(2):
        extended = np.hstack([pool.x, np.ones((len(pool.x), 1))])
        size = np.linalg.norm(trace.row[:-1])
        allowed = NEAR * scale * size + 5 * trace.spread(extended)
        kinks = np.flatnonzero(np.abs(extended @ trace.row) <= allowed)
        if len(kinks) < 2 or trace.spread(extended[kinks]).max() > 1e-3 * scale * size:
            return None
        trace = begin(pool, Known(pool.input_size), kink)
        trace.system = np.vstack([trace.system, extended[kinks]])
        errors = (pool.place_error[kinks] + 1e-14 * scale) * size
        trace.errors = np.append(trace.errors, errors)
        trace.solve()
    seen, crossed = lookout.rate(trace)
    share = seen / max(crossed, 1)
    if share < HIDDEN:
        return None
    trace.places = pool.x[np.append(kink, kinks[:: 1 + len(kinks) // PLACES])]
    return _Candidate(trace, kinks, share)


def _num_apart(pool: Pool, one: _Candidate, others: list[_Candidate]) -> int:
    """How many other planes it is seen on both sides of."""
    x = np.hstack([pool.x[one.kinks], np.ones((len(one.kinks), 1))])
    count = 0
    for other in others:
        if other is not one:
            side = x @ other.trace.row > 0
            count += bool(side.any() and not side.all())
    return count
