"""Units of any layer in a bounded domain, without their sides, one generation on top of the other.

Without sides the features of a relu network are ``(x, |u|)``, u the units of all layers found so far: a unit above them
is a row in these features, and so is the network itself. A kink that nothing explains begins a trace; what it meets of
known borders is crossed (``follow``), and where its zero set shows wherever lines meet it, it is a unit. Zero sets of
units farther above bend where nothing known does: they wait for the next generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.core import clock
from unweave.methods.relu.deep.confirm import bends
from unweave.methods.relu.deep.extremes import random_lines
from unweave.methods.relu.deep.follow import begin, follow
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.settle import rows_of, settle
from unweave.methods.relu.deep.top import Top, fit_top
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.tracks import Track, complete, is_dark, lowered
from unweave.methods.relu.deep.unite import unite_traces
from unweave.methods.relu.deep.view import nearest
from unweave.probes.lines import line_through

PLACE = 1e-7
"""A predicted crossing and a kink closer than this, relative to the domain, are the same."""
HITS, FEW = 0.95, 4
"""Share of predicted crossings that must show, and how few of them do not tell."""
FRESH = 400
"""Fresh points on which the network is tried."""
QUIET = 3
"""Lines in a row whose kinks begin no unit after which a generation is taken to be whole."""
OFFLINE = 400
"""Points at which signs are kept, besides those of lines."""
NEW_LINES, TOWARDS = 8, 6
"""Lines that are added where units are missing, and through answers that contradict."""


@dataclass
class Sideless:
    """The units found so far over a pool of lines."""

    pool: Pool
    deadline: float
    say: Callable[[str], None] = lambda text: None
    features: Known | Lifted = field(init=False)
    traces: list[list[Trace]] = field(default_factory=list)
    """Of every generation."""
    demoted: set[tuple[int, int, int]] = field(default_factory=set)
    least_crossed: int = 2

    def __post_init__(self) -> None:
        self.features = Known(self.pool.input_size)

    def tracks(self, features) -> list[Track]:
        """Every line in the features."""
        lines = self.pool.lines
        assert lines is not None
        return [Track.along(features, lines, i) for i in range(len(lines))]

    def unexplained(self) -> np.ndarray:
        """Kinks that no unit found so far explains."""
        pool, lines = self.pool, self.pool.lines
        assert lines is not None
        out = np.zeros(len(pool.t), dtype=bool)
        for i in range(len(lines)):
            mine = np.flatnonzero(pool.line == i)
            known = self.features.breaks(lines, i)[1:-1]
            out[mine] = nearest(known, pool.t[mine]) > PLACE * lines.scale[i]
        # kinks too close to others for their normals begin nothing
        return np.flatnonzero(out & ~((pool.kink_cells[:, 0] >= 0) & np.isinf(pool.normal_error)))

    def recover(self, num_lines: int, suspects: np.ndarray | None = None, max_rounds: int = 6) -> Top:
        """Lines, units and the output layer, until no answer contradicts or nothing more is found."""
        pool = self.pool
        domain, d, rng = pool.inquiry.meter.domain, pool.input_size, pool.rng
        pool.add_lines(random_lines(domain, num_lines, d, rng))
        self.search([])
        for turn in range(max_rounds):
            top = fit_top(pool, self.features)
            if top.is_output:
                fresh = [self._fresh_points(), domain.edge(FRESH // 4, d, rng)]
                pool.inquiry.meter.ask(np.concatenate([*fresh, *([] if suspects is None else [suspects])]))
                top = fit_top(pool, self.features)
            self.say(
                f"round {turn}: {[len(part) for part in self.traces]} units, {len(self.unexplained())} of "
                f"{len(pool.t)} kinks unexplained, median {top.median_miss:.1e}, wrong {top.share_wrong:.4f}, "
                f"{pool.num_queries} queries"
            )
            if top.is_output and top.wrong.any():
                nulls = [[trace.null for trace in part] for part in self.traces]
                features, settled = settle(pool, Known(d), self.features, nulls, say=self.say)
                if not settled.wrong.any():
                    self.features = features
                    return settled
            if (top.is_output and not top.wrong.any()) or clock.now() > self.deadline:
                break
            if top.is_output:
                x, wrong = top.x, top.wrong
                starts = x[wrong][rng.integers(wrong.sum(), size=TOWARDS)]
                goals = x[~wrong][rng.integers((~wrong).sum(), size=TOWARDS)]
                more = line_through(domain, starts, goals + 1e-3 * rng.standard_normal(goals.shape))
            else:
                more = random_lines(domain, NEW_LINES, d, rng)
            pool.add_lines(more)
            self.search(self.refresh())
        return top

    def _fresh_points(self) -> np.ndarray:
        """A point in every cell of the units that many points show: whatever bends in vain has cells of its own."""
        domain, d, rng = self.pool.inquiry.meter.domain, self.pool.input_size, self.pool.rng
        x = domain.sample(10 * FRESH, d, rng)
        sides = np.concatenate(self.features.gradients(x)[0], axis=1) > 0
        first = np.unique(sides, axis=0, return_index=True)[1]
        return x[rng.permutation(first)[:FRESH]]

    def refresh(self) -> list[int]:
        """Complete units anew that bend where new lines show nothing; kinks of those above, to begin anew."""
        for g in range(1, len(self.traces)):
            below = self._below(g)
            rows = rows_of(self.features)[g]
            if g < len(self.traces) - 1 and not self._is_spurious(below, rows):
                continue
            above = [trace.seed for part in self.traces[g + 1 :] for trace in part]
            old = self.traces[g]
            self.features, self.traces = below, self.traces[:g]
            if above:
                self._add(old)
                return above
            self.grow([], old)
        return []

    def _is_spurious(self, below, rows: np.ndarray) -> bool:
        """Whether some of the units bend along a line where there is no kink."""
        pool = self.pool
        assert pool.lines is not None
        for i, track in enumerate(self.tracks(below)):
            z = track.features @ rows.T
            at, unit = np.nonzero((z[:-1] > 0) != (z[1:] > 0))
            t = track.t[at] + (track.t[at + 1] - track.t[at]) * z[at, unit] / (z[at, unit] - z[at + 1, unit])
            line = np.full(len(t), i)
            if np.any(~pool.is_border(line, t, PLACE * pool.lines.scale[line]) & ~pool.is_flat(line, t)):
                return True
        return False

    def search(self, first: list[int], max_rounds: int = 12) -> None:
        """Generation after generation; units that turn out to stand lower than they were found go there."""
        stalls = 0
        for _ in range(max_rounds):
            if clock.now() > self.deadline:
                break
            grown = self.grow(first)
            first = self._demote()
            if grown or first:
                continue
            if not len(self.unexplained()) or stalls == 2 or not self.traces:
                break
            stalls += 1
            kept = self.traces[-1]
            self.features, self.traces = self._below(len(self.traces) - 1), self.traces[:-1]
            self.least_crossed = 2 if stalls == 1 else 0
            self.grow([], kept)
            self.least_crossed = 2

    def _demote(self) -> list[int]:
        """Put units that bend at no border of the generation before theirs down; kinks of those above it, to begin."""
        ends = self.pool.input_size + np.cumsum([0, *(len(part) for part in self.traces)])
        for g in range(1, len(self.traces) - 1):
            below = self._below(g)
            tracks, found = None, []
            for h in range(g + 1, len(self.traces)):
                for trace in self.traces[h]:
                    key = trace.seed, g, trace.null.shape[1]
                    one = None if key in self.demoted else lowered(trace, int(ends[g]), int(ends[h]))
                    self.demoted.add(key)
                    if one is not None:
                        tracks = self.tracks(below) if tracks is None else tracks
                        found += [one] if self._shows(below, one, tracks) else []
            if not found:
                continue
            kept = {trace.seed for trace in found}
            above = [trace.seed for part in self.traces[g + 1 :] for trace in part if trace.seed not in kept]
            self.say(f"*** generation {g}: {len(found)} units more; {len(above)} above anew")
            old = self.traces[g]
            self.features, self.traces = below, self.traces[:g]
            self._add(unite_traces([*old, *found]))
            return above
        return []

    def _trace(self, features, seeds: np.ndarray, tracks: list[Track], least: int) -> list[Trace]:
        """Units over the features behind the numbered kinks."""
        pool = self.pool
        pool.measure(seeds, Known(pool.input_size))
        seeds = seeds[np.isfinite(pool.normal_error[seeds])]
        traces = follow(pool, features, [begin(pool, features, int(m)) for m in seeds], strict=True)
        good = [trace for trace in traces if trace.crossed >= least and self._shows(features, trace, tracks)]
        self.say(
            f"    {len(seeds)} seeds, {len(traces)} followed, {len(good)} show, {pool.num_queries} queries"
        )
        return good

    def _add(self, found: list[Trace]) -> None:
        pool, tracks = self.pool, self.tracks(self.features)
        for trace in found:
            self._sharpen(trace, tracks)
        offline = pool.inquiry.meter.domain.sample(OFFLINE, pool.input_size, pool.rng)
        rows = np.array([complete(trace, self.features, tracks, offline) for trace in found])
        rows /= np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        self.features = Lifted(self.features, rows)
        self.traces.append(found)

    def _below(self, generation: int):
        features = self.features
        for _ in range(len(self.traces) - generation):
            assert isinstance(features, Lifted)
            features = features.known
        return features

    def grow(self, first: list[int], kept: list[Trace] | None = None) -> int:
        """One more generation of units on top of the features; how many. ``first``: kinks to begin with."""
        pool, tracks, left = self.pool, self.tracks(self.features), self.unexplained()
        found: list[Trace] = list(kept or [])
        tried: set[int] = set()
        quiet = 0
        h, jac = self.features.jacobian(pool.x[left])
        extended = np.hstack([h, np.ones((len(left), 1))])
        while clock.now() < self.deadline and quiet < QUIET:
            owned = np.zeros(len(left), dtype=bool)
            for trace in found:
                size = np.linalg.norm(np.einsum("p,npd->nd", trace.row[:-1], jac), axis=1)
                near = np.abs(extended @ trace.row) <= PLACE * self._scale * size
                owned |= near & (size > 0) & ~is_dark(trace, extended)
            free = left[~owned & ~np.isin(left, list(tried))]
            if not len(free):
                break
            seeds = free[np.isin(free, first)] if not tried else free[:0]
            if not len(seeds):
                lines, counts = np.unique(pool.line[free], return_counts=True)
                seeds = free[pool.line[free] == lines[np.argmax(counts)]]
            tried.update(int(m) for m in seeds)
            before = len(found)
            least = self.least_crossed if self.traces else 0
            found = unite_traces([*found, *self._trace(self.features, seeds, tracks, least)])
            quiet = quiet + 1 if len(found) == before else 0
        if not found:
            return 0
        self._add(found)
        return len(found) - len(kept or [])

    @property
    def _scale(self) -> float:
        assert self.pool.lines is not None
        return float(np.max(self.pool.lines.scale))

    def _shows(self, features, trace: Trace, tracks: list[Track]) -> bool:
        """Whether the answers bend where lines meet what is known of the zero set."""
        line, t = self._zeros(trace, tracks)
        assert self.pool.lines is not None
        hit = self.pool.is_border(line, t, PLACE * self.pool.lines.scale[line])
        counts = hit | ~self.pool.is_flat(line, t)
        hits, num = int(hit.sum()), int(counts.sum())
        self.shown = getattr(self, "shown", {})
        self.shown[trace.seed] = (hits, num)
        if num >= FEW:
            return hits >= HITS * num
        if hits < num:
            return False
        told = self._ask(features, trace)
        return told >= HITS

    def _sharpen(self, trace: Trace, tracks: list[Track]) -> None:
        """Its row from all kinks that lie on what is known of it."""
        pool = self.pool
        assert pool.lines is not None
        line, t = self._zeros(trace, tracks)
        kinks = pool.kinks_at(line, t, PLACE * pool.lines.scale[line])
        h, jac = self.features.jacobian(pool.x[kinks])
        rate = np.abs(np.einsum("p,npd,nd->n", trace.row[:-1], jac, pool.lines.directions[pool.line[kinks]]))
        errors = rate * (pool.place_error[kinks] + 1e-15 * self._scale) + 1e-16 * self._scale
        trace.system = np.vstack([trace.system, np.hstack([h, np.ones((len(kinks), 1))])])
        trace.errors = np.append(trace.errors, errors)
        trace.solve()

    def _zeros(self, trace: Trace, tracks: list[Track]) -> tuple[np.ndarray, np.ndarray]:
        """Where lines meet what is known of the zero set."""
        places = [track.zeros(trace) for track in tracks]
        return np.repeat(np.arange(len(tracks)), [len(t) for t in places]), np.concatenate(places)

    def _ask(self, features, trace: Trace, num: int = 8) -> float:
        """The share of places on what is known of the zero set at which the answers bend."""
        pool = self.pool
        domain, d = pool.inquiry.meter.domain, pool.input_size
        x = domain.sample(400, d, pool.rng)
        for _ in range(8):
            h, jac = features.jacobian(x)
            facet = np.einsum("p,npd->nd", trace.row[:-1], jac)
            z = h @ trace.row[:-1] + trace.row[-1]
            step = (z / np.maximum(np.einsum("nd,nd->n", facet, facet), 1e-300))[:, None] * facet
            x = x - step
        extended = np.hstack([features.features(x), np.ones((len(x), 1))])
        good = (
            (np.linalg.norm(step, axis=1) < 1e-11 * self._scale)
            & domain.contains(x)
            & ~is_dark(trace, extended)
        )
        x, facet = x[good], facet[good]
        if not len(x):
            return 0.0
        pick = pool.rng.permutation(len(x))[:num]
        normal = facet[pick] / np.linalg.norm(facet[pick], axis=1, keepdims=True)
        told = bends(pool.inquiry, x[pick], normal, 1e-6)
        return float(np.mean(told[told >= 0])) if np.sum(told >= 0) >= 3 else 0.0
