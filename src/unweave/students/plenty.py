"""Two hidden layers from plenty of points: where sparing ones let no student converge, many more often do.

With three to five residuals a parameter a student of a trained network ends in a valley of its own; with a dozen, seen
by halves in turn, the same student finds the units, in a hundred or two of cheap steps (``solve.inexact``). It also has
to be asked where it can learn: where no small student of one hidden layer predicts anything, the range is halved.
Activations of one kind share a student until it nearly fits (``kin``). Then a few residuals a parameter do, and the
student is pruned and polished as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.solve.descend import Settings, descend
from unweave.solve.devices import fits_memory
from unweave.solve.fit import fit_collapsed, fit_layout, fit_network
from unweave.solve.inexact import InexactProblem
from unweave.solve.layout import Layout
from unweave.solve.polish import Polished, polish
from unweave.students.effort import Candidate, Shape, choose_widths
from unweave.students.forms import Form
from unweave.students.kin import group_kin, take_over
from unweave.students.nearly_affine import bend_of
from unweave.students.overwide import OverwideFit
from unweave.students.standard import Standard
from unweave.students.starts import draw_start
from unweave.students.student import PROMISING, Attempt, Recovered, Task, Trial

SIZES = ((1200, 24.0), (3000, 12.0), (7500, 10.0))
"""Parameters of the students, in turn, with the residuals for each of them ..."""
ASPECT = 0.8
"""... and the width of their second layers over the first."""
ENOUGH = 2.0
"""The same from where a student has found the units."""
WHOLE = 1.5
"""The same once the network is known in a part of the range."""
TRIES = 2
"""Sets of so many points that a student is pruned on, at most."""
HELD = 500
"""Points that no fit sees."""
PARTS, STEPS = 3, 8
"""The points are seen in so many parts, each for so many steps a round."""
ROUNDS = 24
DAMPING, LEAST_DAMPING = 3e-3, 3e-4
"""Less would fit the part at hand at the cost of the others."""
NEARBY = 1e-5
"""Damping where the units are found."""
BEHIND, BEHIND_KIN = 1.3, 2.0
"""A student is given up, after ``PATIENCE`` rounds, whose fresh residual is so many times that of the leader; one of a
single activation, which may have been taken over from another, ..."""
STALLED, PATIENCE = 0.95, 3
"""... or has not fallen to this fraction over so many rounds ..."""
LATE, STALLED_LATE = 8, 0.8
"""... and, after so many, to this one."""
TELLING = 0.04
"""Fresh residual, relative to what bends, from which on activations of one kind have students of their own."""
NEAR = 1e-2
"""The same at which a student has found the units."""
LOOKS, LOOKING, BLIND = 2000, 40, 0.9
"""A range is looked at with so many points and steps, and is too wide where a student leaves more than this fraction of
what bends unpredicted."""
HALVINGS = 5

Buy = Callable[[float, int], tuple[np.ndarray, np.ndarray]]
"""``buy(scale, n)``: up to n points of the range scaled by a factor, with their answers."""


@dataclass
class Racer:
    """A student on its way, in standard coordinates."""

    activations: list[str]
    """Those it may still turn out to have, its own first."""
    layout: Layout
    parameters: np.ndarray
    fresh: list[float] = field(default_factory=list)
    num_steps: int = 0

    @property
    def slack(self) -> float:
        return BEHIND if len(self.activations) > 1 else BEHIND_KIN

    @property
    def has_stalled(self) -> bool:
        limit = STALLED if len(self.fresh) < LATE else STALLED_LATE
        return len(self.fresh) > PATIENCE and self.fresh[-1] > limit * self.fresh[-1 - PATIENCE]


@dataclass(frozen=True)
class Class:
    """What the racers learn from: points in standard coordinates, a part of which is held back."""

    standard: Standard
    x: np.ndarray
    y: np.ndarray
    u: np.ndarray
    v: np.ndarray
    bend: float
    deadline: float

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, deadline: float) -> Class:
        standard = Standard.of(x, y)
        u, v = standard.inputs(x), standard.outputs(y)
        return Class(standard, x, y, u, v, bend_of(u, v), deadline)

    @property
    def is_over(self) -> bool:
        return clock.now() > self.deadline

    def enter(self, activations: list[str], size: int, rng: np.random.Generator) -> Racer:
        shape = Shape(self.v.size / size, ASPECT)
        widths = choose_widths(self.u, self.v, Candidate(activations[0], 2), shape)
        layout = Form.of(activations[0]).layout((self.u.shape[1], *widths, self.v.shape[1]))
        return Racer(activations, layout, draw_start(layout, self.u[HELD:], self.v[HELD:], rng))

    def advance(self, racer: Racer) -> None:
        """One round: every part of the points."""
        for turn in range(PARTS):
            if self.is_over:
                break
            racer.parameters = self._step(racer.layout, racer.parameters, turn)
            racer.num_steps += STEPS
        racer.fresh.append(self.unpredicted(racer.layout, racer.parameters))

    def split(self, racer: Racer) -> list[Racer]:
        """One racer for each activation that this one may still turn out to have."""
        if len(racer.activations) == 1 or racer.fresh[-1] > TELLING:
            return [racer]
        racers = []
        for name in racer.activations:
            layout, parameters = take_over(racer.layout, racer.parameters, name)
            fresh = self.unpredicted(layout, parameters)
            racers.append(Racer([name], layout, parameters, [fresh], racer.num_steps))
        return racers

    def unpredicted(self, layout: Layout, parameters: np.ndarray) -> float:
        """The residual at the points held back, relative to what bends."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = layout.forward(parameters, self.u[:HELD]) - self.v[:HELD]
        found = float(np.sqrt(np.mean(rest**2))) / self.bend
        return found if np.isfinite(found) else np.inf

    def _step(self, layout: Layout, parameters: np.ndarray, turn: int) -> np.ndarray:
        part = slice(HELD + turn % PARTS, None, PARTS)
        settings = Settings(
            target=PROMISING * self.bend / 3,
            max_steps=STEPS,
            damping=DAMPING,
            least_damping=LEAST_DAMPING,
            stall_steps=0,
            deadline=self.deadline,
        )
        problem = InexactProblem(layout, self.u[part], self.v[part])
        return descend(problem, parameters, 1.0, settings).parameters


