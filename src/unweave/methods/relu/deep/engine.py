"""A whole relu network, layer after layer, from one pool of lines, kinks and cells.

For l = 1, 2, ...: candidate rows in the known features, kept when their zero sets show where they should; entries
that no kink has shown are asked for; the sides follow from answers around corners of the layers below, or from the
output layer when the layer is the last; then the output layer is tried by least squares on every answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.extremes import extreme_lines, random_lines
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.spots import vote_sides
from unweave.methods.relu.deep.top import Top, fit_top, sides_if_last
from unweave.methods.relu.deep.units import aim_at_entries, find_units
from unweave.methods.relu.deep.view import LayerView

LAST = 1e-9
"""Median miss of the output layer, relative to the answers, below which a layer is the last."""


@dataclass
class Report:
    """How a recovery went."""

    notes: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.notes.append(text)


@dataclass(frozen=True)
class Recovered:
    """Known layers, the output layer where the last of them is the last hidden one, and what is open."""

    known: Known
    top: Top | None
    open_entries: tuple[tuple[int, int, int], ...] = ()


class Stuck(Exception):
    """A layer could not be finished."""


def recover(
    pool: Pool, *, num_lines: int = 8, max_layers: int = 8, max_attempts: int = 4, say=lambda text: None
) -> Recovered:
    d, domain = pool.input_size, pool.inquiry.meter.domain
    pool.add_lines(random_lines(domain, num_lines, d, pool.rng))
    best = Recovered(Known(d), None)
    served = 0
    for attempt in range(max_attempts):
        known, opened = Known(d), []
        try:
            while known.depth < max_layers:
                rows, entries = _find_layer(pool, known, say, first_time=known.depth + 1 > served)
                served = max(served, known.depth + 1)
                known = known.extended(rows)
                opened += [(known.depth, u, i) for u, i in entries]
                top = fit_top(pool, known)
                say(f"  output layer on {known.depth}: median miss {top.median_miss:.1e}, wrong {top.share_wrong:.4f}")
                if top.median_miss < LAST:
                    return Recovered(known, top, tuple(opened))
        except Stuck as stuck:
            say(f"*** attempt {attempt}: {stuck}")
        if known.depth > best.known.depth:
            best = Recovered(known, None, tuple(opened))
    return best


def _find_layer(pool: Pool, known: Known, say, *, first_time: bool, max_rounds: int = 3):
    domain, rng = pool.inquiry.meter.domain, pool.rng
    units: list[Candidate] = []
    if known.depth and first_time:
        pool.add_lines(extreme_lines(known, 6, domain, rng))
    for attempt in range(max_rounds):
        if attempt:
            more = extreme_lines(known, 6, domain, rng) if known.depth else random_lines(domain, 6, pool.input_size, rng)
            pool.add_lines(more)
        view = LayerView(pool, known)
        units = _gather_units(view, units)
        if not units:
            continue
        failed: dict = {}
        for _ in range(3):
            if all(unit.whole for unit in units) or not aim_at_entries(view, units, failed):
                break
            view.load()
            units = find_units(view, units)
        rows, seen = np.array([u.row for u in units]), np.array([u.seen for u in units])
        say(
            f"layer {known.depth + 1}: {len(units)} units, open entries {int((~seen).sum())}, lines {len(pool.scans)}, "
            f"queries {pool.num_queries}, hits {[(u.hits, u.predicted) for u in units]}, foreign {int(view.foreign.sum())}"
        )
        sides, how = _orient(pool, known, rows, seen, say)
        if sides is None:
            continue
        rows = rows * sides[:, None]
        rows = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        return np.where(seen, rows, 0.0), [(int(u), int(i)) for u, i in np.argwhere(~seen)]
    raise Stuck(f"layer {known.depth + 1}")


def _gather_units(view: LayerView, units: list[Candidate]) -> list[Candidate]:
    pool = view.pool
    if view.known.depth:
        pool.measure(view.open, view.known)
        view.load()
        return find_units(view, units)
    quiet = 0
    for line in np.flatnonzero(pool.is_random):
        view.load()
        explained = _explained(view, units)
        numbers = view.open[(pool.line[view.open] == line) & ~explained[view.open]]
        before = len(units)
        if np.any(np.isinf(pool.normal_error[numbers])):
            pool.measure(numbers, view.known)
            view.load()
            units = find_units(view, units)
            quiet = quiet + 1 if len(units) == before else 0
            if quiet >= 2:
                break
    return units


def _explained(view: LayerView, units: list[Candidate]) -> np.ndarray:
    """Which kinks of the pool lie on the zero set of a found unit."""
    from unweave.methods.relu.deep.membership import crossings
    from unweave.methods.relu.deep.view import nearest

    pool = view.pool
    out = np.zeros(len(pool.t), dtype=bool)
    for unit in units:
        line, t = crossings(view, unit.row, unit.seen)
        for i in np.unique(line):
            mine = np.flatnonzero(pool.line == i)
            out[mine] |= nearest(np.sort(t[line == i]), pool.t[mine]) <= 10 * view.tolerance(i, pool.t[mine])
    return out


def _orient(pool: Pool, known: Known, rows: np.ndarray, seen: np.ndarray, say):
    sides = sides_if_last(pool, known, rows, seen)
    if sides is not None:
        return sides, "last"
    votes, used = vote_sides(pool, known, rows, seen)
    say(f"  corners that spoke {used}, votes {votes.tolist()}")
    if not used or np.any(votes.sum(axis=1) == 0) or np.any(votes.min(axis=1) > 0):
        return None, ""
    return np.where(votes[:, 1] > votes[:, 0], 1.0, -1.0), "corners"
