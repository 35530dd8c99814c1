"""One hidden layer from coarse answers near the origin, its rows known from afar but for a few.

In single precision circles cannot be drawn so far out that all units switch apart: on each a unit or two is missed.
Students that begin with every row that any circle has shown, and some more units, have little left to find; surplus
units are taken out again (``wide``).
"""

from __future__ import annotations

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.far_field.first_layer import FirstLayer, scale_rows
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.wide import Task
from unweave.solve.layout import Layout

WIDER = (1.2, 1.6)
"""Units of a student relative to the rows known."""
RATIO = 4.0
"""Answers a parameter of a student."""
ACTIVE = 2.0
"""Radius of the points, in arguments of a typical unit."""
EXACT_UP_TO = 800
"""Parameters of a student up to which steps are exact: these get farther, where inputs are few and units alike."""
SAME = 0.999
"""Cosine of the angle between two readings of one row."""


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """Each row once: those nearly parallel to an earlier one are readings of the same unit."""
    kept: list[np.ndarray] = []
    for row in rows:
        if not any(abs(row @ other) > SAME * np.linalg.norm(row) * np.linalg.norm(other) for other in kept):
            kept.append(row)
    return np.array(kept).reshape(-1, rows.shape[1])


def rows_in_length(sight: Sight, layer: FirstLayer) -> np.ndarray:
    """The rows that a circle has shown, with their lengths; those whose profile does not show it are left out."""
    with sight.meter.stage("profiles"):
        rows = scale_rows(sight, layer)
    lengths = np.linalg.norm(rows, axis=1)
    return rows[np.isfinite(lengths) & (lengths > 0)]


def fit_one_layer(sight: Sight, rows: np.ndarray, deadline: float) -> tuple[Network | None, float]:
    """The network of one hidden layer around ``rows``, and its residual relative to the spread of the answers.

    Where the residual is not what the answers allow it is a student, no more.
    """
    meter, rng, d = sight.meter, sight.rng, rows.shape[1]
    radius = ACTIVE * np.sqrt(d) / float(np.median(np.linalg.norm(rows, axis=1)))
    best: tuple[Network | None, float] = None, np.inf
    for share in WIDER:
        num_units = int(np.ceil(share * len(rows))) + 2
        layout = Layout.uniform((d, num_units, meter.output_size), sight.activation)
        count = int(np.ceil(RATIO * layout.num_parameters / meter.output_size)) + 20
        count = int(min(count, meter.ledger.left - 200))
        if count * meter.output_size < layout.num_parameters or clock.now() > deadline:
            break
        x = radius / np.sqrt(d) * rng.standard_normal((count, d))
        with meter.stage("points near the origin"):
            y = meter.ask(x)
        task = Task(meter.snap(x), y, sight.noise, deadline, exact_up_to=EXACT_UP_TO)
        known = Network(
            [rows, np.zeros((meter.output_size, len(rows)))],
            [np.zeros(len(rows)), np.zeros(meter.output_size)],
            [sight.activation.name, "identity"],
        )
        narrow, fit = task.solve(layout, rng, sight.accept, known)
        if fit.rms < best[1]:
            best = task.standard.undo(narrow.network(fit.parameters)), float(fit.rms)
        if fit.rms <= sight.accept:
            break
    return best
