"""One hidden layer on top of many first-layer units, from far vertices, in steps whose cost is that of a few passes.

At a far vertex the hidden vector of the first layer is known exactly, so the layer on top of a hundred and more units
is a fit of thousands of parameters to known inputs. Students with about half as many units again as the truth converge
by inexact steps (``solve.inexact``), which form no Jacobian; surplus units are then found from their values alone
(``students.redundant``), and the last digits come from least squares by products (``solve.gauss_newton``). The width is
unknown: vertices are bought, and students widened, in steps until one fits; one that comes near lacks few units, and
the next begins with those it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from unweave.core import clock
from unweave.core.activations import Activation
from unweave.core.network import Network
from unweave.methods.far_field.top import Top
from unweave.solve.descend import End, Minimum, Settings, descend
from unweave.solve.fit import LEAST_INEXACT, fit_collapsed, spread_of
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.inexact import InexactProblem
from unweave.solve.layout import Layout
from unweave.students.nearly_affine import bend_of
from unweave.students.overwide import Pool
from unweave.students.redundant import Cut, plan_cuts
from unweave.students.scalars import fit_scalars
from unweave.students.standard import Standard
from unweave.students.starts import BIAS, NORMS, draw_start

RATIO = 2.8
"""Answers a parameter of a student."""
FIRST, GROWTH = 8, 1.5
"""Units of the first student, and of the next relative to it."""
KNOWN = 1.5
"""Units of a student relative to a width that is given."""
WIDEST = 2.4
"""Units of the widest student, relative to the first layer."""
CLOSE, STALLED = (3e-4, 1e-5), 2e-3
"""Residuals relative to that of the best affine function: surplus units show; a start is given up only above."""
NEAR = 0.1
"""A student that stalls below this, relative likewise, lacks few units: the next one begins with those it has."""
AFFORDABLE, BOLD = 2e-2, 1e3
"""Removals are tried that are predicted to leave no more than this, relative likewise, and than so many residuals."""
FEW, OVERDETERMINED = 40, 1.4
"""Vertices a unit for slopes and shifts along known rows; answers a parameter where there is nothing to search for."""
ROUNDS = 4
"""Of removals."""
LEAST_MOVING = 0.1
"""Deviation of a unit over the vertices that starts count it with at least."""
SAME, EXACT = 1.02, 1e-13
"""A unit is one too many without which the residual is no larger than this multiple of it, or at rounding."""


def fit_wide(
    pool: Pool,
    activation: Activation,
    *,
    width: int | None,
    accept: float,
    noise: float,
    rng: np.random.Generator,
    max_vertices: int,
    deadline: float,
) -> Top:
    """The upper network, its residual at most ``accept`` of the spread of the values, or why there is none."""
    attempts, best, known = [], np.inf, None
    for num_units in _widths(pool.x.shape[1], width):
        layout = Layout.uniform((pool.x.shape[1], num_units, pool.y.shape[1]), activation)
        wanted = int(np.ceil(RATIO * layout.num_parameters / pool.y.shape[1]))
        if wanted > max_vertices:
            break
        task = Task(*pool.take(wanted), noise, deadline)
        layout, fit = task.solve(task.moving(layout), rng, accept, known)
        known = task.standard.undo(layout.network(fit.parameters)) if fit.rms < NEAR * task.bend else None
        best = min(best, fit.rms)
        attempts.append((activation.name, layout.hidden, len(task.u), float(fit.rms), str(fit.end)))
        if fit.rms <= accept:
            network = task.standard.undo(layout.network(fit.parameters))
            return Top(network, fit.rms, len(task.u), attempts=tuple(attempts))
        if clock.now() > deadline:
            reason = "the time limit was reached while fitting the second layer"
            return Top(None, best, len(pool.x), reason, tuple(attempts))
        if len(task.u) < wanted:
            break
    return Top(None, best, len(pool.x), f"no second layer fits {len(pool.x)} far vertices", tuple(attempts))


def fit_along(
    pool: Pool,
    rows: np.ndarray,
    activation: Activation,
    *,
    accept: float,
    rng: np.random.Generator,
    deadline: float,
) -> Top:
    """The same from directions ``rows`` of the units that are known to a per cent or so: no search, no surplus."""
    layout = Layout.uniform((rows.shape[1], len(rows), pool.y.shape[1]), activation)
    few, count = FEW * len(rows), int(np.ceil(OVERDETERMINED * layout.num_parameters / pool.y.shape[1]))
    task = Task(*pool.take(max(few, count)), 0.0, deadline)
    layout = task.moving(layout)
    scalars = fit_scalars(task.x[:few], task.y[:few], rows, activation.name, deadline)
    known = task.standard.rows(scalars.slopes[:, None] * rows, scalars.shifts)
    start = draw_start(layout, task.u, task.v, rng, [known])
    fit = task.finish(layout, task.approach(layout, start), accept, rough=True)
    attempt = (activation.name, layout.hidden, len(task.u), float(fit.rms), str(fit.end))
    if fit.rms > accept:
        reason = f"the second layer's {len(rows)} rows were seen, but their fit stopped"
        return Top(None, fit.rms, len(task.u), reason, (attempt,))
    network = task.standard.undo(layout.network(fit.parameters))
    return Top(network, fit.rms, len(task.u), attempts=(attempt,))


def _widths(num_units: int, width: int | None) -> Iterator[int]:
    if width is not None:
        yield from (int(np.ceil(factor * KNOWN * width)) + 1 for factor in (1.0, 1.0, GROWTH))
        return
    size = float(FIRST)
    while size <= WIDEST * num_units:
        yield round(size)
        size *= GROWTH


class Task:
    """Students on one set of vertices, in standard coordinates; small ones by exact steps, where these are wanted."""

    def __init__(
        self, patterns: np.ndarray, values: np.ndarray, noise: float, deadline: float, exact_up_to: int = 0
    ):
        self.exact_up_to = exact_up_to
        self.x: np.ndarray = patterns
        self.y: np.ndarray = values
        self.standard: Standard = Standard.of(patterns, values, common=noise > 0)
        self.u: np.ndarray = self.standard.inputs(patterns)
        self.v: np.ndarray = self.standard.outputs(values)
        self.floor: float = noise / float(np.min(self.standard.spread))
        self.bend: float = bend_of(self.u, self.v)
        self.deadline = deadline

    def moving(self, layout: Layout) -> Layout:
        """The same with an input for each direction in which the vertices move: among few of them some unit may not."""
        return replace(layout, sizes=(self.u.shape[1], *layout.sizes[1:]))

    @property
    def exact(self) -> float:
        """A residual that exact answers leave."""
        return EXACT if self.floor < EXACT else 0.0

    def goal(self, share: float) -> float:
        """This share of what there is to explain by units, or what the noise allows."""
        return max(share * self.bend, 1.5 * self.floor)

    def solve(
        self, layout: Layout, rng: np.random.Generator, accept: float, known: Network | None
    ) -> tuple[Layout, Minimum]:
        """A student, random but for the units of ``known``, until surplus units show or it stalls; narrowed then, and
        brought to the last digits.

        Units of little effect may go with the surplus ones: then it first converges further.
        """
        rows = self.draw_rows(layout.hidden[0], rng)
        if known is not None:
            rows[: len(known.weights[0])] = self.standard.rows(known.weights[0], known.biases[0])
        start, fit = draw_start(layout, self.u, self.v, rng, [rows]), None
        for share in CLOSE:
            goal = self.goal(share)
            settings = Settings(target=goal, max_steps=150, stall_above=STALLED * self.bend)
            fit = self._descend(layout, start, settings)
            if fit.rms > 3 * self.goal(CLOSE[0]):
                break
            narrow, found = self.narrow(layout, fit, max(goal, fit.rms))
            found = self.finish(narrow, found, accept)
            if found.rms <= accept:
                return self.minimise(narrow, found, accept)
            start = fit.parameters
        assert fit is not None
        return layout, fit

    def draw_rows(self, width: int, rng: np.random.Generator) -> np.ndarray:
        """Rows for a start that are random in the hidden vector, as those of networks are, in standard coordinates.

        Units on fewer inputs than there are of them move together. A row that is random in whitened coordinates lies
        almost wholly in directions in which they hardly move, and students that begin there stall.
        """
        rows = rng.standard_normal((width, self.x.shape[1]))
        sizes = np.exp(rng.uniform(*np.log(NORMS), (width, 1)))
        rows *= sizes / np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.maximum(self.x.std(axis=0), LEAST_MOVING)
        shifts = BIAS * rng.standard_normal(width) - rows @ self.standard.mean
        return self.standard.rows(rows, shifts)

    def approach(self, layout: Layout, start: np.ndarray) -> Minimum:
        """From a start that is right to a per cent or so to where the last digits begin."""
        return self._descend(layout, start, Settings(target=self.goal(CLOSE[-1]), max_steps=6, damping=1e-3))

    def narrow(self, layout: Layout, fit: Minimum, goal: float, near: float = 1.0) -> tuple[Layout, Minimum]:
        """Without the units that the others can stand in for, refitted to ``near`` times the goal; fewer are taken
        where the refit fails.
        """
        settings = Settings(target=near * goal, max_steps=80, damping=1e-3, stall_above=3 * goal)
        for _ in range(ROUNDS):
            cuts = plan_cuts(layout, fit.parameters, self.u, fit.rms)
            stop = min(AFFORDABLE * self.bend, BOLD * fit.rms)
            for count in _counts([cut.predicted for cut in cuts], stop):
                cut = cuts[count - 1]
                narrow = _narrowed(layout, cut)
                trial = self._descend(narrow, cut.parameters, settings)
                if trial.rms <= max(3 * goal, fit.rms):
                    layout, fit = narrow, trial
                    break
            else:
                break
        return layout, fit

    def minimise(self, layout: Layout, fit: Minimum, accept: float) -> tuple[Layout, Minimum]:
        """Without further units, one at a time, as long as what is left still explains the answers as well."""
        settings = Settings(target=self.goal(CLOSE[-1]), max_steps=80, damping=1e-3, stall_above=fit.rms)
        for _ in range(layout.hidden[0] - 1):
            cut = plan_cuts(layout, fit.parameters, self.u, fit.rms)[0]
            if cut.predicted > AFFORDABLE * self.bend:
                break
            narrow = _narrowed(layout, cut)
            trial = self.finish(narrow, self._descend(narrow, cut.parameters, settings), accept)
            if trial.rms > max(min(accept, SAME * fit.rms), self.exact):
                break
            layout, fit = narrow, trial
        return layout, fit

    def finish(self, layout: Layout, fit: Minimum, accept: float, rough: bool = False) -> Minimum:
        """The last digits, to a third of ``accept`` or as far as they go; ``rough``: from a start that has few."""
        sigma = max(accept / 3, self.floor) * spread_of(self.v)
        found = polish_weighted(
            layout.network(fit.parameters),
            self.u,
            self.v,
            sigma,
            max_steps=25 if rough else 12,
            damping=1e-7 if rough else 1e-12,
            patience=5 if rough else 2,
            geodesic=rough,
            deadline=self.deadline,
        )
        end = End.TARGET if found.rms * sigma <= accept else found.end
        return Minimum(found.network.flat(), found.rms * sigma, fit.num_steps + found.num_steps, end)

    def _descend(self, layout: Layout, start: np.ndarray, settings: Settings) -> Minimum:
        if layout.num_parameters <= self.exact_up_to:
            return fit_collapsed(
                layout, start, self.u, self.v, settings=replace(settings, deadline=self.deadline)
            )
        careful = replace(settings, least_damping=LEAST_INEXACT, deadline=self.deadline)
        return descend(InexactProblem(layout, self.u, self.v), start, spread_of(self.v), careful)


def _narrowed(layout: Layout, cut: Cut) -> Layout:
    return replace(layout, sizes=(layout.sizes[0], int(cut.kept.sum()), layout.sizes[-1]))


def _counts(predicted: list[float], stop: float) -> list[int]:
    """How many units to remove: all that may go, else up to the largest jump of the predicted residual, else fewer."""
    within = int(np.sum(np.array(predicted) <= stop))
    if not within:
        return []
    last = np.append(predicted, np.inf)[1 : within + 1]
    gap = int(np.argmax(np.minimum(last, stop) / np.maximum(predicted[:within], 1e-300))) + 1
    return list(dict.fromkeys([within, gap, (gap + 1) // 2, 1]))
