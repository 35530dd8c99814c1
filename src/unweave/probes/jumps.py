"""Whether the answers jump somewhere: along lines, ever more closely where neighbours differ most.

Of a continuous function neighbours ever closer together answer ever more alike, where it has a kink as well.
"""

from __future__ import annotations

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

NUM_LINES, NUM_NODES, NUM_ROUNDS = 6, 33, 6
REACH = 4.0
"""Lines through a domain without end are so long."""
CLEAR, STAYS = 1e-4, 0.3
"""A jump is this share of the answers' scale at least, and does not become smaller than that share of itself."""
JUMPING = "the answers jump: units whose activation does (hardshrink, threshold), or no dense network"


def shows_jump(meter: Meter, precision: Precision, rng: np.random.Generator) -> bool:
    """Whether neighbours on one of a few lines still differ when they all but coincide (stage ``jumps``)."""
    size = meter.input_size
    if np.isinf(meter.domain.reach(size)):
        ends = REACH * rng.standard_normal((2, NUM_LINES, size))
    else:
        ends = meter.domain.sample(2 * NUM_LINES, size, rng).reshape(2, NUM_LINES, size)
    low, high = ends
    shares = np.linspace(0, 1, NUM_NODES)[:, None, None]
    rows, heights = np.arange(NUM_LINES), []
    for _ in range(NUM_ROUNDS):
        points = meter.snap((low + shares * (high - low)).reshape(-1, size))
        with meter.stage("jumps"):
            answers = meter.ask(points).reshape(NUM_NODES, NUM_LINES, -1)
        points = points.reshape(NUM_NODES, NUM_LINES, size)
        steps = np.diff(answers, axis=0)
        steps = np.linalg.norm(steps - np.median(steps, axis=0), axis=2)
        place = np.argmax(steps, axis=0)
        heights.append(steps[place, rows])
        low, high = points[place, rows], points[place + 1, rows]
    before, last = np.array(heights[-3:-1]), heights[-1]
    told = last > CLEAR * precision.scale + 100 * precision.noise
    return bool(np.any(told & np.all(last > STAYS * before, axis=0)))