def search_plenty(
    buy: Buy,
    activations: Sequence[str],
    *,
    rng: np.random.Generator,
    time_limit: float,
    sizes: Sequence[tuple[int, float]] = SIZES,
) -> OverwideFit:
    """Students of growing size, each with points in proportion, until one is exact at minimal width."""
    deadline = clock.now() + time_limit
    scale, x, y = choose_scale(buy, rng, deadline)
    attempts: list[Attempt] = []
    best: Recovered | None = None
    kinds = group_kin(activations)
    for size, ratio in sizes:
        missing = num_needed(size, ratio, y.shape[1]) - len(x)
        done = best is not None and best.minimal
        if done or clock.now() > deadline or not fits_memory(int(ENOUGH * size), size):
            break
        if missing > 0:
            more_x, more_y = buy(scale, missing)
            x, y = np.concatenate([x, more_x]), np.concatenate([y, more_y])
            if len(more_x) < missing:
                break
        course = Class.of(x, y, deadline)
        racers = [course.enter(kind, size, rng) for kind in kinds]
        for found, attempt in _race(course, racers):
            attempts.append(attempt)
            best = best if found is None else found
            if best is not None and best.minimal:
                break
        kinds = _leading(racers)
    if best is None:
        rms = min((a.rms for a in attempts), default=np.inf)
        reason = f"no student of two hidden layers fitted {len(x):,} points"
        return OverwideFit(None, rms, False, len(x), tuple(attempts), reason=reason)
    polished = best.polished if scale == 1 else _fit_whole_range(best.network, buy, deadline)
    return OverwideFit(
        polished.network, polished.rms, best.minimal, len(x), tuple(attempts), polished, best.undetermined
    )


