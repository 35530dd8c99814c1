"""A copy for use where the network could not be identified: the best student found, with its fidelity on fresh queries.

A network that a method proposed and the certificate refused is kept as it is. Where there is none, the students that
methods ended with are looked at; where these predict poorly, plain ones of a few activations and widths are fitted to
fresh answers from the domain and ranked on answers none of them saw. What comes back is a function that predicts the
model so well, not its weights, and the outcome stays what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from unweave.core import activations as act
from unweave.core import clock
from unweave.core.deadline import Deadline
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.output_span import OutputSpan
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

NUM_POINTS, NUM_RANKED, NUM_FRESH = 2400, 100, 200
FEW = 480
"""Answers for small students, which come first: they take little time."""
SHAPES = (("tanh", 1), ("gelu", 1), ("relu", 1), ("tanh", 2), ("gelu", 2), ("relu", 2))
ROWS_A_PARAMETER = 3
MOST_OUTPUTS = 16
"""Outputs beyond which a student answers in the directions in which they move most."""
SECONDS, ALTOGETHER = 8.0, 24.0
"""For each student, and for all of them, within what is left of the run."""
GOOD = 1e-3
"""Relative error at which no further student is looked for."""


def distil(
    meter: Meter, rng: np.random.Generator, deadline: Deadline, students: Sequence[Network] = ()
) -> tuple[Network, float] | None:
    """The student that predicts best, and its root mean square error on fresh queries relative to their spread.

    ``students`` are those there are; after the deadline only they are looked at.
    """
    sizes = meter.input_size, meter.output_size
    found = [student for student in students if (student.input_size, student.output_size) == sizes]
    ranked = _rank(found, meter, rng)
    if not (ranked and ranked[0][0] < GOOD) and not deadline.passed:
        ranked = _rank([*(student for _, student in ranked[:1]), *_fit(meter, rng, deadline)], meter, rng)
    if not ranked or meter.ledger.left < NUM_FRESH:
        return None
    best = ranked[0][1]
    with meter.stage(CERTIFICATE):
        fresh = _ordinary(meter, NUM_FRESH, rng)
        answers = meter.ask(fresh)
    return best, _error(best, meter.snap(fresh), answers)


def _rank(students: list[Network], meter: Meter, rng: np.random.Generator) -> list[tuple[float, Network]]:
    """The students with their errors on some fresh answers, best first."""
    if not students:
        return []
    count = int(min(NUM_RANKED, meter.ledger.left))
    with meter.stage(CERTIFICATE):
        x = _ordinary(meter, count, rng)
        y = meter.ask(x)
    errors = [(_error(student, meter.snap(x), y), student) for student in students]
    return sorted((pair for pair in errors if np.isfinite(pair[0])), key=lambda pair: pair[0])


def _fit(meter: Meter, rng: np.random.Generator, deadline: Deadline) -> list[Network]:
    """The plain student that predicts held-out answers best, if there are questions enough for one."""
    num_points = int(min(NUM_POINTS, meter.ledger.left - NUM_RANKED - NUM_FRESH))
    if num_points < 10 * meter.input_size:
        return []
    with meter.stage("surrogate"):
        x = _ordinary(meter, num_points, rng)
        y = meter.ask(x)
    end = clock.now() + min(ALTOGETHER, deadline.left)
    cut = (4 * len(x)) // 5
    span = OutputSpan.of(y[: min(FEW, cut)], most=MOST_OUTPUTS) if meter.output_size > MOST_OUTPUTS else None
    y = y if span is None else span.inside(y)
    standard = Standard.of(x[:cut], y[:cut])
    u, v = standard.inputs(x), standard.outputs(y)
    best: tuple[float, Network] | None = None
    for count, (name, depth) in product(dict.fromkeys([min(FEW, cut), cut]), SHAPES):
        left = end - clock.now()
        if left <= 0 or (best is not None and best[0] < GOOD):
            break
        layout = plain_layout(u.shape[1], v.shape[1], count, name, depth)
        if not deadline.allows(2.0 * count * v.shape[1] * layout.num_parameters**2):  # not even a step
            continue
        start = draw_start(layout, u[:count], v[:count], rng)
        settings = Settings(max_steps=120, deadline=clock.now() + min(SECONDS, left))
        fit = fit_layout(layout, start, u[:count], v[:count], settings=settings)
        error = float(np.sqrt(np.mean((layout.forward(fit.parameters, u[cut:]) - v[cut:]) ** 2)))
        if np.isfinite(error) and (best is None or error < best[0]):
            best = error, standard.undo(layout.network(fit.parameters))
    if best is None:
        return []
    return [best[1] if span is None else span.lift(best[1])]


def _error(network: Network, x: np.ndarray, y: np.ndarray) -> float:
    """Root mean square error relative to the spread of the answers."""
    spread = max(float(np.sqrt(np.mean(np.var(y, axis=0)))), 1e-300) if len(y) else 1.0
    return float(np.sqrt(np.mean((network(x) - y) ** 2))) / spread if len(y) else float("inf")


def plain_layout(num_inputs: int, num_outputs: int, num_points: int, name: str, depth: int) -> Layout:
    """A student as wide as so many points afford."""
    affordable = num_points * num_outputs / ROWS_A_PARAMETER
    width = 2
    while width < 64 and _size(num_inputs, num_outputs, width + 1, depth) <= affordable:
        width += 1
    return Layout.uniform((num_inputs, *[width] * depth, num_outputs), act.get(name))


def _size(num_inputs: int, num_outputs: int, width: int, depth: int) -> int:
    return (num_inputs + 1) * width + (depth - 1) * (width + 1) * width + (width + 1) * num_outputs


def _ordinary(meter: Meter, num_points: int, rng: np.random.Generator) -> np.ndarray:
    """Points of the domain; near the origin where it has no end."""
    if np.isinf(meter.domain.reach(meter.input_size)):
        return rng.standard_normal((num_points, meter.input_size))
    return meter.domain.sample(num_points, meter.input_size, rng)
