"""Traces made whole by kinks, and by each other: what is known of one unit from two sides leaves one row.

A trace leaves the rows ``row + null a``, a kink says d linear equations of its unit's row. Where a trace has fewer
directions open than that, some row obeys the kink only if both are of one unit, and then it is told. Two traces that
have been followed so far that together they know more than a row has weights are told to be of one unit in the same
way. Nothing is asked: lines meet most zero sets more than once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.unite import unite

SPARE = 3
"""Equations that have to be left over when a row is told."""
FITS = 1e-6
"""Relative miss up to which a row obeys them."""
CLEAR = 1e-4
"""Relative size from which an equation tells something."""


@dataclass(frozen=True)
class KinkEquations:
    """What kinks with normals say of rows: ``system`` (m, d + 1, p + 1), rows of length one or zero, vanishes."""

    number: np.ndarray
    system: np.ndarray
    size: np.ndarray
    """Lengths (m, d + 1) of these rows before."""
    jac: np.ndarray
    error: np.ndarray
    """Errors (m, 2) of normals and of places."""
    rank: np.ndarray

    @staticmethod
    def at(pool, features, number: np.ndarray) -> KinkEquations:
        x, g = pool.x[number], pool.normal[number]
        h, jac = features.jacobian(x)
        across = np.swapaxes(jac, 1, 2) - g[:, :, None] * np.einsum("mpd,md->mp", jac, g)[:, None, :]
        normals = np.concatenate([across, np.zeros((*across.shape[:2], 1))], axis=2)
        places = np.hstack([h, np.ones((len(x), 1))])[:, None]
        system = np.concatenate([normals, places], axis=1)
        size = np.maximum(np.linalg.norm(system, axis=2), 1e-300)
        scaled = system / np.maximum(size, 1e-9 * size.max(axis=1, keepdims=True, initial=1e-300))[:, :, None]
        s = np.linalg.svd(scaled, compute_uv=False)
        rank = np.sum(s > CLEAR * np.maximum(s[:, :1], 1e-300), axis=1) if len(x) else np.zeros(0, dtype=int)
        far = 1 + np.linalg.norm(x, axis=1)
        error = np.stack([pool.normal_error[number] + 1e-13, pool.place_error[number] + 1e-14 * far], axis=1)
        return KinkEquations(number, scaled, size, jac, error, rank)


def take_kinks(trace: Trace, kinks: KinkEquations) -> bool:
    """Whether one of the kinks, the one that leaves most to spare, has told the trace more of its row."""
    rows = np.column_stack([trace.row / np.linalg.norm(trace.row), trace.null])
    may = np.flatnonzero((kinks.rank >= SPARE + 1) & (kinks.number != trace.seed))
    if not len(may) or rows.shape[1] < 2:
        return False
    system = kinks.system[may] @ rows
    _, s, vt = np.linalg.svd(system, full_matrices=True)
    s = np.pad(s, ((0, 0), (0, max(rows.shape[1] - s.shape[1], 0))))
    # what the equations say of directions that are open, whatever the row
    told = np.sum(s > CLEAR, axis=1)
    spare = kinks.rank[may] - told
    between = np.any((s > FITS) & (s <= CLEAR), axis=1)
    least = np.where(s <= FITS, np.abs(vt[:, :, 0]), 0.0)
    obeys = (np.linalg.norm(least, axis=1) > 0.01) & (spare >= SPARE) & ~between & (told > 0)
    for at in np.flatnonzero(obeys)[np.argsort(-told[obeys], kind="stable")]:
        kink = int(may[at])
        free = vt[at][s[at] <= FITS]
        row = rows @ (free.T @ free[:, 0])
        row = row / (trace.gauge @ row)
        facet = np.linalg.norm(kinks.jac[kink].T @ row[:-1])
        if not facet > 1e-9 * np.linalg.norm(kinks.jac[kink]) * np.linalg.norm(row):
            continue
        num = len(kinks.size[kink]) - 1
        errors = facet * np.append(np.full(num, kinks.error[kink, 0]), kinks.error[kink, 1])
        before = trace.null.shape[1]
        trace.obey(kinks.system[kink] * kinks.size[kink][:, None], errors)
        if trace.null.shape[1] < before:
            return True
    return False


def join_traces(traces: list[Trace]) -> list[Trace]:
    """The traces, those of one unit as one."""
    found: list[Trace] = []
    for trace in sorted(traces, key=lambda trace: trace.null.shape[1]):
        for place, other in enumerate(found):
            known = 2 * len(trace.row) - trace.null.shape[1] - other.null.shape[1] - 2
            if not (trace.null.shape[1] or other.null.shape[1]) or known < len(trace.row) + SPARE:
                continue
            both = unite(other, trace)
            if both is not None and _turns_there(both, trace):
                both.failures = {b: min(n, trace.failures.get(b, n)) for b, n in other.failures.items()}
                both.blocked = other.blocked & trace.blocked
                found[place] = both
                break
        else:
            found.append(trace)
    return found


def _turns_there(both: Trace, trace: Trace) -> bool:
    """Whether the row has a zero set where the trace began."""
    size = np.linalg.norm(trace.gauge) * np.linalg.norm(both.row)
    return bool(abs(trace.gauge @ both.row) > 1e-9 * size)
