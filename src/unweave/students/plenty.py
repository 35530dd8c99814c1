"""Two and three hidden layers from plenty of points: where sparing ones let no student converge, many more often do.

With three to five residuals a parameter a student of a trained network ends in a valley of its own. With others in turn
the same student finds the units: cheap steps (``solve.inexact``) on thirds of a dozen or two lead to the valley, and
from there a small student takes a hundred exact steps on three residuals a parameter, which change every twenty. It has
to be asked where it can learn: where no small student of one hidden layer predicts anything, the range is halved.
Activations of one kind share a student until it nearly fits (``kin``); that of a wrong one does not predict points it
has not seen any better, however well it fits. Those behind rest while others lead. Then a few residuals a parameter do:
surplus units are sifted out (``sift``), or the student is pruned and polished as any other.

One long file: every step of the race reads and changes the same students.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.solve.collapsed import collapses
from unweave.solve.descend import Minimum, Settings, descend
from unweave.solve.devices import fits_memory
from unweave.solve.fit import fit_collapsed, fit_layout, fit_network
from unweave.solve.inexact import InexactProblem
from unweave.solve.layout import Layout
from unweave.solve.polish import Polished, polish
from unweave.students.effort import Candidate, Shape, choose_widths
from unweave.students.forms import Form
from unweave.students.kin import group_kin, take_over
from unweave.students.nearly_affine import bend_of
from unweave.students.overwide import SURROGATE, OverwideFit
from unweave.students.racer import FOUND, Racer
from unweave.students.sift import Fit, sift
from unweave.students.standard import Standard
from unweave.students.starts import draw_start
from unweave.students.student import PROMISING, Attempt, Recovered, Task, Trial

SIZES = ((1200, 24.0), (3000, 12.0), (7500, 10.0))
"""Parameters of the students, in turn, with the residuals for each of them ..."""
ASPECT = 0.8
"""... and the width of their second layers over the first; ..."""
ASPECT_DEEP = 0.9
"""... of three hidden layers, of each over the one below."""
ENOUGH = 2.0
"""The same from where a student has found the units."""
WHOLE = 1.5
"""The same once the network is known in a part of the range."""
TRIES = 2
"""Sets of so many points that a student is pruned on, at most."""
ROUNDINGS = 3.0
"""Residual, relative to the noise, up to which a student is exact: rounding varies, and few segments measured it."""
HELD = 500
"""Points that no fit sees."""
TURN, TURN_STEPS, TURNS = 3.0, 20, 2
"""Exact steps see so many residuals a parameter, changed after so many steps, so often a round."""
KEEN = Settings(max_steps=TURN_STEPS, stall_steps=0)
DAMPED, MOST_DAMPED = 3.0, 1e-4
"""Their damping to begin with, relative to the squared residual, with which it falls; and at most."""
PARTS, STEPS = 3, 8
"""Others are inexact and see the points in so many parts, each for so many steps a round."""
CAREFUL = Settings(max_steps=STEPS, damping=3e-3, least_damping=3e-4, stall_steps=0)
"""Less damping would fit the part at hand at the cost of the others."""
ROUNDS = 40
SIFTING = 20
"""Exact steps before surplus units are told, and between."""
NEARBY = 1e-5
"""Damping where the units are found."""
BEHIND = 2.0
"""A student rests whose fresh residual is so many times that of the leader, until that is given up: early on, forms
with skips lead whatever the truth."""
LOOKS, LOOKING, BLIND = 2000, 40, 0.9
"""A range is looked at with so many points and steps, and is too wide where a student leaves more than this fraction of
what bends unpredicted."""
HALVINGS = 5

Buy = Callable[[float, int], tuple[np.ndarray, np.ndarray]]
"""``buy(scale, n)``: up to n points of the range scaled by a factor, with their answers."""


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
    noise: float = 0.0
    """Of one answer, in the units of y."""
    copies: list[tuple[float, Network]] = field(default_factory=list)
    """The racer that predicted best so far, with what it leaves of the answers."""

    @staticmethod
    def of(
        x: np.ndarray,
        y: np.ndarray,
        deadline: float,
        noise: float = 0.0,
        standard: Standard | None = None,
    ) -> Class:
        standard = Standard.of(x, y, common=noise > 0) if standard is None else standard
        u, v = standard.inputs(x), standard.outputs(y)
        return Class(standard, x, y, u, v, bend_of(u, v), deadline, noise)

    @property
    def is_over(self) -> bool:
        return clock.now() > self.deadline

    def enter(self, activations: list[str], size: int, rng: np.random.Generator, depth: int = 2) -> Racer:
        shape = Shape(self.v.size / size, ASPECT if depth == 2 else ASPECT_DEEP)
        widths = choose_widths(self.u, self.v, Candidate(activations[0], depth), shape)
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
        self._keep(racer)

    def split(self, racer: Racer) -> list[Racer]:
        """One racer for each activation that this one may still turn out to have."""
        if len(racer.activations) == 1 or not racer.tells:
            return [] if racer.has_stalled else [racer]
        racers = []
        for name in racer.activations:
            layout, parameters = take_over(racer.layout, racer.parameters, name)
            racers.append(Racer([name], layout, parameters, [racer.last], racer.num_turns))
        return racers

    def _keep(self, racer: Racer) -> None:
        """As a network of the points' own coordinates, if its form has one and none has left less of the answers."""
        rms = racer.last * self.bend
        if not racer.layout.skips and rms < min((copy[0] for copy in self.copies), default=np.inf):
            network = self.standard.undo(racer.layout.network(racer.parameters))
            self.copies[:] = [(rms, network)]

    def unpredicted(self, layout: Layout, parameters: np.ndarray) -> float:
        """The residual at the points held back, relative to what bends."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = layout.forward(parameters, self.u[:HELD]) - self.v[:HELD]
        found = float(np.sqrt(np.mean(rest**2))) / self.bend
        return found if np.isfinite(found) else np.inf

    def _take_turn(self, racer: Racer) -> np.ndarray:
        layout = racer.layout
        if not racer.is_keen:
            settings = replace(CAREFUL, target=PROMISING * self.bend / 3, deadline=self.deadline)
            part = slice(HELD + racer.num_turns % PARTS, None, PARTS)
            problem = InexactProblem(layout, self.u[part], self.v[part])
            return descend(problem, racer.parameters, 1.0, settings).parameters
        settings = replace(
            KEEN,
            target=max(FOUND * self.bend / 3, 1.2 * self.noise / float(np.min(self.standard.spread))),
            damping=min(DAMPED * (racer.last * self.bend) ** 2, MOST_DAMPED),
            deadline=self.deadline,
        )
        count = int(TURN * layout.num_parameters / self.v.shape[1]) + 1
        begin = HELD + racer.num_turns % max((len(self.u) - HELD) // count, 1) * count
        part = slice(begin, begin + count)
        fit = fit_collapsed if collapses(layout) else fit_layout
        return fit(layout, racer.parameters, self.u[part], self.v[part], settings=settings).parameters


def search_plenty(
    buy: Buy,
    activations: Sequence[str],
    *,
    rng: np.random.Generator,
    time_limit: float,
    sizes: Sequence[tuple[int, float]] = SIZES,
    depths: Sequence[int] = (2,),
    noise: float = 0.0,
) -> OverwideFit:
    """Students of growing size, each with points in proportion, until one is exact at minimal width.

    ``noise`` is the standard deviation of one answer: rounding of float32 models, say.
    """
    deadline = clock.now() + time_limit
    scale, x, y = choose_scale(buy, rng, deadline)
    attempts: list[Attempt] = []
    best: Recovered | None = None
    copies: list[tuple[float, Network]] = []
    entrants = [(kind, depth) for depth in depths for kind in group_kin(activations)]
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
        racers = [course.enter(kind, size, rng, depth) for kind, depth in entrants]
        for found, attempt in race(course, racers):
            attempts.append(attempt)
            best = best if found is None else found
            if best is not None and best.minimal:
                break
        copies += course.copies
        entrants = _leading(racers)
    if best is None:
        return _give_up(copies, len(x), tuple(attempts), is_whole=scale == 1)
    polished = best.polished if scale == 1 else _fit_whole_range(best.network, buy, deadline)
    return OverwideFit(
        polished.network, polished.rms, best.minimal, len(x), tuple(attempts), polished, best.undetermined
    )


def _give_up(
    copies: list[tuple[float, Network]], num_points: int, attempts: tuple[Attempt, ...], is_whole: bool
) -> OverwideFit:
    """The racer that predicts best, as a network where it does so nearly to rounding, else as a mere student."""
    rms, student = min(copies, key=lambda pair: pair[0], default=(np.inf, None))
    reason = f"no student of several layers fitted {num_points:,} points exactly"
    network = student if is_whole and rms < SURROGATE else None
    if network is not None:
        reason = f"{reason}; a student reproduces the answers to {rms:.0e}, its parameters are its own"
    return OverwideFit(network, rms, False, num_points, attempts, reason=reason, student=student)


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
            layout = Form.of(name).layout((look.u.shape[1], *widths, look.v.shape[1]))
            start = draw_start(layout, look.u[HELD:], look.v[HELD:], rng)
            settings = Settings(
                max_steps=LOOKING, target=BLIND * look.bend / 2, inexact=True, deadline=deadline
            )
            fit = fit_layout(layout, start, look.u[HELD:], look.v[HELD:], settings=settings)
            fits.append(look.unpredicted(layout, fit.parameters))
        if min(fits) < BLIND:
            break
        scale /= 2
    return scale, x, y


def _leading(racers: list[Racer]) -> list[tuple[list[str], int]]:
    """What those were that came furthest: larger students of the others would stay behind, too."""
    least = min((racer.last for racer in racers), default=np.inf)
    return [(r.activations, r.depth) for r in racers if not r.fresh or r.last < BEHIND * least]


def race(course: Class, racers: list[Racer]) -> Iterator[Trial]:
    """Students of every kind, in rounds, those in front; those that come close are finished."""
    for _ in range(ROUNDS):
        standing = [(racer.depth, racer.last) for racer in racers]
        for racer in racers:
            if course.is_over:
                return
            # a third layer emulates two, slowly, and leads far from a fit: it rests unless it leads, and holds none up
            least = min(last for depth, last in standing if depth <= racer.depth)
            slack = BEHIND if racer.depth == 2 else 1.0
            if not racer.fresh or racer.last <= slack * least:
                course.advance(racer)
        racers = sorted(racers, key=lambda racer: racer.last)
        near = [racer for racer in racers if racer.may_finish(racer is racers[0])]
        yield from _finish(course, near)
        for racer in near:
            racer.finished = racer.last
        leads = BEHIND * racers[0].last
        racers = [
            part for racer in racers for part in (course.split(racer) if racer.last <= leads else [racer])
        ]
        if not racers:
            return


def _finish(course: Class, racers: list[Racer]) -> Iterator[Trial]:
    """Networks from students that have found the units: surplus units are sifted out, and pruned where that fails.

    Sifting is quick, so all of them are sifted first.
    """
    reached = dict.fromkeys(map(id, racers), np.inf)
    for racer in racers:
        trial = sift_out(course, racer)
        if trial is not None:
            reached[id(racer)] = trial[1].rms
            yield trial
    for racer in sorted(racers, key=lambda racer: reached[id(racer)]):
        yield from _prune(course, racer)


def sift_out(course: Class, racer: Racer) -> Trial | None:
    """What became of a student without its surplus units; None: they do not stand out."""
    task = _task_of(course, racer, 0)
    layout, parameters = racer.layout, racer.parameters
    sifted = sift(layout, parameters, task.u, task.v, act.get(task.activation), _step_of(task))
    return None if sifted is None or course.is_over else task.try_plain(*sifted)


def _prune(course: Class, racer: Racer) -> Iterator[Trial]:
    """Prune and polish, on a few residuals a parameter.

    Where that leaves more units than needed, other points often do not.
    """
    for attempt in range(TRIES):
        task = _task_of(course, racer, attempt)
        found, ended = next(task.try_starts([_converge(task, racer.parameters)]))
        yield found, ended
        if found is None or found.minimal or course.is_over:
            return


def _task_of(course: Class, racer: Racer, attempt: int) -> Task:
    """What a student is finished on: a few residuals a parameter."""
    layout, outputs = racer.layout, course.v.shape[1]
    count = min(int(ENOUGH * layout.num_parameters / outputs) + 50, (len(course.x) - HELD) // TRIES)
    chosen = slice(HELD + attempt * count, HELD + (attempt + 1) * count)
    return Task.of(
        course.x[chosen],
        course.y[chosen],
        racer.activations[0],
        layout.hidden,
        noise=course.noise,
        tolerance=ROUNDINGS,
        deadline=course.deadline,
        standard=course.standard,
    )


def _converge(task: Task, parameters: np.ndarray) -> np.ndarray:
    """Exact steps, as far as removals need."""
    settings = replace(task.settings, target=PROMISING * task.bend, damping=NEARBY, inexact=False)
    return _fit_exactly(task.layout, parameters, task, settings).parameters


def _step_of(task: Task) -> Fit:
    """A few exact steps from so much damping."""

    def fit(layout: Layout, parameters: np.ndarray, damping: float) -> Minimum:
        settings = Settings(
            max_steps=SIFTING, damping=damping, stall_steps=0, deadline=task.settings.deadline
        )
        return _fit_exactly(layout, parameters, task, settings)

    return fit


def _fit_exactly(layout: Layout, parameters: np.ndarray, task: Task, settings: Settings) -> Minimum:
    fit = fit_collapsed if collapses(layout) else fit_layout
    return fit(layout, parameters, task.u, task.v, settings=settings)
