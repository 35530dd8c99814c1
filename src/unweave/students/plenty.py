"""Two hidden layers from plenty of points: where sparing ones let no student converge, many more often do.

With three to five residuals a parameter a student of a trained network ends in a valley of its own. With others in turn
the same student finds the units: cheap steps (``solve.inexact``) on thirds of a dozen or two lead to the valley, and
from there a small student takes a hundred exact steps on three residuals a parameter, which change every twenty. It has
to be asked where it can learn: where no small student of one hidden layer predicts anything, the range is halved.
Activations of one kind share a student until it nearly fits (``kin``); that of a wrong one does not predict points it
has not seen any better, however well it fits. Those behind rest while others lead. Then a few residuals a parameter do,
and the student is pruned and polished as any other.
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
from unweave.students.overwide import OverwideFit, best_student
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
SMALL, KEEN_FROM = 2000, 0.1
"""Parameters up to which, and fresh residual, relative to what bends, from which on steps are exact ..."""
TURN, TURN_STEPS, TURNS = 3.0, 20, 2
"""... with so many residuals a parameter, changed after so many steps, so often a round."""
KEEN = Settings(max_steps=TURN_STEPS, damping=1e-4, least_damping=1e-7, stall_steps=0)
PARTS, STEPS = 3, 8
"""Others are inexact and see the points in so many parts, each for so many steps a round."""
CAREFUL = Settings(max_steps=STEPS, damping=3e-3, least_damping=3e-4, stall_steps=0)
"""Less damping would fit the part at hand at the cost of the others."""
ROUNDS = 40
NEARBY = 1e-5
"""Damping where the units are found."""
BEHIND, BEHIND_KIN = 1.3, 2.0
"""A student rests whose fresh residual is so many times that of the leader; one of a single activation, which may have
been taken over from another. One is given up whose fresh residual ..."""
STALLED, STALLED_KEEN, PATIENCE = 0.95, 0.6, 3
"""... has not fallen to this fraction, that of one with exact steps to the other, over so many rounds ..."""
LATE, STALLED_LATE = 8, 0.8
"""... and, after so many, to this one."""
TELLING, TELLING_LATE = 5e-3, 4e-2
"""Fresh residual, relative to what bends, from which on activations of one kind have students of their own; of a large
student, or one that has stalled."""
NEAR, NEAR_LARGE = 2e-3, 2e-2
"""The same at which a student may have found the units, and a large one, for which rounds are costly; one that had not
is asked again at half of it."""
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
    num_turns: int = 0
    finished: float = np.inf
    """Its fresh residual when it was last pruned, in vain."""

    @property
    def is_large(self) -> bool:
        return self.layout.num_parameters > SMALL

    @property
    def is_keen(self) -> bool:
        """Whether it takes exact steps."""
        return not self.is_large and self.last < KEEN_FROM

    @property
    def last(self) -> float:
        """Its fresh residual now."""
        return self.fresh[-1] if self.fresh else np.inf

    def may_finish(self, leads: bool) -> bool:
        """Whether it may have found the units; the leader is given the chance before it is given up."""
        near = self.last < (NEAR_LARGE if self.is_large else NEAR)
        near |= leads and self.has_stalled and self.tells
        return len(self.activations) == 1 and near and self.last < self.finished / 2

    @property
    def slack(self) -> float:
        return BEHIND if len(self.activations) > 1 else BEHIND_KIN

    @property
    def has_stalled(self) -> bool:
        limit = STALLED_KEEN if self.is_keen else STALLED if len(self.fresh) < LATE else STALLED_LATE
        return len(self.fresh) > PATIENCE and self.last > limit * self.fresh[-1 - PATIENCE]

    @property
    def tells(self) -> bool:
        """Whether it tells activations of one kind apart."""
        return self.last < (TELLING_LATE if self.is_large or self.has_stalled else TELLING)


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
    noise: float
    """Of one answer, in the units of y."""

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, deadline: float, noise: float = 0.0) -> Class:
        standard = Standard.of(x, y, common=noise > 0)
        u, v = standard.inputs(x), standard.outputs(y)
        return Class(standard, x, y, u, v, bend_of(u, v), deadline, noise)

    @property
    def is_over(self) -> bool:
        return clock.now() > self.deadline

    def enter(self, activations: list[str], size: int, rng: np.random.Generator) -> Racer:
        shape = Shape(self.v.size / size, ASPECT)
        widths = choose_widths(self.u, self.v, Candidate(activations[0], 2), shape)
        layout = Form.of(activations[0]).layout((self.u.shape[1], *widths, self.v.shape[1]))
        return Racer(activations, layout, draw_start(layout, self.u[HELD:], self.v[HELD:], rng))

    def advance(self, racer: Racer) -> None:
        """One round, of so many turns: steps on a part of the points."""
        for _ in range(TURNS if racer.is_keen else PARTS):
            if self.is_over:
                break
            racer.parameters = self._take_turn(racer)
            racer.num_turns += 1
        racer.fresh.append(self.unpredicted(racer.layout, racer.parameters))

    def split(self, racer: Racer) -> list[Racer]:
        """One racer for each activation that this one may still turn out to have."""
        if len(racer.activations) == 1 or not racer.tells:
            return [] if racer.has_stalled else [racer]
        racers = []
        for name in racer.activations:
            layout, parameters = take_over(racer.layout, racer.parameters, name)
            racers.append(Racer([name], layout, parameters, [racer.last], racer.num_turns))
        return racers

    def unpredicted(self, layout: Layout, parameters: np.ndarray) -> float:
        """The residual at the points held back, relative to what bends."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = layout.forward(parameters, self.u[:HELD]) - self.v[:HELD]
        found = float(np.sqrt(np.mean(rest**2))) / self.bend
        return found if np.isfinite(found) else np.inf

    def _take_turn(self, racer: Racer) -> np.ndarray:
        settings = replace(
            KEEN if racer.is_keen else CAREFUL, target=PROMISING * self.bend / 3, deadline=self.deadline
        )
        layout = racer.layout
        if not racer.is_keen:
            part = slice(HELD + racer.num_turns % PARTS, None, PARTS)
            problem = InexactProblem(layout, self.u[part], self.v[part])
            return descend(problem, racer.parameters, 1.0, settings).parameters
        count = int(TURN * layout.num_parameters / self.v.shape[1]) + 1
        begin = HELD + racer.num_turns % max((len(self.u) - HELD) // count, 1) * count
        part = slice(begin, begin + count)
        fit = fit_layout if layout.skips else fit_collapsed
        return fit(layout, racer.parameters, self.u[part], self.v[part], settings=settings).parameters


def search_plenty(
    buy: Buy,
    activations: Sequence[str],
    *,
    rng: np.random.Generator,
    time_limit: float,
    sizes: Sequence[tuple[int, float]] = SIZES,
    noise: float = 0.0,
) -> OverwideFit:
    """Students of growing size, each with points in proportion, until one is exact at minimal width.

    ``noise`` is the standard deviation of one answer: rounding of float32 models, say.
    """
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
        course = Class.of(x, y, deadline, noise)
        racers = [course.enter(kind, size, rng) for kind in kinds]
        for found, attempt in _race(course, racers):
            attempts.append(attempt)
            best = best if found is None else found
            if best is not None and best.minimal:
                break
        kinds = _leading(racers)
    if best is None:
        network, rms = best_student(attempts if scale == 1 else [])
        reason = f"no student of two hidden layers fitted {len(x):,} points exactly"
        if network is not None:
            reason = f"{reason}; one reproduces the answers to {rms:.0e}, its parameters are its own"
        return OverwideFit(network, rms, False, len(x), tuple(attempts), reason=reason)
    polished = best.polished if scale == 1 else _fit_whole_range(best.network, buy, deadline, noise)
    return OverwideFit(
        polished.network, polished.rms, best.minimal, len(x), tuple(attempts), polished, best.undetermined
    )


def num_needed(size: int, ratio: float, num_outputs: int) -> int:
    """Points for students of so many parameters, with so many residuals for each."""
    return int(ratio * size / num_outputs) + HELD


def _fit_whole_range(network: Network, buy: Buy, deadline: float, noise: float) -> Polished:
    """The last digits of a network that was found in a part of the range, from all of it."""
    x, y = buy(1.0, int(WHOLE * network.num_parameters / network.output_size) + 20)
    settings = Settings(target=1e-14, max_steps=30, damping=1e-6, stall_steps=0, deadline=deadline)
    return polish(fit_network(network, x, y, settings=settings).network, x, y, noise=noise)


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
    least = min((racer.last for racer in racers), default=np.inf)
    return [r.activations for r in racers if not r.fresh or r.last < BEHIND * least]


def _race(course: Class, racers: list[Racer]) -> Iterator[Trial]:
    """Students of every kind, in rounds, those in front; those that come close are finished."""
    least = np.inf
    for _ in range(ROUNDS):
        least = min(least, *(racer.last for racer in racers))
        for racer in racers:
            if course.is_over:
                return
            if not racer.fresh or racer.last <= racer.slack * least:
                course.advance(racer)
        racers = sorted(racers, key=lambda racer: racer.last)
        for racer in racers:
            if racer.may_finish(racer is racers[0]):
                yield from _finish(course, racer)
                racer.finished = racer.last
        leads = BEHIND * racers[0].last
        racers = [
            part for racer in racers for part in (course.split(racer) if racer.last <= leads else [racer])
        ]
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
            noise=course.noise,
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
