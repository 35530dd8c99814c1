"""The search for a student that fits: how many points, how wide, which depth, which activation.

A student needs about two (one hidden layer) to three and a half (more) residuals per parameter; below that a
start rarely converges and restarts hardly help, above it the first start converges in 25-60 steps. So when
the widths are unknown the number of points grows geometrically and the student is as wide as the points
allow: the first size that fits costs three to five samples per parameter of the truth (one hidden layer),
four to eight (more). Candidates of several depths and activations share the points; each is fitted at every
small size, and at larger sizes the two with the least residual so far, with one other in turn. A wrong
candidate never reaches a residual at rounding, so the order costs time, not truth. Everything is bounded by
``Effort``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.engine import Here, open_engine
from unweave.network import Network
from unweave.refine.devices import fits_memory, use_accelerator
from unweave.refine.forms import Form
from unweave.refine.levenberg_marquardt import spread_of
from unweave.refine.nearly_affine import is_nearly_affine
from unweave.refine.polish import Polished
from unweave.refine.student import NEGLIGIBLE, Attempt, Recovered, Task, Trial
from unweave.refine.together import runs_together

SURROGATE = 1e-5
"""Relative residual below which a student that did not converge is returned for what it is: a surrogate."""
UNFAIR, SMALL_WORK = 1.5, 1e12
"""Candidates rest that have had so many times the work of another, and more than this many multiplications."""
NEAR_MISS = 1e-3
"""Relative residual at which a student that stopped converging may be one of a similar activation."""
NARROWED = 2
"""Promising students of those fitted at once that are pruned."""
REFITS = 5
"""What pruning a near miss takes, in the steps of its last fit."""

MorePoints = Callable[[int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Candidate:
    """An activation and a number of hidden layers to try."""

    activation: str
    depth: int


@dataclass(frozen=True)
class Shape:
    """How wide a student is: residuals per parameter, and the width of each layer over the one below."""

    ratio: float
    aspect: float = 0.5


ACCELERATED_SHAPES = {
    1: (Shape(2.7),),
    2: (Shape(4.5, 0.45), Shape(4.5, 0.14)),
    3: (Shape(4.5, 0.6), Shape(3.5, 0.6)),
}
"""By depth, all of them at every size: few sizes, so each must do."""
STURDY = Shape(6.0, 0.6)
"""Nearly affine answers: patient fits of students with fewer parameters, wide in the second layer."""


@dataclass(frozen=True)
class Effort:
    """Every bound of the search, stated."""

    shapes: tuple[Shape, ...] = ()
    """Used in turn; empty: by depth."""
    growth: float = 1.17
    accelerated_growth: float = 1.5
    """The same on an accelerator, where steps are cheap and every size costs compilations ..."""
    large: int = 4000
    """... up to this many residuals, ..."""
    large_growth: float = 1.25
    """... and beyond, where steps cost more than compilations."""
    num_starts: int = 1
    """Starts of each candidate at each size."""
    num_together: int = 8
    """The same where an accelerator takes several starts at once (``together``): starts of each shape."""
    min_points: int = 8
    max_points: int = 200_000
    max_steps: int = 150
    num_last: int = 4
    """The same once no more points can be had."""
    review: int = 4
    """All candidates are tried at every so many sizes, the two leading ones between."""
    cheap: int = 1000
    """Below so many residuals the leading candidate has two starts, in different shapes ..."""
    costly: int = 2000
    """... and above this many residuals only it is tried, with its activation at the rival depth."""
    time_limit: float = 600.0

    def shape(self, depth: int, turn: int, nearly_affine: bool = False) -> Shape:
        shapes = self.shapes
        if not shapes and depth == 1:
            shapes = (Shape(1.8), Shape(2.2))
        elif not shapes and depth == 2:
            last = STURDY if nearly_affine else Shape(3.0, 0.65)
            shapes = (Shape(3.5, 0.45), Shape(4.5, 0.14), Shape(4.5, 0.45), last)
        elif not shapes:
            shapes = (Shape(3.5, 0.6), Shape(3.0, 0.75))
        return shapes[turn % len(shapes)]

    def growth_at(self, num_residuals: int, accelerated: bool) -> float:
        """The ratio of the next size to this one."""
        if not accelerated:
            return self.growth
        return self.accelerated_growth if num_residuals < self.large else self.large_growth

    def plan(
        self,
        candidates: Sequence[Candidate],
        turn: int,
        num_starts: int,
        num_residuals: int,
        accelerated: bool,
        nearly_affine: bool = False,
    ):
        """Which candidate to try in which shape at one size, in order.

        On an accelerator, one hidden layer is tried at every other large size when there are deeper
        candidates: its students have the most parameters.
        """
        if accelerated and not self.shapes:
            deepest = max(c.depth for c in candidates)
            rests = num_residuals >= self.large and turn % 2 == 1
            chosen = [c for c in candidates if c.depth > 1 or deepest == 1 or not rests]
            shapes = dict(ACCELERATED_SHAPES)
            if nearly_affine:
                shapes[2] = (*shapes[2], STURDY)
            return [(c, shape) for c in chosen for shape in shapes[min(c.depth, 3)]]
        tried = [
            (c, self.shape(c.depth, turn * self.num_starts + start, nearly_affine))
            for start in range(num_starts)
            for c in candidates
        ]
        if num_residuals < self.cheap:  # a second start costs less than the points of the next size
            second = turn * self.num_starts + 1
            tried += [(c, self.shape(c.depth, second, nearly_affine)) for c in candidates[:1]]
        return tried


FRUGAL = Effort(shapes=(Shape(2.9), Shape(2.6), Shape(2.3), Shape(2.0)), growth=1.1, num_starts=4)
"""Few points, many narrow students: for one hidden layer where points cost more than time."""


@dataclass(frozen=True)
class OverwideFit:
    """The outcome of a search. ``network`` is None when nothing fitted; ``minimal``: no unit is removable."""

    network: Network | None
    rms: float
    minimal: bool
    num_points: int
    attempts: tuple[Attempt, ...] = field(repr=False, default=())
    polished: Polished | None = field(repr=False, default=None)
    undetermined: tuple[str, ...] = ()
    reason: str = ""


def fit_overwide(
    x: np.ndarray,
    y: np.ndarray,
    activation: str,
    *,
    hidden: tuple[int, ...] | None = None,
    depth: int = 1,
    more_points: MorePoints | None = None,
    noise: float = 0.0,
    rng: np.random.Generator,
    effort: Effort | None = None,
) -> OverwideFit:
    """Fit a network of one activation and depth to (x, y), buying points through ``more_points``.

    Parameters
    ----------
    hidden
        Widths of the hidden layers when known (then ``depth`` is ignored).
    more_points
        ``more_points(n)`` returns up to n further points with their answers; None means (x, y) is all there
        is.
    noise
        Standard deviation of one answer in the units of y.
    """
    candidate = Candidate(activation, depth if hidden is None else len(hidden))
    pool = Pool(x, y, more_points)
    return search(pool, [candidate], hidden=hidden, noise=noise, rng=rng, effort=effort)


class Pool:
    """Points with their answers: those at hand first, then bought ones."""

    def __init__(self, x: np.ndarray, y: np.ndarray, more_points: MorePoints | None = None):
        self.x = np.asarray(x, dtype=np.float64)
        self.y = np.asarray(y, dtype=np.float64)
        if self.y.ndim == 1:
            self.y = self.y[:, None]
        self._more = more_points

    @property
    def can_grow(self) -> bool:
        return self._more is not None

    def take(self, num_points: int) -> tuple[np.ndarray, np.ndarray]:
        """The first ``num_points`` rows, bought where missing and possible; fewer when there are no more."""
        missing = num_points - len(self.x)
        if missing > 0 and self._more is not None:
            x, y = self._more(missing)
            self.x = np.concatenate([self.x, x])
            self.y = np.concatenate([self.y, np.asarray(y).reshape(len(x), self.y.shape[1])])
            if len(x) < missing:
                self._more = None
        return self.x[:num_points], self.y[:num_points]


def search(
    pool: Pool | Sequence[Pool],
    candidates: Sequence[Candidate],
    *,
    hidden: tuple[int, ...] | None = None,
    noise: float = 0.0,
    rng: np.random.Generator,
    effort: Effort | None = None,
    engine: Executor | str | None = None,
) -> OverwideFit:
    """The first candidate that fits at minimal width, at the least number of points that lets one.

    Several pools, points of the same function over different ranges, are searched in turn: the one that is behind in
    points goes next. With an ``engine`` the students of one size run side by side; the first in order that fits is
    taken, so the result is the same as without.
    """
    effort = Effort() if effort is None else effort
    pools = [pool] if isinstance(pool, Pool) else list(pool)
    with open_engine(engine) as executor:
        rounds = {
            p: _search(p, candidates, hidden, noise, generator, effort, executor)
            for p, generator in zip(pools, [rng, *rng.spawn(len(pools) - 1)], strict=True)
        }
        ends: list[OverwideFit] = []
        while rounds:
            behind = min(rounds, key=lambda p: len(p.x))
            end = next(rounds[behind])
            if end is not None:
                ends.append(end)
                rounds = {} if end.minimal else {p: r for p, r in rounds.items() if p is not behind}
    best = min(ends, key=lambda end: (not end.minimal, end.network is None, end.rms))
    return replace(best, attempts=tuple(attempt for end in ends for attempt in end.attempts))


def _search(
    pool: Pool,
    candidates: Sequence[Candidate],
    hidden: tuple[int, ...] | None,
    noise: float,
    rng: np.random.Generator,
    effort: Effort,
    executor: Executor,
) -> Iterator[OverwideFit | None]:
    """None after every size but the last, and how it ended."""
    deadline = time.monotonic() + effort.time_limit
    attempts: list[Attempt] = []
    ranking = _Ranking(candidates, effort)
    surplus: Recovered | None = None
    for turn, num_points in enumerate(_sizes(pool, candidates, hidden, effort)):
        if time.monotonic() > deadline:
            break
        x, y = pool.take(num_points)
        is_last = not pool.can_grow and len(x) >= len(pool.x)
        leading = ranking.choose(x, y, turn)
        num_starts = effort.num_last if is_last else effort.num_starts
        accelerated = not is_last and _accelerated(y.size)
        exact = noise <= NEGLIGIBLE * spread_of(y)
        plan = effort.plan(
            leading, turn, num_starts, y.size, accelerated, nearly_affine=exact and is_nearly_affine(x, y)
        )
        students = [
            _Students.draw(candidate, choose_widths(x, y, candidate, shape, hidden), x, y, effort, rng)
            for candidate, shape in plan
        ]
        students = [s for s in students if fits_memory(y.size, s.num_parameters)]
        if not students:
            reason = f"no student fitted up to {len(x):,} points, and wider ones do not fit into memory"
            yield _give_up(pool, attempts, surplus, reason)
            return
        for candidate, found, attempt in _try_all(
            executor, x, y, students, noise, effort.max_steps, deadline
        ):
            attempts.append(attempt)
            ranking.record(candidate, attempt)
            if found is not None and found.minimal:
                yield OverwideFit(
                    found.network,
                    found.rms,
                    True,
                    len(x),
                    tuple(attempts),
                    found.polished,
                    found.undetermined,
                )
                return
            surplus = found if found is not None else surplus
        if is_last:
            break
        yield None
    reason = f"no student fitted up to {len(pool.x)} points; allow more points"
    if time.monotonic() > deadline:
        reason = f"stopped after {effort.time_limit:g} s; allow more time"
    yield _give_up(pool, attempts, surplus, reason)


@dataclass(frozen=True)
class _Students:
    """Students of one candidate and widths: one, or several that an accelerator fits at once."""

    candidate: Candidate
    widths: tuple[int, ...]
    num_parameters: int
    seeds: tuple[int, ...]

    @staticmethod
    def draw(
        candidate: Candidate,
        widths: tuple[int, ...],
        x: np.ndarray,
        y: np.ndarray,
        effort: Effort,
        rng: np.random.Generator,
    ) -> _Students:
        layout = Form.of(candidate.activation).layout((x.shape[1], *widths, y.shape[1]))
        num_starts = effort.num_together if runs_together(y.size, layout.num_parameters) else 1
        seeds = tuple(int(seed) for seed in rng.integers(2**62, size=num_starts))
        return _Students(candidate, widths, layout.num_parameters, seeds)

    def run(self, x: np.ndarray, y: np.ndarray, noise: float, max_steps: int, seconds: float) -> list[Trial]:
        """What became of them, up to the first that is minimal; from their own seeds, wherever this runs.

        The first to be promising are narrowed down; where they miss, the others mostly miss too.
        """
        task = Task.of(
            x,
            y,
            self.candidate.activation,
            self.widths,
            noise=noise,
            max_steps=max_steps,
            deadline=time.monotonic() + seconds,
        )
        trials: list[Trial] = []
        for found, attempt in task.try_from([np.random.default_rng(seed) for seed in self.seeds]):
            trials.append((found, attempt))
            num_narrowed = sum(tried.narrowed for _, tried in trials)
            if (found is not None and found.minimal) or num_narrowed >= NARROWED:
                break
        return trials


def _try_all(
    executor: Executor,
    x: np.ndarray,
    y: np.ndarray,
    students: list[_Students],
    noise: float,
    max_steps: int,
    deadline: float,
) -> Iterator[tuple[Candidate, Recovered | None, Attempt]]:
    """Every student with what became of it, in order, while there is time."""
    in_advance = not isinstance(executor, Here)
    futures = []
    if in_advance:
        left = max(deadline - time.monotonic(), 0.0)
        futures = [executor.submit(s.run, x, y, noise, max_steps, left) for s in students]
    try:
        for i, some in enumerate(students):
            left = deadline - time.monotonic()
            if left < 0:
                return
            trials = futures[i].result() if in_advance else some.run(x, y, noise, max_steps, left)
            for found, attempt in trials:
                yield some.candidate, found, attempt
    finally:
        for future in futures:
            future.cancel()


class _Ranking:
    """Candidates by how well their latest students predict points bought after them."""

    def __init__(self, candidates: Sequence[Candidate], effort: Effort):
        self._candidates = list(candidates)
        self._effort = effort
        self._latest: dict[Candidate, Attempt] = {}
        self._scores: dict[Candidate, float] = {}
        self._work: dict[Candidate, float] = {}
        self._missed: set[Candidate] = set()

    def record(self, candidate: Candidate, attempt: Attempt) -> None:
        self._latest[candidate] = attempt
        if attempt.rms < NEAR_MISS and attempt.end in ("stationary", "steps"):
            self._missed.add(candidate)
        num_parameters = attempt.student.layout.num_parameters
        work = float(attempt.num_steps) * attempt.num_points * num_parameters**2
        work *= 1 if attempt.end in ("stalled", "memorised") else REFITS
        self._work[candidate] = self._work.get(candidate, 0.0) + work

    def _fair(self, chosen: list[Candidate]) -> list[Candidate]:
        """Without those that have had several times the work of another: near misses are costly to prune.

        Deeper ones do not rest for one hidden layer: it needs the fewest points, and would have been found.
        """

        def share(candidate: Candidate) -> float:
            rivals = [c for c in chosen if c == candidate or c.depth >= min(candidate.depth, 2)]
            return UNFAIR * min(self._work.get(c, 0.0) for c in rivals) + SMALL_WORK

        return [c for c in chosen if self._work.get(c, 0.0) <= share(c)]

    def choose(self, x: np.ndarray, y: np.ndarray, turn: int) -> list[Candidate]:
        """The two leading candidates; every few sizes all, deep ones for leading activations only.

        The rival depth stays in the race because a shallow student predicts a deep network better than a
        deep one that is still too narrow to converge, at every size up to the one where that one is exact.
        """
        for candidate, attempt in self._latest.items():
            fresh = slice(attempt.num_points, None)
            if len(x) > attempt.num_points:
                self._scores[candidate] = attempt.student.fresh_residual(x[fresh], y[fresh])
        self._latest.clear()
        ranked = sorted(self._candidates, key=lambda c: (self._scores.get(c, np.inf), c.depth))
        leader = ranked[0]
        rivals = [c for c in ranked if c.activation == leader.activation and c.depth != leader.depth]
        both_depths = [leader, *rivals[:1]]
        if turn % self._effort.review:
            chosen = ranked[:2]
            if y.size > self._effort.costly:
                chosen = both_depths
            elif leader in self._missed:  # gelu and its approximation by tanh, say: the other may be exact
                chosen = [c for c in ranked if c.depth == leader.depth and c != leader] + chosen
            # deep students emulate a network of fewer layers slowly, which is therefore tried first
            fewer = [
                c
                for c in self._candidates
                if c.activation == leader.activation and 1 < c.depth < leader.depth
            ]
            return self._fair(list(dict.fromkeys([*fewer, *chosen])))
        activations = list(dict.fromkeys(c.activation for c in ranked))[:2]
        resting = set(both_depths).difference(self._fair(both_depths))
        return [c for c in ranked if c not in resting and (c.depth <= 2 or c.activation in activations)]


def _give_up(pool: Pool, attempts: list[Attempt], surplus: Recovered | None, reason: str) -> OverwideFit:
    """The best that was found: a function at rounding whose parameters are not determined, or nothing."""
    if surplus is not None:
        reason = "the function is reproduced but its parameters are not determined: a unit could be removed"
        return OverwideFit(
            surplus.network, surplus.rms, False, len(pool.x), tuple(attempts), surplus.polished, (), reason
        )
    rms = min((a.rms for a in attempts), default=float("inf"))
    network = None
    for attempt in sorted((a for a in attempts if a.rms < SURROGATE), key=lambda a: a.rms):
        network = attempt.student.network(attempt.activation)
        if network is not None:
            rms = attempt.rms
            reason = f"{reason}; a student reproduces the answers to {rms:.0e}, its parameters are its own"
            break
    return OverwideFit(network, rms, False, len(pool.x), tuple(attempts), None, (), reason)


def _accelerated(num_residuals: int) -> bool:
    """Whether students of this many residuals are large enough for an accelerator, or nearly so."""
    return use_accelerator(50 * num_residuals, num_residuals // 3)


def _sizes(
    pool: Pool, candidates: Sequence[Candidate], hidden: tuple[int, ...] | None, effort: Effort
) -> Iterator[int]:
    """Numbers of points to try, growing geometrically until the pool or the effort ends."""
    inputs, outputs = pool.x.shape[1], pool.y.shape[1]
    least = min(candidates, key=lambda c: c.depth)
    narrow = (2,) * least.depth if hidden is None else widened(hidden)
    size = Form.of(least.activation).layout((inputs, *narrow, outputs)).num_parameters
    num_points = effort.shape(least.depth, 1).ratio * size / outputs
    num_points = max(num_points, 2 * (narrow[-1] + 1), effort.min_points)
    while num_points < effort.max_points and (pool.can_grow or num_points < len(pool.x)):
        yield int(np.ceil(num_points))
        num_residuals = int(num_points) * outputs
        num_points *= effort.growth_at(num_residuals, _accelerated(num_residuals))
    if not pool.can_grow and len(pool.x):
        yield len(pool.x)


def widened(hidden: tuple[int, ...]) -> tuple[int, ...]:
    """Student widths for known widths: three quarters more, at least two more."""
    return tuple(max(m + 2, int(np.ceil(1.75 * m))) for m in hidden)


def choose_widths(
    x: np.ndarray, y: np.ndarray, candidate: Candidate, shape: Shape, hidden: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """The widest student with ``shape.ratio`` residuals per parameter, or the known widths made wider."""
    if hidden is not None:
        return widened(hidden)
    num_points, outputs = y.shape
    affordable = num_points * outputs / shape.ratio
    form, widths = Form.of(candidate.activation), (2,) * candidate.depth
    for first in range(2, num_points):
        trial = tuple(max(2, round(first * shape.aspect**k)) for k in range(candidate.depth))
        size = form.layout((x.shape[1], *trial, outputs)).num_parameters
        if size > affordable or 2 * (trial[-1] + 1) > num_points:
            break
        widths = trial
    return widths
