"""Two hidden layers on top of more first-layer units than inputs, from far vertices, in steps on a few answers each.

At a far vertex the hidden vector of the first layer is known exactly, and twenty to sixty units on fewer inputs have as
many vertices as a student wants. One of twice their number in both layers has thousands of parameters: a step on all
answers takes seconds, those of ``solve.batches`` milliseconds. With surplus units the residual falls to a hundredth of
what bends, where the true widths begin to show: the others stand in for surplus units, of the last layer in answers,
of the one below in arguments (``students.redundant``). What is predicted to be left then leaps at the true width, to
which the student is cut and mended, the lower layer first. With no surplus units, or few, least squares by products
gives the last digits (``solve.gauss_newton``), and with them what is still surplus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core import clock
from unweave.core.activations import Activation
from unweave.methods.far_field.top import Top
from unweave.solve.batches import Pace, descend_in_batches
from unweave.solve.descend import End, Minimum
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.layout import Layout
from unweave.students.nearly_affine import bend_of
from unweave.students.overwide import Pool
from unweave.students.redundant import Cut, plan_cuts, plan_lower_cuts
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

WIDER, RATIO = 2.0, 2.8
"""Units of both layers relative to the first one, and answers a parameter."""
SEARCH = Pace(num_answers=256, num_steps=4000, damping=1e-2, momentum=0.98)
SETTLE = Pace(num_answers=400, num_steps=3000, damping=1e-3, momentum=0.995)
ROUND, ROUNDS = Pace(num_answers=500, num_steps=3000, damping=2e-4, momentum=0.998, rate=0.07), 12
"""Steps from a random start, then with less damping, and after every change of widths."""
LOST, CLOSE, ENOUGH, LEAST = 0.1, 6e-3, 5e-4, 1e-5
"""Residuals relative to that of the best affine function: above the first the student is given up, below the second
widths are tried, below the third a student that has no more to lose is brought to the end, below the last steps end."""
FREE = 1.05
"""Surplus units go that are predicted to raise the residual by no more than this factor."""
LEAP, AFFORDABLE = 1.8, 0.2
"""A width is tried below which what is left leaps by this factor, where it is less than this, relative as above."""
WORSE = 2.0
"""A width that is tried may leave so many times the residual before it, and has to leave less after another round."""
FINISH = 1.6
"""Answers a parameter for the last digits."""
SHARES, SURPLUS, SPARE = (30.0, 3.0), 1e-4, 5
"""Units go that are predicted to raise the residual to so many times what it is, or fewer; with all digits there, those
that are predicted to leave less than the second, relative as above; so often at most."""


def fit_pair(
    pool: Pool,
    activation: Activation,
    *,
    accept: float,
    rng: np.random.Generator,
    max_vertices: int,
    deadline: float,
) -> Top:
    """The upper network, its residual at most ``accept`` of the spread of the values, or why there is none."""
    width = int(np.ceil(WIDER * pool.x.shape[1]))
    layout = Layout.uniform((pool.x.shape[1], width, width, pool.y.shape[1]), activation)
    wanted = int(np.ceil(RATIO * layout.num_parameters / pool.y.shape[1]))
    if wanted > max_vertices:
        return Top(None, np.inf, len(pool.x), "the budget does not leave enough vertices for two layers")
    x, y = pool.take(wanted)
    search = _Search.of(x, y, rng, deadline)
    layout = replace(layout, sizes=(search.u.shape[1], *layout.sizes[1:]))
    layout, fit = search.narrow(layout)
    attempts = ((activation.name, layout.hidden, len(x), float(fit.rms), str(fit.end)),)
    reason = f"two layers of {width} units do not come near {len(x)} far vertices"
    if fit.rms > CLOSE * search.bend or clock.now() > deadline:
        return Top(None, fit.rms, len(x), reason, attempts)
    layout, fit = search.finish(layout, fit, accept)
    attempts += ((activation.name, layout.hidden, len(x), float(fit.rms), str(fit.end)),)
    if fit.rms > accept:
        return Top(None, fit.rms, len(x), reason, attempts)
    network = search.standard.undo(layout.network(fit.parameters))
    return Top(network, fit.rms, len(x), attempts=attempts)


@dataclass(frozen=True)
class _Search:
    """Students on one set of vertices, in standard coordinates."""

    u: np.ndarray
    v: np.ndarray
    standard: Standard
    bend: float
    rng: np.random.Generator
    deadline: float

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, rng: np.random.Generator, deadline: float) -> _Search:
        standard = Standard.of(x, y)
        u, v = standard.inputs(x), standard.outputs(y)
        return _Search(u, v, standard, bend_of(u, v), rng, deadline)

    def narrow(self, layout: Layout) -> tuple[Layout, Minimum]:
        """A student from a random start, without the units that it turns out to do without."""
        fit = self._descend(layout, draw_start(layout, self.u, self.v, self.rng), SEARCH)
        fit = self._descend(layout, fit.parameters, SETTLE)
        tried: set[tuple[int, int]] = set()
        for _ in range(ROUNDS):
            if fit.rms > LOST * self.bend or clock.now() > self.deadline:
                break
            trial = self._try_width(layout, fit, tried) if fit.rms < CLOSE * self.bend else None
            if trial is None and fit.rms <= ENOUGH * self.bend:
                break
            layout, fit = self._go_on(layout, fit) if trial is None else trial
        return layout, fit

    def finish(self, layout: Layout, fit: Minimum, accept: float) -> tuple[Layout, Minimum]:
        """The last digits, to a third of ``accept``, without surplus units, which keep steps from them."""
        fit = self._polish(layout, fit, accept)
        for _ in range(SPARE):
            trial = self._without_surplus(layout, fit, accept)
            if trial is None:
                break
            layout, fit = trial
        return layout, fit

    def _without_surplus(self, layout: Layout, fit: Minimum, accept: float) -> tuple[Layout, Minimum] | None:
        """The same with fewer units and no more left over; None where no unit may go."""
        exact = SURPLUS * self.bend if fit.rms <= accept else 0.0
        for layer in (1, 0):
            cuts = self._cuts(layout, fit, layer)
            for share in SHARES:
                spare = [c for c in cuts if c.predicted <= max(exact, share * fit.rms)]
                if not spare:
                    continue
                narrow, start = _without(layout, fit.parameters, layer, spare[-1])
                trial = self._polish(narrow, replace(fit, parameters=start), accept)
                if trial.rms <= max(accept, fit.rms):
                    return narrow, trial
        return None

    def _polish(self, layout: Layout, fit: Minimum, accept: float) -> Minimum:
        """Steps on as many answers as determine everything."""
        few, sigma = int(FINISH * layout.num_parameters / self.v.shape[1]), accept / 3
        found = polish_weighted(
            layout.network(fit.parameters),
            self.u[:few],
            self.v[:few],
            sigma,
            max_steps=25,
            damping=1e-7,
            patience=5,
            geodesic=True,
            deadline=self.deadline,
        )
        return Minimum(found.network.flat(), found.rms * sigma, fit.num_steps + found.num_steps, found.end)

    def _go_on(self, layout: Layout, fit: Minimum) -> tuple[Layout, Minimum]:
        """Without units of the last layer whose removal costs next to nothing, and after further steps."""
        cuts = [c for c in self._cuts(layout, fit, 1) if c.predicted <= FREE * fit.rms]
        layout, start = _without(layout, fit.parameters, 1, cuts[-1]) if cuts else (layout, fit.parameters)
        return layout, self._descend(layout, start, ROUND)

    def _try_width(
        self, layout: Layout, fit: Minimum, tried: set[tuple[int, int]]
    ) -> tuple[Layout, Minimum] | None:
        """The student cut to a width below which much more would be left, or to one unit more where that was tried, if
        it then explains as much.
        """
        for layer in (0, 1):
            cuts = {int(c.kept.sum()): c for c in self._cuts(layout, fit, layer)}
            width = _before_leap(list(cuts.values()), AFFORDABLE * self.bend)
            for wanted in () if width is None else (width, width + 1):
                if (layer, wanted) in tried or wanted not in cuts:
                    continue
                tried.add((layer, wanted))
                narrow, start = _without(layout, fit.parameters, layer, cuts[wanted])
                trial = self._descend(narrow, start, ROUND)
                if trial.rms < WORSE * fit.rms:
                    return narrow, trial
        return None

    def _cuts(self, layout: Layout, fit: Minimum, layer: int) -> list[Cut]:
        """Removals of units of a layer, the cheapest first."""
        if layer == 0:
            return plan_lower_cuts(layout, fit.parameters, self.u, fit.rms)
        rows = layout.block(fit.parameters, 0)
        values = layout.activations[0].value(self.u @ rows[:, :-1].T + rows[:, -1], np)
        above = Layout.uniform(layout.sizes[1:], layout.activations[1])
        return plan_cuts(above, fit.parameters[layout.starts[1] :], values, fit.rms)

    def _descend(self, layout: Layout, start: np.ndarray, pace: Pace) -> Minimum:
        target = LEAST * self.bend
        if clock.now() > self.deadline:
            rms = float(np.sqrt(np.mean((layout.forward(start, self.u) - self.v) ** 2)))
            return Minimum(start, rms, 0, End.TIME)
        return descend_in_batches(
            layout, start, self.u, self.v, pace, self.rng, target=target, deadline=self.deadline
        )


def _before_leap(cuts: list[Cut], affordable: float) -> int | None:
    """The units left after the removal after which the next one costs most, relative to it, if that is much and it is
    affordable.
    """
    predicted = np.array([c.predicted for c in cuts])
    leaps = np.where(predicted[:-1] < affordable, predicted[1:] / np.maximum(predicted[:-1], 1e-300), 0.0)
    if not len(leaps) or np.max(leaps) < LEAP:
        return None
    return int(cuts[int(np.argmax(leaps))].kept.sum())


def _without(layout: Layout, parameters: np.ndarray, layer: int, cut: Cut) -> tuple[Layout, np.ndarray]:
    """The layout and the parameters after a removal from one of its two layers."""
    sizes, count = layout.sizes, int(cut.kept.sum())
    if layer == 0:
        kept = np.concatenate([cut.parameters, parameters[layout.starts[2] :]])
        return replace(layout, sizes=(sizes[0], count, *sizes[2:])), kept
    kept = np.concatenate([parameters[: layout.starts[1]], cut.parameters])
    return replace(layout, sizes=(*sizes[:2], count, sizes[3])), kept
