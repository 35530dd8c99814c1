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

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core import clock
from unweave.core.deadline import MORE_TIME
from unweave.core.engine import Here, open_engine
from unweave.core.network import Network
from unweave.solve.devices import fits_memory, use_accelerator
from unweave.solve.fit import spread_of
from unweave.solve.polish import Polished
from unweave.solve.together import runs_together
from unweave.students.effort import Candidate, Effort, choose_widths, widened
from unweave.students.forms import Form
from unweave.students.nearly_affine import is_nearly_affine
from unweave.students.ranking import Ranking
from unweave.students.student import NEGLIGIBLE, Attempt, Recovered, Task, Trial

SURROGATE = 1e-5
"""Relative residual below which a student that did not converge is returned for what it is: a surrogate."""
NARROWED = 2
"""Promising students of those fitted at once that are pruned."""

MorePoints = Callable[[int], tuple[np.ndarray, np.ndarray]]


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

    x: np.ndarray
    y: np.ndarray

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
    deadline = clock.now() + effort.time_limit
    attempts: list[Attempt] = []
    ranking = Ranking(candidates, effort)
    surplus: Recovered | None = None
    for turn, num_points in enumerate(_sizes(pool, candidates, hidden, effort)):
        if clock.now() > deadline:
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
    if clock.now() > deadline:
        reason = f"stopped after {effort.time_limit:.3g} s; {MORE_TIME}"
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
            deadline=clock.now() + seconds,
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
        left = max(deadline - clock.now(), 0.0)
        futures = [executor.submit(s.run, x, y, noise, max_steps, left) for s in students]
    try:
        for i, some in enumerate(students):
            left = deadline - clock.now()
            if left < 0:
                return
            trials = futures[i].result() if in_advance else some.run(x, y, noise, max_steps, left)
            for found, attempt in trials:
                yield some.candidate, found, attempt
    finally:
        for future in futures:
            future.cancel()


def _give_up(pool: Pool, attempts: list[Attempt], surplus: Recovered | None, reason: str) -> OverwideFit:
    """The best that was found: a function at rounding whose parameters are not determined, or nothing."""
    if surplus is not None and _holds_beyond(surplus, pool):
        reason = "the function is reproduced but its parameters are not determined: a unit could be removed"
        return OverwideFit(
            surplus.network, surplus.rms, False, len(pool.x), tuple(attempts), surplus.polished, (), reason
        )
    network, rms = best_student(attempts)
    if network is not None:
        reason = f"{reason}; a student reproduces the answers to {rms:.0e}, its parameters are its own"
    return OverwideFit(network, rms, False, len(pool.x), tuple(attempts), None, (), reason)


def best_student(attempts: Sequence[Attempt]) -> tuple[Network | None, float]:
    """The student that reproduces most answers best, where one does to ``SURROGATE``; the least residual otherwise."""
    # a few points are explained by many a student
    enough = max((a.num_points for a in attempts), default=0) / 2
    telling = sorted((a for a in attempts if a.num_points >= enough), key=lambda a: a.rms)
    for attempt in telling:
        if not attempt.rms < SURROGATE:
            break
        network = attempt.student.network(attempt.activation)
        if network is not None:
            return network, attempt.rms
    return None, telling[0].rms if telling else float("inf")


def _holds_beyond(found: Recovered, pool: Pool) -> bool:
    """Whether a network explains the points that were bought after its own, too."""
    rest = np.sqrt(np.mean((found.network(pool.x) - pool.y) ** 2)) / spread_of(pool.y)
    return bool(rest <= max(10 * found.rms, SURROGATE))


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
