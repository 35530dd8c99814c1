"""Deep networks on few first-layer units: the whole network from points near the origin, its rows known from afar.

Few units have few far vertices, too few for students of several layers. But their rows are known, to a per cent in
direction and to a tenth or so in length (a profile across each crossing tells it); students that start from them have
only the layers above to find.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.base import Problem
from unweave.methods.far_field.first_layer import FirstLayer, scale_rows
from unweave.methods.far_field.peel import Peeling
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import Top
from unweave.students.overwide import Pool

ACTIVE = 2.5
"""Radius of the points, in arguments of a typical unit."""
FIRST = 8.0
"""Points to begin with, for each weight of the first layer."""
CERTIFICATE_SHARE = 200
"""Queries left to the certificate when the budget is limited."""


def fit_inside(sight: Sight, layer: FirstLayer, problem: Problem, deadline: float) -> Top:
    """The whole network as ``Top.network``, or the reason why there is none."""
    meter, rng = sight.meter, sight.rng
    with meter.stage("profiles"):
        rows = scale_rows(sight, layer)
    radius = ACTIVE * np.sqrt(rows.shape[1]) / float(np.median(np.linalg.norm(rows, axis=1)))

    def buy(num_points: int) -> tuple[np.ndarray, np.ndarray]:
        num_points = int(max(min(num_points, meter.ledger.left - CERTIFICATE_SHARE), 0))
        x = rng.standard_normal((num_points, rows.shape[1]))
        x *= radius * np.sqrt(rng.uniform(size=(num_points, 1))) / np.linalg.norm(x, axis=1, keepdims=True)
        with meter.stage("points near the origin"):
            return x, meter.ask(x) if num_points else np.zeros((0, meter.output_size))

    peeling = Peeling(
        Pool(*buy(int(FIRST * rows.size / meter.output_size)), buy),
        sight.activation,
        hidden=None if problem.hidden is None else problem.hidden[1:],
        max_depth=problem.max_depth,
        noise=sight.noise,
        rng=rng,
        shallow=False,
        first=(rows, np.zeros(len(rows))),
    )
    return replace(peeling.go_on(deadline), whole=True)
