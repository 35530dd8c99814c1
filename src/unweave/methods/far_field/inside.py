"""Deep networks whose first-layer rows are known from afar: the whole network from points near the origin.

Far vertices show the layers above at inputs of -1 and 1 only, where their arguments are largest, and few first-layer
units have few vertices. Points at which the first layer's arguments have a standard deviation of one show the same
layers at gentler arguments: students that stall on thousands of vertices come home there. Directions of the rows are
known to rounding, lengths to some per cent and biases to a few tenths (profiles across each crossing and its antipode
tell them), so that students that start from them have only the layers above to find. The points lie around the place
where the first layer's arguments are least, as far out as the largest of these.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.base import Problem
from unweave.methods.far_field.first_layer import FirstLayer, place_units
from unweave.methods.far_field.peel import Peeling
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import Top
from unweave.students.overwide import Pool

ACTIVE = 1.0
"""Standard deviation of the arguments of a typical unit at the points, beside what biases leave at their centre."""
LEAST = 1e-3
"""Singular values of the rows, relative to the largest, of directions in which points move."""
FIRST = 8.0
"""Points to begin with, for each weight of the first layer."""
CERTIFICATE_SHARE = 200
"""Queries left to the certificate when the budget is limited."""


class Inside:
    """The search for the whole network, in as many goes as it is given time for."""

    def __init__(self, sight: Sight, layer: FirstLayer, problem: Problem):
        self._sight, self._layer, self._problem = sight, layer, problem
        self._peeling: Peeling | None = None

    def go_on(self, deadline: float, late: float = 0.0) -> Top:
        """The whole network as ``Top.network``, or the reason why there is none yet (``Peeling.go_on``)."""
        if self._peeling is None:
            self._peeling = self._begin()
        return replace(self._peeling.go_on(deadline, late), whole=True)

    def _begin(self) -> Peeling:
        meter, rng, problem = self._sight.meter, self._sight.rng, self._problem
        rows, biases = place_units(self._sight, self._layer)
        centre, spread = _around(rows, biases)

        def buy(num_points: int) -> tuple[np.ndarray, np.ndarray]:
            num_points = int(max(min(num_points, meter.ledger.left - CERTIFICATE_SHARE), 0))
            x = meter.snap(centre + rng.standard_normal((num_points, len(spread))) @ spread)
            with meter.stage("points near the origin"):
                return x, meter.ask(x) if num_points else np.zeros((0, meter.output_size))

        return Peeling(
            Pool(*buy(int(FIRST * rows.size / meter.output_size)), buy),
            self._sight.activation,
            hidden=None if problem.hidden is None else problem.hidden[1:],
            max_depth=problem.max_depth,
            noise=self._sight.noise,
            rng=rng,
            shallow=False,
            first=(rows, biases),
        )


def _around(rows: np.ndarray, biases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The centre of the points, and what standard normal vectors are multiplied by."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    keep = values > LEAST * values[0]
    centre = -np.linalg.pinv(rows, rcond=LEAST) @ biases
    left = np.mean((rows @ centre + biases) ** 2)
    size = np.sqrt((ACTIVE**2 + left) * len(rows) / keep.sum())
    return centre, size * vectors[keep] / values[keep, None]
