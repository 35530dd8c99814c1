"""Units of the next layer over known ones, without sides: zero sets followed from kinks that nothing explains yet.

Without sides the features of a relu network are ``(x, |u|)``, u the units of all layers found so far, and a unit above
is a row in these. Every kink is the beginning of a trace (``deep.trace``); crossings of known borders tell its row,
rays within its facets tell whether it bends at known borders only. The first layer is those that bend nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.core import clock
from unweave.core.errors import TimeSpent
from unweave.methods.base import Finding
from unweave.methods.relu.deep.cross import measure_crossings
from unweave.methods.relu.deep.follow import begin, drop_twins, lies_on
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.tracks import is_dark
from unweave.methods.relu.deep.unite import unite_traces
from unweave.methods.relu.peel.order import BENT, DEVIATIONS, bends_among, settle
from unweave.methods.relu.peel.orient import orient, over_sides, restrict
from unweave.methods.relu.peel.planes import find_planes
from unweave.methods.relu.peel.rates import Lookout
from unweave.methods.relu.peel.sides import keep_sides
from unweave.methods.relu.peel.trails import Region, Trail, facets, shoot, stroll
from unweave.methods.relu.peel.vertex import bends_at_end

BATCH = 8
"""Kinks from which traces begin at a time."""
FIRST, RAYS = 3, 4
"""Rays from the kink itself, and from places of a trace in every round."""
ENOUGH = 16
"""Rays without an end after which a trace is a unit of the layer."""
PARTICLES = 12
MEETINGS = (2, 4, 8)
"""Borders that a trace is tried at in its first rounds."""
QUIET, ROUNDS = 2, 30
"""Rounds in a row without a crossing after which nothing more is to be had, and rounds in all."""
IDLE = 4
"""Batches in a row without a unit after which the layer is done."""
STEPS, CROSSINGS = 20, 7
"""Steps of the particles in a round, and attempts at a crossing."""
MOST_ENDS, LEAST_SEEN = 0.34, 0.6
"""Share of rays that may end, and of crossings with lines that are seen at least, where a unit is hidden at times."""
TELLING = 4
"""Crossings with lines that tell without rays that end."""
VERTICES = 2
"""Ends that are looked at closely."""
LATE = 2
"""Units of the last generation that a trace goes straight over to be of that generation itself."""
PLACE = 1e-6
"""A kink closer than this to a zero set, relative to the domain, lies on it."""
WEAK = 1e-6
"""A kink that is weaker than this, beside others, is left alone."""


@dataclass
class Climb:
    """The generations found so far, and the pool of kinks."""

    region: Region
    pool: Pool
    deadline: float
    say: Callable[[str], None] = lambda text: None
    features: Known | Lifted = field(init=False)
    generations: list[list[Trace]] = field(default_factory=list)
    nearly: Finding | None = None
    """A network that explains all but a few answers."""

    def __post_init__(self) -> None:
        self.features = Known(self.pool.input_size)

    def unexplained(self) -> np.ndarray:
        """Kinks that lie on no zero set of a known unit."""
        x = self.pool.x
        jump = np.linalg.norm(self.pool.slope_jump, axis=1)
        strong = jump > WEAK * np.median(jump) if len(jump) else jump > 0
        if not self.generations:
            return np.flatnonzero(strong)
        zs, gs = self.features.gradients(x)
        on = np.zeros(len(x), dtype=bool)
        for z, g in zip(zs, gs, strict=True):
            apart = np.abs(z) / np.maximum(np.linalg.norm(g, axis=2), 1e-300)
            on |= np.any(apart < 1e-7 * self.region.scale, axis=1)
        return np.flatnonzero(strong & ~on)

    def left_over(self) -> float:
        """Share of the kinks that lie neither on a known zero set nor on one of the candidates."""
        left = self.unexplained()
        x = self.pool.x[left]
        extended = np.hstack([self.features.features(x), np.ones((len(x), 1))])
        on = np.zeros(len(x), dtype=bool)
        for trace in self.candidates:
            size = np.linalg.norm(
                facets(self.features, np.repeat(trace.row[None], len(x), axis=0), x), axis=1
            )
            near = np.abs(extended @ trace.row) < PLACE * self.region.scale * size
            on |= near & ~is_dark(trace, extended)
        return float(np.sum(~on)) / max(len(self.pool.x), 1)

    def find_generation(self, found: list[Trace] | None = None) -> list[Trace]:
        """The units of the next layer, those already found and others."""
        tried: set[int] = set()
        found = [] if found is None else found
        self.ended: list[Trail] = []
        idle = 0
        self.lookout = Lookout(self.pool, self.features)
        if not self.generations:
            sure, others = find_planes(self.pool, self.region.scale)
            found, self.planes = drop_twins(self.pool, self.features, found + sure), others.tolist()
            self.say(f"  {len(found)} planes, {len(others)} others, {self.pool.num_queries} questions")
        while True:
            self.check_time()
            seeds = self._seeds(found, tried) if self.generations else self._planes(found, tried)
            if idle >= IDLE:
                break
            if not len(seeds):
                break
            trails = [Trail(begin(self.pool, self.features, int(m))) for m in seeds]
            self._follow(trails)
            fresh = [trail.trace for trail in trails if trail.done]
            self.ended += [trail for trail in trails if not trail.done]
            before = len(found)
            found = drop_twins(self.pool, self.features, found + fresh)
            idle = 0 if len(found) > before else idle + 1
            self.say(
                f"  batch of {len(seeds)}: {len(fresh)} done, {len(found)} units, "
                f"{self.pool.num_queries} questions"
            )
        return found

    def settle_generation(self, found: list[Trace]) -> tuple[list[Trace], list[Trace]]:
        """Of traces found as units of the next layer those that surely are, and those that may stand above it."""
        if self.generations:
            found = unite_traces(self.orient(unite_traces(found)))
        bends = bends_among(self.region, self.features, found)
        sure, above = settle(bends)
        self.bends, self.candidates = bends, found
        loose = [trace for trace, one, two in zip(found, sure, above, strict=True) if not one and not two]
        self.say(f"  {int(sure.sum())} of the layer, {int(above.sum())} above, {len(loose)} loose")
        return [trace for trace, one in zip(found, sure, strict=True) if one], loose

    def take_late(self, found: list[Trace]) -> bool:
        """Traces that go straight over units of the last generation are of it, or parts of its units.

        Whether there were any: what stands above is to be found once more then.
        """
        if not isinstance(self.features, Lifted):
            return False
        base, count = self.features.known, len(self.features.rows)
        late = []
        for trace in found:
            seen, share = trace.seen[-1 - count : -1], trace.row[-1 - count : -1]
            error = np.linalg.norm(trace.root[-1 - count : -1], axis=1)
            size = np.linalg.norm(trace.row[:-1])
            bent = np.abs(share) > np.maximum(BENT * size, DEVIATIONS * error)
            if seen.sum() >= LATE and not np.any(bent & seen):
                late.append(restrict(trace, base.width))
        if not late:
            return False
        below = unite_traces([*self.generations[-1], *late])
        self.say(f"  {len(late)} of the generation below, which has {len(below)} units now")
        self.generations.pop()
        self.features = base
        self.add_generation(below)
        return True

    def orient(self, found: list[Trace]) -> list[Trace]:
        """Give the generation below its sides where these traces above tell them; the traces over its features."""
        told = orient(self.features, found, self.say)
        if told is None:
            return found
        self.features, turn = told
        return [over_sides(trace, turn) for trace in found]

    def check_time(self) -> None:
        if clock.now() > self.deadline:
            raise TimeSpent("the time for following zero sets is over")

    def add_generation(self, found: list[Trace]) -> None:
        """One more generation; what is open of its rows as the sides of the answers' points have it."""
        found = self.orient(found)
        rows = keep_sides(self.region, self.features, found)
        self.features = Lifted(self.features, rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True))
        self.generations.append(found)

    def _planes(self, found: list[Trace], tried: set[int]) -> np.ndarray:
        """Kinks of planes that several lines see, those seen most first."""
        left = [m for m in self.planes if int(m) not in tried]
        chosen = [
            int(m)
            for m in left
            if not any(lies_on(self.pool, self.features, one, np.array([m]))[0] for one in found)
        ][:BATCH]
        tried.update(left if not chosen else left[: left.index(chosen[-1]) + 1])
        return np.array(chosen, dtype=int)

    def _seeds(self, found: list[Trace], tried: set[int]) -> np.ndarray:
        """Kinks of one line after the other that nothing explains, with normals."""
        pool = self.pool
        left = np.array([m for m in self.unexplained() if int(m) not in tried], dtype=int)
        if not len(left):
            return left
        lines, counts = np.unique(pool.line[left], return_counts=True)
        order = lines[np.argsort(-counts, kind="stable")]
        chosen: list[int] = []
        for line in order:
            some = left[pool.line[left] == line]
            tried.update(int(m) for m in some)
            pool.measure(some, Known(pool.input_size))
            some = some[np.isfinite(pool.normal_error[some])]
            for trace in found:
                if len(some):
                    some = some[~lies_on(pool, self.features, trace, some)]
            chosen += [int(m) for m in some]
            if len(chosen) >= BATCH:
                break
        return np.array(chosen, dtype=int)

    def _follow(self, trails: list[Trail]) -> None:
        """Follow the trails; those that never end are done."""
        region, features, rng = self.region, self.features, self.region.rng
        live = trails
        if not live:
            return
        owner = np.repeat(np.arange(len(live)), FIRST)
        shoot(region, features, live, owner, np.array([self.pool.x[t.trace.seed] for t in live])[owner])
        live = [trail for trail in live if trail.rays and not self._is_lost(trail)]
        quiet = 0
        for turn in range(ROUNDS):
            if not live:
                break
            self.check_time()
            kept = drop_twins(self.pool, features, [trail.trace for trail in live])
            live = [trail for trail in live if any(trail.trace is trace for trace in kept)]
            owner = np.repeat(np.arange(len(live)), PARTICLES)
            x = np.concatenate(
                [t.trace.places[rng.integers(len(t.trace.places), size=PARTICLES)] for t in live]
            )
            crossed = num = 0
            if self.generations:
                traces = [trail.trace for trail in live]
                meetings = stroll(region, features, traces, owner, x, STEPS)
                if turn < len(MEETINGS):
                    meetings = meetings.take(_first(meetings.trace, meetings.room, MEETINGS[turn]))
                num = len(meetings)
                if num:
                    good = measure_crossings(region.inquiry, traces, meetings, CROSSINGS)
                    crossed = int(good.sum())
                    for j in np.unique(meetings.trace[good]):
                        traces[j].solve()
            some = np.concatenate(
                [
                    rng.choice(np.flatnonzero(owner == j), RAYS if trail.rays < ENOUGH else 1, replace=False)
                    for j, trail in enumerate(live)
                ]
            )
            far = shoot(region, features, live, owner[some], x[some])
            for j, trail in enumerate(live):
                mine = owner == j
                trail.trace.solve()
                new = far[owner[some] == j] if not self.generations else x[mine]
                trail.trace.places = np.vstack([trail.trace.places[:PARTICLES], new])
            quiet = quiet + 1 if not crossed else 0
            live = [trail for trail in live if not self._is_lost(trail)]
            self.say(
                f"    turn {turn}: {len(live)} live, {crossed} of {num} crossed, "
                f"open {[t.trace.null.shape[1] for t in live]}"
            )
            over = [
                trail
                for trail in live
                if trail.rays >= ENOUGH and (quiet >= QUIET or not trail.trace.null.shape[1])
            ]
            for trail in over:
                trail.done = not self._bends(trail)
            live = [trail for trail in live if not any(trail is other for other in over)]
            if quiet > QUIET + 3:
                break

    def _is_lost(self, trail: Trail) -> bool:
        """Whether too many rays end, or too few of the lines that cross it see it, for a unit of the layer."""
        if trail.ends and len(trail.ends) > MOST_ENDS * max(trail.rays, FIRST):
            return True
        seen, crossed = self.lookout.rate(trail.trace)
        return (bool(trail.ends) or crossed >= TELLING) and seen < LEAST_SEEN * crossed

    def _bends(self, trail: Trail) -> bool:
        """Whether rays that end show a bend; else the unit does not show beyond."""
        few = self.region.rng.permutation(len(trail.ends))[:VERTICES]
        return any(bends_at_end(self.region, self.features, *trail.ends[i]) for i in few)


def _first(owner: np.ndarray, score: np.ndarray, most: int) -> np.ndarray:
    """Of each owner the rows with the best scores."""
    rank = np.zeros(len(owner), dtype=int)
    for j in np.unique(owner):
        mine = np.flatnonzero(owner == j)
        rank[mine[np.argsort(-score[mine])]] = np.arange(len(mine))
    return np.flatnonzero(rank < most)