def num_needed(size: int, ratio: float, num_outputs: int) -> int:
    """Points for students of so many parameters, with so many residuals for each."""
    return int(ratio * size / num_outputs) + HELD


def _fit_whole_range(network: Network, buy: Buy, deadline: float) -> Polished:
    """The last digits of a network that was found in a part of the range, from all of it."""
    x, y = buy(1.0, int(WHOLE * network.num_parameters / network.output_size) + 20)
    settings = Settings(target=1e-14, max_steps=30, damping=1e-6, stall_steps=0, deadline=deadline)
    return polish(fit_network(network, x, y, settings=settings).network, x, y)


def choose_scale(buy: Buy, rng: np.random.Generator, deadline: float) -> tuple[float, np.ndarray, np.ndarray]:
    """The largest of halved ranges in which a student of one hidden layer predicts something, with points of it."""
    scale = 1.0
    for _ in range(HALVINGS):
        x, y = buy(scale, LOOKS + HELD)
        if len(x) < LOOKS + HELD or clock.now() > deadline:
            break
        look = Class.of(x, y, deadline)
        fits = []
        for name in ("tanh", "softplus"):
            widths = choose_widths(look.u, look.v, Candidate(name, 1), Shape(4.0))
            task = Task.of(x[HELD:], y[HELD:], name, widths, max_steps=LOOKING, deadline=deadline)
            _, attempt = next(task.try_from([rng]))
            fits.append(attempt.student.fresh_residual(x[:HELD], y[:HELD]) / look.bend)
        if min(fits) < BLIND:
            break
        scale /= 2
    return scale, x, y


def _leading(racers: list[Racer]) -> list[list[str]]:
    """The activations of those that came furthest: larger students of the others would stay behind, too."""
    least = min((racer.fresh[-1] for racer in racers if racer.fresh), default=np.inf)
    return [r.activations for r in racers if not r.fresh or r.fresh[-1] < BEHIND * least]


def _race(course: Class, racers: list[Racer]) -> Iterator[Trial]:
    """Students of every kind, in rounds; those that come close are finished."""
    for _ in range(ROUNDS):
        for racer in racers:
            if course.is_over:
                return
            course.advance(racer)
        racers = sorted(racers, key=lambda racer: racer.fresh[-1])
        leader = racers[0]
        if leader.fresh[-1] < NEAR or (leader.has_stalled and leader.fresh[-1] < TELLING):
            yield from _finish(course, leader)
            racers = racers[1:]
        racers = [r for r in racers if len(r.fresh) < PATIENCE or r.fresh[-1] < r.slack * leader.fresh[-1]]
        racers = [part for r in racers if not r.has_stalled for part in course.split(r)]
        if not racers:
            return


def _finish(course: Class, racer: Racer) -> Iterator[Trial]:
    """Prune and polish a student that has found the units, on a few residuals a parameter.

    Where that leaves more units than needed, other points often do not.
    """
    layout, outputs = racer.layout, course.v.shape[1]
    count = min(int(ENOUGH * layout.num_parameters / outputs) + 50, (len(course.x) - HELD) // TRIES)
    for attempt in range(TRIES):
        chosen = slice(HELD + attempt * count, HELD + (attempt + 1) * count)
        task = Task.of(
            course.x[chosen],
            course.y[chosen],
            racer.activations[0],
            layout.hidden,
            deadline=course.deadline,
            standard=course.standard,
        )
        found, ended = next(task.try_starts([_converge(task, racer.parameters)]))
        yield found, ended
        if found is None or found.minimal or course.is_over:
            return


def _converge(task: Task, parameters: np.ndarray) -> np.ndarray:
    """Exact steps, as far as removals need."""
    settings = replace(task.settings, target=PROMISING * task.bend, damping=NEARBY, inexact=False)
    plain = not task.layout.skips
    return (fit_collapsed if plain else fit_layout)(
        task.layout, parameters, task.u, task.v, settings=settings
    ).parameters
