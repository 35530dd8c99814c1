"""One hidden layer on top of a first layer whose rows are known, from points at a middle distance.

Trained networks have steep second layers: at far vertices, where all first-layer units are at their limits, the
arguments of the second layer are so large that its units are nearly steps, and students of them stay a search without
end. Rows of the first layer are known from afar, in length to a per cent, and biases to a tenth or so. Points are drawn
where the arguments of its units have a standard deviation of a few: most units are near a limit, every one is between
them somewhere. A student that begins with that first layer and has about twice as many units as the truth on top falls
to where surplus units show within some fifty exact steps (``solve.collapsed``). Large students without an accelerator
take inexact steps (``solve.inexact``), which fall as fast for a tenth of the cost: first of the layer above alone, in
the features that the known first layer gives, from rows that are random in these features (not in whitened ones, where
nearly all of a row would lie in directions in which the features hardly move); where what the first layer is off by
shows, of all layers together. What the others can stand in for
is taken out, judged by the values of the units alone (``wide``), and least squares over all parameters give the
last digits. The width above is unknown: it is mostly that of the first layer, else students are widened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.far_field.first_layer import FirstLayer, place_units
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import Top
from unweave.methods.far_field.wide import Task
from unweave.solve.descend import End, Minimum, Settings, descend
from unweave.solve.devices import fits_memory, use_accelerator
from unweave.solve.fit import LEAST_INEXACT, fit_collapsed, spread_of
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.inexact import InexactProblem
from unweave.solve.layout import Layout
from unweave.students.nearly_affine import bend_of
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

DISTANCE = 2.7
"""Standard deviation of the arguments of a typical unit."""
RATIO, RATIO_INEXACT = 2.8, 4.0
"""Answers a parameter of a student, and of one that takes inexact steps."""
LARGE = 4000
"""Parameters from which steps are inexact, unless there is an accelerator."""
WIDER, GROWTH, WIDEST = 2.1, 1.6, 6.0
"""Units of the first student relative to the first layer, of the next relative to it, and of the widest relative to
the first layer."""
STEPS = 200
EXACT_UP_TO = 5000
"""Parameters on top up to which its steps are exact."""
FEWER = 2.0
"""Answers a parameter that the last digits of a large network come from."""
CLOSE = (3e-4, 1e-5)
"""Residuals, relative to that of the best affine function, at which surplus units show; the second where units of
little effect have gone with them."""
CLOSE_INEXACT, NEAR = (1.5e-3, 2e-4, 1e-5), 2.5
"""The same of inexact steps, which are slow from there on, and the multiple of it that is enough without surplus units:
the first layer, which is not fitted then, leaves no less."""
STALLED, PATIENCE = 2e-3, 30
"""A student that stops gaining above this, relative likewise, over so many steps, is given up."""
SLOWER, SLOWER_STEPS = 0.2, 10
"""With the first layer held a student goes on until it gains less than this over so many steps."""
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
            exact = int(np.ceil(RATIO * layout.num_parameters / meter.output_size))
            many = exact * meter.output_size
            inexact = layout.num_parameters >= LARGE and not use_accelerator(many, layout.num_parameters)
            wanted = int(np.ceil(RATIO_INEXACT / RATIO * exact)) if inexact else exact
            missing = max(wanted - len(self._x), 0)
            too_dear = missing > meter.ledger.left - CERTIFICATE_SHARE
            if too_dear or not fits_memory(wanted, layout.num_parameters):
                reason = "wider students exceed the budget or the memory"
                break
            more = sight.rng.standard_normal((missing, meter.input_size))
            more = meter.snap(DISTANCE / typical * more)
            with meter.stage("points at a middle distance"):
                self._x, self._y = np.concatenate([self._x, more]), np.concatenate([self._y, meter.ask(more)])
            x, y = self._x[:wanted], self._y[:wanted]
            fit = _fit_inexactly if inexact else _fit
            network, rms, end = fit(sight, layout, x, y, self._known, deadline)
            self._best = min(self._best, rms)
            attempts.append((sight.activation.name, layout.hidden, wanted, rms, end))
            if network is not None:
                return Top(network, rms, len(self._x), attempts=tuple(attempts), whole=True)
            if clock.now() > deadline:
                reason = "the time limit was reached while fitting the second layer"
                break
        reason = reason or f"no second layer fits {len(self._x):,} points at a middle distance"
        return Top(None, self._best, len(self._x), reason, tuple(attempts))


def _fit(
    sight: Sight,
    layout: Layout,
    x: np.ndarray,
    y: np.ndarray,
    known: tuple[np.ndarray, np.ndarray],
    deadline: float,
) -> tuple[Network | None, float, str]:
    """The network at the accuracy of the answers, if one student of this layout leads there; its residual relative to
    the spread of the answers, and how it ended.
    """
    noise = sight.noise if sight.coarse else 0.0
    standard = Standard.of(x, y, common=noise > 0)
    u, v = standard.inputs(x), standard.outputs(y)
    bend, floor = bend_of(u, v), noise / float(np.min(standard.spread))
    start = draw_start(layout, u, v, sight.rng, [standard.rows(*known)])
    fit = None
    for share in CLOSE:
        goal = max(share * bend, 1.5 * floor)
        settings = Settings(
            target=goal,
            max_steps=STEPS,
            least_damping=1e-10,
            stall_above=STALLED * bend,
            stall_steps=PATIENCE,
            deadline=deadline,
        )
        fit = fit_collapsed(layout, start, u, v, settings=settings)
        if fit.rms > 3 * goal:
            break
        found = _narrowed(sight, standard.undo(layout.network(fit.parameters)), x, y, fit.rms, deadline)
        if found is not None:
            return *found, str(End.TARGET)
        start = fit.parameters
    assert fit is not None
    return None, float(fit.rms), str(fit.end)


def _fit_inexactly(
    sight: Sight,
    layout: Layout,
    x: np.ndarray,
    y: np.ndarray,
    known: tuple[np.ndarray, np.ndarray],
    deadline: float,
) -> tuple[Network | None, float, str]:
    """The same by inexact steps: the layer above in known features, then all layers."""
    width, name = layout.hidden[1], sight.activation.name
    features = sight.activation(x @ known[0].T + known[1])
    task = Task(features, y, sight.noise if sight.coarse else 0.0, deadline)
    standard, u, v, bend, floor = task.standard, task.u, task.v, task.bend, task.floor
    above = Layout.uniform((u.shape[1], width, v.shape[1]), sight.activation)
    start = draw_start(above, u, v, sight.rng, [task.draw_rows(width, sight.rng)])
    goal = max(CLOSE_INEXACT[0] * bend, 1.5 * floor)
    settings = Settings(
        target=goal,
        max_steps=STEPS,
        least_damping=LEAST_INEXACT,
        stall_above=0.0,
        stall_gain=SLOWER,
        stall_steps=SLOWER_STEPS,
        deadline=deadline,
    )
    fit = descend(InexactProblem(above, u, v), start, spread_of(v), settings)
    top = standard.undo(above.network(fit.parameters))
    network = Network([known[0], *top.weights], [known[1], *top.biases], [name, *top.activations])
    standard = Standard.of(x, y, common=floor > 0)
    u, v = standard.inputs(x), standard.outputs(y)
    settings = replace(settings, stall_gain=0.1, stall_steps=PATIENCE, damping=1e-3)
    for share in CLOSE_INEXACT:
        goal = max(share * bend, 1.5 * floor)
        problem, start = InexactProblem(layout, u, v), standard.apply(network).flat()
        fit = descend(problem, start, spread_of(v), replace(settings, target=goal))
        network = standard.undo(layout.network(fit.parameters))
        if fit.rms > 3 * goal:
            break
        found = _narrowed(sight, network, x, y, fit.rms, deadline, exact_up_to=0)
        if found is not None:
            return *found, str(End.TARGET)
    return None, float(fit.rms), str(fit.end)


def _narrowed(
    sight: Sight,
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    rms: float,
    deadline: float,
    exact_up_to: int = EXACT_UP_TO,
) -> tuple[Network, float] | None:
    """Without the second-layer units that the others can stand in for, to the last digits; None where these are not
    reached.

    The points were for a wider student: where they are dear, exact answers have their last digits from some of them.
    """
    noise = sight.noise if sight.coarse else 0.0
    for exact in (False, True):
        features, above = _split(network, x)
        task = Task(features, y, noise, deadline, exact_up_to=exact_up_to)
        above = task.standard.apply(above)
        layout, start = Layout.of(above), Minimum(above.flat(), rms, 0, End.TARGET)
        if exact:
            layout, fit = task.minimise(layout, start, max(sight.accept, rms))
            if layout.hidden == above.hidden:
                return network, rms
        else:
            near = 1.0 if exact_up_to else NEAR
            layout, fit = task.narrow(layout, start, max(task.goal(CLOSE[0]), rms), near)
        top = task.standard.undo(layout.network(fit.parameters))
        network = Network(
            [network.weights[0], *top.weights],
            [network.biases[0], *top.biases],
            [network.activations[0], *top.activations],
        )
        sigma = max(sight.accept / 3, noise / spread_of(y)) * spread_of(y)
        few = len(x)
        if not noise and not exact_up_to:
            few = min(int(np.ceil(FEWER * network.num_parameters / y.shape[1])), len(x))
        found = polish_weighted(
            network,
            x[:few],
            y[:few],
            sigma,
            max_steps=25,
            damping=1e-7,
            patience=5,
            geodesic=True,
            deadline=deadline,
        )
        network = found.network
        rms = float(np.sqrt(np.mean((network(x) - y) ** 2)) / spread_of(y))
        if rms > sight.accept:
            return None
    return network, rms


def _split(network: Network, x: np.ndarray) -> tuple[np.ndarray, Network]:
    """The first layer's values at the points, and the network above it."""
    first = Network(network.weights[:1], network.biases[:1], network.activations[:1])
    return first(x), Network(network.weights[1:], network.biases[1:], network.activations[1:])


def _widths(num_units: int, hidden: tuple[int, ...] | None) -> Iterator[int]:
    size = WIDER * (num_units if hidden is None else hidden[1])
    while size <= WIDEST * num_units:
        yield int(np.ceil(size))
        if hidden is not None:
            return
        size *= GROWTH
