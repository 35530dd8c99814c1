"""Two hidden layers from rough answers: the first from far out, the second as one layer in the outputs of the first.

Rounded answers show the planes of the first layer, the sides of its units and their windows, but not every bend of the
second. With the first layer known to a few digits the rest is a network of one hidden layer in known features h(x): an
over-wide student finds it at a radius at which the units bend, then every parameter is fitted, and with the first layer
that comes of it a student in its features is pruned to minimal width.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.methods.base import Problem
from unweave.methods.skeleton.assemble import fill_in
from unweave.methods.skeleton.windows import LayerWindows, read_windows
from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_network, spread_of
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.together import fit_each
from unweave.solve.weighted import answer_accuracy
from unweave.students.forms import Form
from unweave.students.starts import draw_start
from unweave.students.student import Task, try_student

ARGUMENT = 4.0
"""Root mean square of first-layer arguments at the points that are asked: every unit bends, none is a kink ..."""
NEARER = (1.0, 0.5)
"""... or at so many times that radius."""
SURPLUS, RATIO = 1.2, 4.0
"""Units of a student for each one of the second layer that was counted far out at most, and answers a parameter."""
NUM_STARTS = 2
"""At each radius."""
NEAR, CLOSE = 2e-2, 30.0
"""Relative residual of a student in features that are known roughly; misfit of a full fit, in errors of an answer."""
MOST_STEPS = 80


def read_first_layer(
    meter: Meter,
    skeleton: Network,
    problem: Problem,
    names: tuple[str, ...],
    radius: float,
    rng: np.random.Generator,
) -> tuple[LayerWindows, np.ndarray, np.ndarray]:
    """What the windows of the first layer say, and its rows and biases."""
    found = read_windows(meter, skeleton, 0, names, problem.precision, radius, rng)
    lengths = np.linalg.norm(skeleton.weights[0], axis=1)
    steepness, shift = found.steepness.copy(), found.shift.copy()
    fill_in(steepness, found.poor, lengths)
    shift[found.poor] = 0.0
    return found, steepness[:, None] * skeleton.weights[0], -steepness * shift


def fit_in_features(
    meter: Meter,
    problem: Problem,
    rows: np.ndarray,
    biases: np.ndarray,
    names: tuple[str, str],
    num_units: int,
    rng: np.random.Generator,
    max_seconds: float,
) -> Network | None:
    """The network with first layer near (``rows``, ``biases``) and at most ``num_units`` above; None: none fits."""
    deadline = clock.now() + max_seconds
    d, k = meter.input_size, meter.output_size
    width = max(int(np.ceil(SURPLUS * num_units)), 4)
    num_parameters = len(rows) * (d + 1) + width * (len(rows) + 1 + k)
    count = int(RATIO * num_parameters / k) + 50
    usual = ARGUMENT * np.sqrt(2 * d) / float(np.median(np.linalg.norm(rows, axis=1)))
    for radius in usual * np.array(NEARER):
        x = rng.standard_normal((count, d))
        x *= radius * np.sqrt(rng.uniform(size=(count, 1))) / np.linalg.norm(x, axis=1, keepdims=True)
        x = meter.snap(x)
        with meter.stage("settle"):
            y = meter.ask(x)
        for _ in range(NUM_STARTS):
            if clock.now() > deadline:
                return None
            found = _from_one_start(x, y, rows, biases, names, width, problem, rng, deadline)
            if found is not None:
                return found
    return None


def _from_one_start(
    x: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    biases: np.ndarray,
    names: tuple[str, str],
    width: int,
    problem: Problem,
    rng: np.random.Generator,
    deadline: float,
) -> Network | None:
    first, second = names
    h = act.get(first)(x @ rows.T + biases)
    top = _fit_wide(h, y, second, width, rng, deadline)
    if top is None:
        return None
    joint = Network([rows, *top.weights], [biases, *top.biases], [first, *top.activations])
    errors = answer_accuracy(joint, x, problem.precision.noise, problem.precision.unit)
    floor = float(np.sqrt(np.mean(errors**2))) / spread_of(y)
    settings = Settings(
        target=0.5 * floor, max_steps=MOST_STEPS, damping=1e-4, stall_steps=0, deadline=deadline
    )
    fit = fit_network(joint, x, y, settings=settings)
    if fit.rms > CLOSE * floor:
        return None
    rows, biases = fit.network.weights[0], fit.network.biases[0]
    h = act.get(first)(x @ rows.T + biases)
    noise = fit.rms * spread_of(y)
    for _ in range(NUM_STARTS):
        student, _ = try_student(h, y, second, (width,), rng=rng, noise=noise, deadline=deadline)
        if student is not None and student.minimal:
            above = student.network
            whole = Network([rows, *above.weights], [biases, *above.biases], [first, *above.activations])
            return polish_weighted(whole, x, y, errors, max_steps=MOST_STEPS, deadline=deadline).network
    return None


def _fit_wide(
    h: np.ndarray, y: np.ndarray, name: str, width: int, rng: np.random.Generator, deadline: float
) -> Network | None:
    """A student of one hidden layer in the features, wider than need be, as a plain network; None: it is not near."""
    task = Task.of(h, y, name, (width,), deadline=deadline)
    start = draw_start(task.layout, task.u, task.v, rng)
    fit: Minimum = next(fit_each(task.layout, [start], task.u, task.v, task.settings))
    if fit.rms > NEAR * task.bend:
        return None
    form, layout = Form.of(name), task.layout
    if not form.skips:
        return task.standard.undo(layout.network(fit.parameters))
    inner, outer = layout.block(fit.parameters, 0), layout.block(fit.parameters, 1)
    out, skip, offset = outer[:, :width], outer[:, width:-1], outer[:, -1]
    # even(z) = phi(z) - z / 2, and a linear function is the difference of a unit and its reflection
    linear = skip - out @ inner[:, :-1] / 2
    offset = offset - out @ inner[:, -1] / 2
    weights = np.vstack([inner[:, :-1], linear, -linear])
    shifts = np.concatenate([inner[:, -1], np.zeros(2 * len(linear))])
    sides = np.eye(len(linear))
    return task.standard.undo(
        Network([weights, np.hstack([out, sides, -sides])], [shifts, offset], [name, "identity"])
    )
