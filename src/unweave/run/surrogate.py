"""A copy for use where the network could not be identified: the best student found, with its fidelity on fresh queries.

A network that a method proposed and the certificate refused is kept as it is. Where there is none, plain students of a
few activations and widths are fitted to fresh answers from the domain and ranked on answers none of them saw. What
comes back is a function that predicts the model so well, not its weights, and the outcome stays what it is.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.deadline import Deadline
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.standard import Standard
from unweave.students.starts import draw_start

NUM_POINTS, NUM_FRESH = 2400, 200
SHAPES = (("tanh", 1), ("gelu", 1), ("relu", 1), ("tanh", 2), ("gelu", 2), ("relu", 2))
ROWS_A_PARAMETER = 3
SECONDS = 8.0
"""For each student, within what is left of the run."""


def distil(meter: Meter, rng: np.random.Generator, deadline: Deadline) -> tuple[Network, float] | None:
    """The student that predicts best, and its root mean square error on fresh queries relative to their spread."""
    room = meter.ledger.left - NUM_FRESH
    num_points = int(min(NUM_POINTS, room))
    if num_points < 10 * meter.input_size or deadline.passed:
        return None
    with meter.stage("surrogate"):
        x = _ordinary(meter, num_points, rng)
        y = meter.ask(x)
    cut = (4 * len(x)) // 5
    standard = Standard.of(x[:cut], y[:cut])
    u, v = standard.inputs(x), standard.outputs(y)
    best: tuple[float, Network] | None = None
    for name, depth in SHAPES:
        if deadline.passed:
            break
        layout = plain_layout(u.shape[1], v.shape[1], cut, name, depth)
        start = draw_start(layout, u[:cut], v[:cut], rng)
        settings = Settings(max_steps=120, deadline=time.monotonic() + min(SECONDS, deadline.left))
        fit = fit_layout(layout, start, u[:cut], v[:cut], settings=settings)
        error = float(np.sqrt(np.mean((layout.forward(fit.parameters, u[cut:]) - v[cut:]) ** 2)))
        if np.isfinite(error) and (best is None or error < best[0]):
            best = error, standard.undo(layout.network(fit.parameters))
    if best is None:
        return None
    with meter.stage(CERTIFICATE):
        fresh = _ordinary(meter, NUM_FRESH, rng)
        answers = meter.ask(fresh)
    spread = max(float(np.sqrt(np.mean(np.var(answers, axis=0)))), 1e-300)
    return best[1], float(np.sqrt(np.mean((best[1](fresh) - answers) ** 2))) / spread


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


def as_details(network: Network, error: float) -> dict[str, Any]:
    """What a result keeps of a surrogate: ``Identification.surrogate`` reads it."""
    return {
        "weights": list(network.weights),
        "biases": list(network.biases),
        "activations": list(network.activations),
        "error": error,
    }
