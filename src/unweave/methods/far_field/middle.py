"""One hidden layer on top of a first layer that is known, from points at a middle distance.

Trained networks have steep second layers: at far vertices, where all first-layer units are at their limits, the
arguments of the second layer are so large that its units are nearly steps, and students of them stay a search without
end. Rows of the first layer are known from afar, in length too, and biases to a tenth or so. Points are drawn where its
units are about half way to their limits, which leaves the second layer smooth and the first one rich enough to
tell all its units apart; students begin with that first layer and fit the whole network. The width above is unknown:
students are widened, and points bought, in steps until one fits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unweave.core import clock
from unweave.methods.far_field.first_layer import FirstLayer, place_units
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import Top
from unweave.solve.descend import End
from unweave.solve.devices import fits_memory
from unweave.students.effort import widened
from unweave.students.student import try_student

NEAREST, FARTHEST = 0.43, 1.3
"""Distance of the points, in arguments of a typical unit."""
RATIO = 4.0
"""Answers a parameter of a student."""
FIRST, GROWTH, WIDEST = 8, 1.5, 2.4
"""Units of the first student, of the next relative to it, and of the widest relative to the first layer."""
STEPS = 600
"""Students of steep layers converge slowly, but steadily."""
CERTIFICATE_SHARE = 200
"""Queries left to the certificate when the budget is limited."""


def fit_middle(sight: Sight, layer: FirstLayer, hidden: tuple[int, ...] | None, deadline: float) -> Top:
    """The whole network of two hidden layers, or the reason why there is none; ``hidden`` are its widths when given."""
    meter, size = sight.meter, sight.meter.input_size
    rows, biases = place_units(sight, layer)
    typical = float(np.median(np.linalg.norm(rows, axis=1)))
    x, y = np.zeros((0, size)), np.zeros((0, meter.output_size))
    attempts, best, reason = [], np.inf, ""
    for width in _widths(len(rows), hidden):
        num_parameters = len(rows) * (size + 1) + width * (len(rows) + 1) + meter.output_size * (width + 1)
        wanted = int(np.ceil(RATIO * num_parameters / meter.output_size))
        too_dear = wanted - len(x) > meter.ledger.left - CERTIFICATE_SHARE
        if too_dear or not fits_memory(wanted * meter.output_size, num_parameters):
            reason = "wider students exceed the budget or the memory"
            break
        more = sight.rng.standard_normal((max(wanted - len(x), 0), size))
        distances = sight.rng.uniform(NEAREST, FARTHEST, (len(more), 1)) * np.sqrt(size) / typical
        more = meter.snap(distances * more / np.linalg.norm(more, axis=1, keepdims=True))
        with meter.stage("points at a middle distance"):
            x, y = np.concatenate([x, more]), np.concatenate([y, meter.ask(more)])
        found, attempt = try_student(
            x[:wanted],
            y[:wanted],
            sight.activation.name,
            (len(rows), width),
            rng=sight.rng,
            noise=sight.noise if sight.coarse else 0.0,
            max_steps=STEPS,
            deadline=deadline,
            known=(rows, biases),
        )
        best = min(best, attempt.rms)
        attempts.append(
            (attempt.activation, attempt.widths, attempt.num_points, attempt.rms, str(attempt.end))
        )
        if found is not None and found.minimal and attempt.end is not End.TIME:
            return Top(found.network, found.rms, len(x), attempts=tuple(attempts), whole=True)
        if clock.now() > deadline:
            reason = "the time limit was reached while fitting the second layer"
            break
    reason = reason or f"no second layer fits {len(x):,} points at a middle distance"
    return Top(None, best, len(x), reason, tuple(attempts))


def _widths(num_units: int, hidden: tuple[int, ...] | None) -> Iterator[int]:
    if hidden is not None:
        yield from [widened(hidden[1:])[0]] * 2
        return
    size = float(FIRST)
    while size <= max(WIDEST * num_units, FIRST):
        yield round(size)
        size *= GROWTH
