"""Two hidden layers of elu or softsign units in a bounded domain: the planes of the first from its creases.

The second derivative of the answers jumps across the plane of every such unit (``probes.crease_planes``). With the
planes in place students find lengths, biases and all that stands above in seconds (``students.from_rows``), where those
from random rows hardly ever do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.core.domains import Ball, Box
from unweave.evidence.meter import Meter
from unweave.methods.base import Problem
from unweave.methods.in_domain.ranges import Sampler
from unweave.probes.crease_planes import MOST_MEASURED, find_crease_planes
from unweave.students.from_rows import Planes, search_from_rows
from unweave.students.overwide import OverwideFit

SHARE = 0.4
"""Of the time that is left; random students have the rest."""
MOST_INPUTS = 64
"""With more, normals cost too many questions."""


def search_creases(
    meter: Meter, draw: Sampler, names: Sequence[str], problem: Problem, seconds: float
) -> OverwideFit:
    """The network by students on the planes that creases show; none where there are too few answers, or no planes."""
    left = meter.ledger.left - 400
    ends = isinstance(meter.domain, Box | Ball) and meter.input_size <= MOST_INPUTS
    if not ends or left < 20 * MOST_MEASURED * (meter.input_size + 1):
        return OverwideFit(None, np.inf, False, 0, reason="creases were not looked at")
    found = find_crease_planes(meter, problem.precision, problem.rng("crease planes"))
    if not len(found):
        return OverwideFit(None, np.inf, False, 0, reason="no planes of creases were found")

    def buy(scale: float, num_points: int) -> tuple[np.ndarray, np.ndarray]:
        num_points = max(int(min(num_points, meter.ledger.left - 400)), 0)
        x = draw(num_points)
        return x, meter.ask(x) if len(x) else np.zeros((0, meter.output_size))

    planes = Planes(found.normals, found.offsets, found.tilts, found.doubts)
    rng = problem.rng("students on planes")
    return search_from_rows(buy, names, planes, rng=rng, time_limit=SHARE * seconds)
