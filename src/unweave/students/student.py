"""One over-wide random student: fit by Levenberg-Marquardt, prune to minimal width, polish, judge.

Recovers a smooth network exactly from values at ordinary points: start wider than the truth, fit everything,
prune by optimal brain surgeon, refit, find the signs where the form has none, polish. There is no theorem;
the result is judged by what it reached: a residual at rounding (or noise) level with more residuals than
parameters, and a Jacobian of full rank at minimal width, which no reducible network has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.solve.descend import End, Minimum, Settings
from unweave.solve.fit import spread_of
from unweave.solve.layout import Layout, without_affine
from unweave.solve.polish import Polished, polish
from unweave.solve.together import fit_each
from unweave.students.forms import Form
from unweave.students.narrow import STALLED, UNSURE, narrow_down
from unweave.students.nearly_affine import FINE, bend_of, best_affine, is_fitted_bent
from unweave.students.prune import EXACT
from unweave.students.shallower import drop_layer
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

PROMISING = 3e-4
"""Residual, relative to that of the best affine function, at which a student is in the basin."""
SIGN_ERROR = 1e-6
"""Relative error allowed in the identity that the signs of even units solve ..."""
SIGN_SLACKS = (1.0, 10.0, 100.0)
"""... times this, in turn, of rounded answers."""
AFFINE_LAYER = 0.3
"""What a student may leave without its most nearly affine layer, relative to what bends, for one of a layer less to
begin with the others."""
HELD, WORTH_HOLDING, MEMORISED, MEMORISED_EARLY = 20, 1000, 4.0, 2.0
"""One point of twenty is held back from large students. A residual there of more than four times that of the fit
(twice, for a student that ran out of steps) means that a student of the wrong form has memorised its points:
pruning it would be slow and in vain."""
NEGLIGIBLE = 1e-13
"""Relative noise below which answers count as exact."""


class Miss(StrEnum):
    """Why a student that fitted its points is not the network."""

    MEMORISED = "memorised"
    SIGNS = "signs"


@dataclass(frozen=True)
class Student:
    """A fitted student in its standard coordinates; ``affine`` completes one that was fitted without."""

    standard: Standard
    layout: Layout
    parameters: np.ndarray
    affine: np.ndarray | None = None

    def network(self, activation: str) -> Network | None:
        """The student in the coordinates of the data, where its form has a plain network."""
        form = Form.of(activation)
        if form.skips or self.affine is not None:
            return None
        plain = form.network(self.layout, self.parameters, rtol=SIGN_ERROR)
        return None if plain is None else self.standard.undo(plain.network)

    def fresh_residual(self, x: np.ndarray, y: np.ndarray) -> float:
        """Root mean square residual at other points, relative to the spread of those it was fitted to."""
        return self.residual(self.standard.inputs(x), self.standard.outputs(y))

    def residual(self, u: np.ndarray, v: np.ndarray) -> float:
        """The same at points in standard coordinates."""
        rest = self.layout.forward(self.parameters, u) - v
        if self.affine is not None:
            rest += np.hstack([u, np.ones((len(u), 1))]) @ self.affine
        return float(np.sqrt(np.mean(rest**2)))


@dataclass(frozen=True)
class Attempt:
    """One student: what was tried and how far it got."""

    activation: str
    widths: tuple[int, ...]
    num_points: int
    rms: float
    num_steps: int
    end: End | Miss
    student: Student = field(repr=False)
    narrowed: bool = False
    """Whether the first fit was good enough to be narrowed down."""


@dataclass(frozen=True)
class Recovered:
    """A network at a residual of rounding or noise; ``minimal`` when its Jacobian has full rank."""

    network: Network
    rms: float
    minimal: bool
    polished: Polished = field(repr=False)
    undetermined: tuple[str, ...] = ()


Rows = tuple[np.ndarray, np.ndarray]
"""Weights and biases of a layer, or of its first units."""
Trial = tuple[Recovered | None, Attempt]


def try_student(
    x: np.ndarray,
    y: np.ndarray,
    activation: str,
    widths: tuple[int, ...],
    *,
    rng: np.random.Generator,
    noise: float = 0.0,
    max_steps: int = 150,
    deadline: float = float("inf"),
    known: Sequence[Rows] = (),
) -> Trial:
    """One random student of these widths; None unless it ends exact, or at the noise level.

    ``known`` are weights and biases that the first units of its first layers start from.
    """
    task = Task.of(x, y, activation, widths, noise=noise, max_steps=max_steps, deadline=deadline)
    return next(task.try_from([rng], known))


def resume_student(
    attempt: Attempt, x: np.ndarray, y: np.ndarray, *, noise: float = 0.0, deadline: float = float("inf")
) -> Trial:
    """The same student, as narrow as it has become, from where it ended, on these points; for forms without skips."""
    student = attempt.student
    task = Task.of(x, y, attempt.activation, student.layout.hidden, noise=noise, deadline=deadline)
    here = student.standard.undo(student.layout.network(student.parameters))
    found, again = next(task.try_starts([task.standard.apply(here).flat()]))
    return found, replace(again, num_steps=attempt.num_steps + again.num_steps)


@dataclass(frozen=True)
class Task:
    """Students of one activation and widths on one set of points, in standard coordinates."""

    x: np.ndarray
    y: np.ndarray
    activation: str
    widths: tuple[int, ...]
    noise: float
    standard: Standard
    layout: Layout
    u: np.ndarray
    v: np.ndarray
    """What fits see, in standard coordinates."""
    held: tuple[np.ndarray, np.ndarray]
    """Points and answers that no fit sees."""
    floor: float
    """The noise, relative to the spread of the answers; 0 where they are exact."""
    bend: float
    """What there is to explain by units, relative likewise."""
    bent: bool
    """Whether students are fitted without the affine part (``nearly_affine``)."""
    settings: Settings

    @staticmethod
    def of(
        x: np.ndarray,
        y: np.ndarray,
        activation: str,
        widths: tuple[int, ...],
        *,
        noise: float = 0.0,
        max_steps: int = 150,
        deadline: float = float("inf"),
        standard: Standard | None = None,
    ) -> Task:
        standard = Standard.of(x, y, common=noise > 0) if standard is None else standard
        u, v = standard.inputs(x), standard.outputs(y)
        floor = noise / float(np.min(standard.spread))
        floor = floor if floor > NEGLIGIBLE else 0.0
        layout = Form.of(activation).layout((u.shape[1], *widths, v.shape[1]))
        bend = bend_of(u, v)
        settings = Settings(
            target=max(PROMISING * bend, 1.2 * floor),
            max_steps=max_steps,
            stall_above=STALLED * bend,
            inexact=True,
            deadline=deadline,
        )
        num_held = len(u) // HELD if floor == 0 and v.size >= WORTH_HOLDING else 0
        seen, held = slice(0, len(u) - num_held), slice(len(u) - num_held, None)
        bent = is_fitted_bent(layout, v[seen].size, bend, floor)
        if bent:
            settings = replace(settings, target=PROMISING, stall_above=STALLED, difference=FINE)
        return Task(
            x=x,
            y=y,
            activation=activation,
            widths=widths,
            noise=noise,
            standard=standard,
            layout=layout,
            u=u[seen],
            v=v[seen],
            held=(u[held], v[held]),
            floor=floor,
            bend=bend,
            bent=bent,
            settings=settings,
        )

    def try_from(self, rngs: Sequence[np.random.Generator], known: Sequence[Rows] = ()) -> Iterator[Trial]:
        """One student from each generator, in the order in which their first fits end; lazily.

        ``known`` are weights and biases of the first layers, as far as they are known: students start there.
        """
        first = [self.standard.rows(*known[0]), *map(np.column_stack, known[1:])] if known else []
        yield from self.try_starts([draw_start(self.layout, self.u, self.v, rng, first) for rng in rngs])

    def try_starts(self, starts: Sequence[np.ndarray]) -> Iterator[Trial]:
        """The same from these parameters."""
        seen = without_affine(self.u, self.v) if self.bent else self.v
        layout = replace(self.layout, bent=self.bent)
        for first in fit_each(layout, list(starts), self.u, seen, self.settings):
            yield self._finish(first, spread_of(seen) if self.bent else 1.0)

    def _finish(self, first: Minimum, scale: float) -> Trial:
        """Judge the first fit of a student, narrow it down and polish it; ``scale`` is that of its residuals."""
        layout, u, v, settings, affine = self.layout, self.u, self.v, self.settings, None
        if self.bent:
            affine, _ = best_affine(u, v - layout.forward(first.parameters, u))
        student = Student(self.standard, layout, first.parameters, affine)
        rms = first.rms * scale
        attempt = Attempt(self.activation, self.widths, len(self.x), rms, first.num_steps, first.end, student)
        if first.rms > (settings.stall_above if first.end is End.STEPS else settings.target):
            return None, attempt
        most = MEMORISED if first.rms <= settings.target else MEMORISED_EARLY
        if len(self.held[0]) and student.residual(*self.held) > most * rms:
            return None, replace(attempt, end=Miss.MEMORISED)
        shallower = self._try_shallower(layout, first)
        if shallower is not None and shallower[0] is not None:
            return shallower
        layout, fit = narrow_down(
            layout,
            first,
            u,
            v,
            bend=self.bend,
            floor=self.floor,
            max_steps=settings.max_steps,
            deadline=settings.deadline,
            bent=self.bent,
        )
        if fit.rms > rms and clock.now() > settings.deadline:  # cut in the middle of a refit
            return None, replace(attempt, end=End.TIME, narrowed=True)
        attempt = replace(
            attempt,
            rms=fit.rms,
            num_steps=attempt.num_steps + fit.num_steps,
            end=fit.end,
            student=Student(self.standard, layout, fit.parameters),
            narrowed=True,
        )
        return (None, attempt) if fit.rms > self._enough(fit.end) else self._polish(layout, fit, attempt)

    def _try_shallower(self, layout: Layout, first: Minimum) -> Trial | None:
        """The same without the layer that is most nearly affine, where that explains exact answers, too: noise could
        hide that a layer is missing.
        """
        if len(self.widths) < 2 or self.bent or layout.skips or self.floor > 0:
            return None
        network, rest = drop_layer(layout.network(first.parameters), self.u, self.v)
        if rest > AFFINE_LAYER * self.bend:
            return None
        sizes = (layout.sizes[0], *network.hidden, layout.sizes[-1])
        fewer = replace(
            self,
            widths=network.hidden,
            layout=replace(layout, sizes=sizes, activations=layout.activations[1:]),
        )
        return next(fewer.try_starts([network.flat()]))

    def _polish(self, layout: Layout, fit: Minimum, attempt: Attempt) -> Trial:
        """The plain network of a student at the level of the answers, to the last digit, if it has one."""
        form, enough = Form.of(self.activation), self._enough(fit.end)
        # skips of rounded answers are known less well than these; whether signs are right shows in the polish
        for slack in SIGN_SLACKS if self.floor > 0 else SIGN_SLACKS[:1]:
            plain = form.network(layout, fit.parameters, rtol=slack * max(SIGN_ERROR, 100 * self.floor))
            if plain is not None:
                break
        else:
            return None, replace(attempt, end=Miss.SIGNS)
        polished = polish(self.standard.undo(plain.network), self.x, self.y, noise=self.noise)
        if polished.rms > enough:
            return None, replace(attempt, rms=polished.rms, end=Miss.SIGNS)
        num_free = form.free_per_unit * sum(polished.network.hidden)
        num_free += self.standard.num_lost * polished.network.hidden[0]
        minimal = polished.null_directions.shape[1] <= num_free
        found = Recovered(polished.network, polished.rms, minimal, polished, plain.undetermined)
        return found, replace(attempt, rms=polished.rms)

    def _enough(self, end: End) -> float:
        """The residual up to which a student is that of the answers: one at its minimum tells the noise better than a
        few differences did.
        """
        stands = end is not End.STEPS and end is not End.TIME
        return max(EXACT, (UNSURE if stands else 1.2) * self.floor)
