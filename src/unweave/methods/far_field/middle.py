"""One hidden layer on top of a first layer whose rows are known, from points at a middle distance.

Trained networks have steep second layers: at far vertices, where all first-layer units are at their limits, the
arguments of the second layer are so large that its units are nearly steps, and students of them stay a search without
end. Rows of the first layer are known from afar, their directions to 1e-9, lengths mostly to a part in a thousand and
biases to a few hundredths: another bias is another analytic function of the unit's value, which the network above
absorbs. Points are drawn where the arguments of its units have a standard deviation of a few: most units are near a
limit, every one is between them somewhere.

A student that begins with that first layer and has about twice as many units as the truth on top is fitted as a whole,
since what the first layer is off by would leave a tenth of what bends, by steps that mend a few hundred answers each
(``solve.batches``). The first ones are coarse; then what the other units can stand in for at next to no loss, judged by
their values alone (``students.redundant``), is taken out, units that stand for several are split
(``students.splitting``), and finer steps go on. From then on every second point is one further out: on points that
are all alike the others mimic a unit of little effect, and far ones tell them apart, but steps that begin on far points
take longer. With few surplus units left the residual falls fast, and a width that is too small is seen by what is left
over after another round; the likeliest is that of the first layer. Steps on all answers give the last digits
(``solve.collapsed``); with few answers a parameter they would lead surplus units to memorise them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.far_field.first_layer import FirstLayer, place_units
from unweave.methods.far_field.last_digits import sharpen
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import Top
from unweave.solve.batches import Pace, descend_in_batches
from unweave.solve.descend import End, Minimum, Settings
from unweave.solve.devices import fits_memory
from unweave.solve.fit import fit_collapsed
from unweave.solve.layout import Layout
from unweave.students.nearly_affine import bend_of
from unweave.students.redundant import Cut, plan_cuts
from unweave.students.splitting import split_units
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

DISTANCE = 2.7
"""Standard deviation of the arguments of a typical unit."""
FARTHER = 15.0
"""Every second point of exact answers lies up to so many times as far out, evenly in the logarithm."""
RATIO = 4.0
"""Answers a parameter of a student."""
WIDER, GROWTH, WIDEST = 2.1, 1.6, 6.0
"""Units of the first student relative to the first layer, of the next relative to it, and of the widest relative to
the first layer."""
SEARCH = Pace(num_answers=256, num_steps=6000, damping=1e-2, momentum=0.98)
"""From a random second layer."""
SETTLE = Pace(num_answers=500, num_steps=3000, damping=1e-3, momentum=0.997)
ROUND, ROUNDS = Pace(num_answers=500, num_steps=3000, damping=1e-3, momentum=0.998, rate=0.07), 6
"""After surplus units went, and how many times at most."""
LOST, NEAR, CLOSE, ENOUGH = 0.1, 6e-3, 2e-3, 2e-4
"""Residuals relative to that of the best affine function of the first layer's values: above the first a student is
given up after its first steps, below the second it is brought to the end, below the third the likely width is tried,
and below the last steps end."""
FALLS = 0.8
"""A round that leaves more than this of the residual is the last one."""
FREE = 1.05
"""Surplus units go that are predicted to raise the residual by no more than this factor, ..."""
AFFORDABLE = 0.1
"""... and widths are tried down to where it is predicted to be this, relative to the best affine function."""
COPIES, SEEN = 3, 4000
"""Units of which there are two copies after a round, and points that show which."""
FEWER, EXACT_STEPS, TURNS = 2.0, 16, 4
"""Answers a parameter, and steps at a time, that lead from there to where the last digits begin, and how many times."""
MORE_STEPS = 30
"""Without surplus units."""
PATIENCE, IMPATIENCE = 14, 6
"""Steps over which such a student gains something, and one that may lack a unit."""
JUMP = 3.0
"""Surplus units go where the next one is predicted to raise the residual by this factor at least, or all together by
no more."""
DIGITS = 1e-6
"""Residual, relative to that of the best affine function, from where the last digits come."""
CERTIFICATE_SHARE = 200
"""Queries left to the certificate when the budget is limited."""


class Middle:
    """The search for the whole network of two hidden layers, in as many goes as it is given time for; ``hidden`` are
    its widths when given.
    """

    def __init__(self, sight: Sight, layer: FirstLayer, hidden: tuple[int, ...] | None):
        self._sight, self._layer, self._hidden = sight, layer, hidden
        self._x, self._y = np.zeros((0, sight.meter.input_size)), np.zeros((0, sight.meter.output_size))
        self._known: tuple[np.ndarray, np.ndarray] | None = None
        self._widths: Iterator[int] = iter(())
        self._best = np.inf

    def go_on(self, deadline: float, num_students: int | None = None) -> Top:
        """The network, or the reason why there is none yet; ``num_students``: so many widths at most."""
        sight, meter = self._sight, self._sight.meter
        if self._known is None:
            self._known = place_units(sight, self._layer)
            self._widths = _widths(len(self._known[0]), self._hidden)
        rows = self._known[0]
        typical = float(np.median(np.linalg.norm(rows, axis=1)))
        attempts, reason = [], ""
        for width in islice(self._widths, num_students):
            layout = Layout.uniform((meter.input_size, len(rows), width, meter.output_size), sight.activation)
            wanted = int(np.ceil(RATIO * layout.num_parameters / meter.output_size))
            missing = max(wanted - len(self._x), 0)
            too_dear = missing > meter.ledger.left - CERTIFICATE_SHARE
            if too_dear or not fits_memory(wanted, layout.num_parameters):
                reason = "wider students exceed the budget or the memory"
                break
            more = DISTANCE / typical * sight.rng.standard_normal((missing, meter.input_size))
            if not sight.coarse:
                shares = sight.rng.uniform(0, 1, (missing, 1))
                more *= np.where(np.arange(len(self._x), wanted)[:, None] % 2, FARTHER**shares, 1.0)
            more = meter.snap(more)
            with meter.stage("points at a middle distance"):
                self._x, self._y = np.concatenate([self._x, more]), np.concatenate([self._y, meter.ask(more)])
            x, y = self._x[:wanted], self._y[:wanted]
            search = _Search.of(sight, x, y, self._known, deadline)
            network, rms, end = search.run(layout, self._known, self._hidden)
            self._best = min(self._best, rms)
            attempts.append((sight.activation.name, layout.hidden, wanted, rms, end))
            if network is not None:
                return Top(network, rms, len(self._x), attempts=tuple(attempts), whole=True)
            if clock.now() > deadline:
                reason = "the time limit was reached while fitting the second layer"
                break
        reason = reason or f"no second layer fits {len(self._x):,} points at a middle distance"
        return Top(None, self._best, len(self._x), reason, tuple(attempts))


@dataclass(frozen=True)
class _Search:
    """Students on one set of points, in standard coordinates."""

    sight: Sight
    x: np.ndarray
    y: np.ndarray
    deadline: float
    standard: Standard
    u: np.ndarray
    v: np.ndarray
    bend: float
    """What the layer above has to explain by units."""
    floor: float
    """Of the residual, where the answers are coarse."""
    near: slice
    """The points at one distance, in which coordinates are standard."""

    @staticmethod
    def of(
        sight: Sight, x: np.ndarray, y: np.ndarray, known: tuple[np.ndarray, np.ndarray], deadline: float
    ) -> _Search:
        noise, near = (sight.noise, slice(None)) if sight.coarse else (0.0, slice(None, None, 2))
        standard = Standard.of(x[near], y[near], common=noise > 0)
        u, v = standard.inputs(x), standard.outputs(y)
        floor = noise / float(np.min(standard.spread))
        bend = bend_of(sight.activation(x @ known[0].T + known[1]), v)
        return _Search(sight, x, y, deadline, standard, u, v, bend, floor, near)

    def run(
        self, layout: Layout, known: tuple[np.ndarray, np.ndarray], hidden: tuple[int, ...] | None
    ) -> tuple[Network | None, float, str]:
        """The network at the accuracy of the answers, if a student of this layout leads there; its residual relative
        to the spread of the answers, and how it ended.
        """
        u, v = self.u[self.near], self.v[self.near]
        start = draw_start(layout, u, v, self.sight.rng, [self.standard.rows(*known)])
        fit = self._descend(layout, start, SEARCH, self.near)
        if fit.rms > LOST * self.bend:
            return None, fit.rms, str(fit.end)
        fit = self._descend(layout, fit.parameters, SETTLE, self.near)
        fit = replace(
            fit, rms=float(np.sqrt(np.mean((layout.forward(fit.parameters, self.u) - self.v) ** 2)))
        )
        likely = len(known[0]) if hidden is None else hidden[1]
        for _ in range(ROUNDS):
            before = fit.rms
            layout, fit = self._reshape(layout, fit)
            if fit.rms < max(CLOSE * self.bend, 2 * self.floor):
                for cut in self._cuts(layout, fit):
                    if int(cut.kept.sum()) == likely and cut.predicted < AFFORDABLE * self.bend:
                        found = self._end_without(layout, fit, cut)
                        if found is not None:
                            return *found, str(End.TARGET)
            if fit.rms > FALLS * before or clock.now() > self.deadline:
                break
        if fit.rms < max(NEAR * self.bend, 3 * self.floor) and clock.now() < self.deadline:
            found = self._finish(layout, fit)
            if found is not None:
                return *found, str(End.TARGET)
        return None, fit.rms, str(fit.end)

    def _reshape(self, layout: Layout, fit: Minimum) -> tuple[Layout, Minimum]:
        """Without the units whose removal costs next to nothing, with those in two copies that stand for several, and
        after further steps.
        """
        cuts, start = [c for c in self._cuts(layout, fit) if c.predicted <= FREE * fit.rms], fit.parameters
        if cuts:
            layout, start = _without(layout, start, cuts[-1])
        few, cut = slice(SEEN), layout.starts[1]
        values, copies = self._values(layout, start, few), COPIES if fit.rms > 3 * self.floor else 0
        above, upper = split_units(self._above(layout), start[cut:], values, self.v[few], copies)
        layout = replace(layout, sizes=(layout.sizes[0], *above.sizes))
        return layout, self._descend(layout, np.concatenate([start[:cut], upper]), ROUND)

    def _finish(self, layout: Layout, fit: Minimum) -> tuple[Network, float] | None:
        """The last digits, by steps on all answers; None where they are not reached. A student that gains little is
        given up; one that gains is tried without its surplus units from time to time.
        """
        for _ in range(TURNS):
            fit = self._converge(layout, fit, PATIENCE, EXACT_STEPS)
            if fit.rms > self._close and fit.end is not End.STEPS:
                return None
            for cut in self._surplus(layout, fit):
                found = self._end_without(layout, fit, cut)
                if found is not None:
                    return found
            if fit.rms <= self._close:
                return self._sharpen(layout, fit)
        return None

    def _end_without(self, layout: Layout, fit: Minimum, cut: Cut) -> tuple[Network, float] | None:
        """The last digits after a removal, where few steps lead there: a student of the right width needs no more."""
        narrow, start = _without(layout, fit.parameters, cut)
        trial = self._converge(narrow, replace(fit, parameters=start), IMPATIENCE, MORE_STEPS)
        return self._sharpen(narrow, trial) if trial.rms <= self._close else None

    def _sharpen(self, layout: Layout, fit: Minimum) -> tuple[Network, float] | None:
        network = self.standard.undo(layout.network(fit.parameters))
        return sharpen(self.sight, network, self.x, self.y, self.deadline)

    def _surplus(self, layout: Layout, fit: Minimum) -> list[Cut]:
        """What is removed before the largest jump of the residual that is predicted to be left; and, of a student that
        has converged, what raises it little.
        """
        cuts, found = self._cuts(layout, fit), []
        left = np.array([fit.rms, *(c.predicted for c in cuts)])
        (affordable,) = np.nonzero(left[:-1] < AFFORDABLE * self.bend)
        if len(affordable):
            jump = int(affordable[np.argmax(left[affordable + 1] / left[affordable])])
            found = [cuts[jump - 1]] if jump and left[jump + 1] > JUMP * left[jump] else []
        if fit.rms <= self._close:
            found += [c for c in cuts if c.predicted <= JUMP * self._close][-1:]
        return found

    def _converge(self, layout: Layout, fit: Minimum, patience: int, max_steps: int) -> Minimum:
        """To where surplus units show and the last digits begin."""
        settings = Settings(
            target=self._close,
            max_steps=max_steps,
            damping=1e-5,
            least_damping=1e-12,
            stall_gain=0.2,
            stall_steps=patience,
            stall_above=self._close,
            patience=8,
            deadline=self.deadline,
        )
        few = min(int(np.ceil(FEWER * layout.num_parameters / self.y.shape[1])), len(self.u))
        return fit_collapsed(layout, fit.parameters, self.u[:few], self.v[:few], settings=settings)

    @property
    def _close(self) -> float:
        return max(DIGITS * self.bend, 2 * self.floor)

    def _cuts(self, layout: Layout, fit: Minimum) -> list[Cut]:
        """Removals of second-layer units, the cheapest first."""
        values = self._values(layout, fit.parameters)
        return plan_cuts(self._above(layout), fit.parameters[layout.starts[1] :], values, fit.rms)

    def _above(self, layout: Layout) -> Layout:
        """The second layer and what is above it."""
        return Layout.uniform(layout.sizes[1:], layout.activations[1])

    def _values(self, layout: Layout, parameters: np.ndarray, points: slice = slice(None)) -> np.ndarray:
        """Of the first layer."""
        rows = layout.block(parameters, 0)
        return layout.activations[0].value(self.u[points] @ rows[:, :-1].T + rows[:, -1], np)

    def _descend(self, layout: Layout, start: np.ndarray, pace: Pace, points: slice = slice(None)) -> Minimum:
        target = max(ENOUGH * self.bend, 1.5 * self.floor)
        u, v, rng = self.u[points], self.v[points], self.sight.rng
        return descend_in_batches(layout, start, u, v, pace, rng, target=target, deadline=self.deadline)


def _without(layout: Layout, parameters: np.ndarray, cut: Cut) -> tuple[Layout, np.ndarray]:
    """The layout and the parameters after a removal."""
    inputs, first, _, outputs = layout.sizes
    sizes = (inputs, first, int(cut.kept.sum()), outputs)
    return replace(layout, sizes=sizes), np.concatenate([parameters[: layout.starts[1]], cut.parameters])


def _widths(num_units: int, hidden: tuple[int, ...] | None) -> Iterator[int]:
    size = WIDER * (num_units if hidden is None else hidden[1])
    while size <= WIDEST * num_units:
        yield int(np.ceil(size))
        if hidden is not None:
            return
        size *= GROWTH
