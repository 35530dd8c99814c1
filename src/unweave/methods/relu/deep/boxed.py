"""Networks of any depth inside a bounded domain, as a finding: what shows there, and what only carries the rest.

Units are found without their sides (``sideless``) and put together to a plain network (``compose``) that is the same
function in the domain. Units that never change side there are affine and come back as always active ones.
"""

from __future__ import annotations

import numpy as np

from unweave.core import clock
from unweave.core.errors import BudgetSpent
from unweave.core.network import UNKNOWN, Network
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.deep.compose import compose
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.settle import rows_of
from unweave.methods.relu.deep.sideless import Sideless
from unweave.probes.inquiry import Inquiry

NUM_LINES = 24
"""Lines to begin with."""


def recover_in_box(inquiry: Inquiry, problem: Problem, max_seconds: float) -> Finding:
    """The network where every answer agrees with it; else the planes that show in the whole domain, open above."""
    pool = Pool(inquiry, problem.rng("relu pool"))
    units = Sideless(pool, clock.now() + problem.within(max_seconds))
    try:
        with inquiry.meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            top = units.recover(NUM_LINES, problem.suspects)
    except BudgetSpent as spent:  # planes that are known stay so
        if not units.traces:
            raise
        return _open(rows_of(units.features)[0], str(spent))
    if not units.traces:
        return Finding(None, reason="no hyperplane shows in the whole domain")
    rows = rows_of(units.features)
    if not top.is_output or top.wrong.any():
        return _open(
            rows[0], f"{len(units.traces)} generations of units leave {len(units.unexplained())} kinks"
        )
    found = compose(
        Known(pool.input_size), rows, top.coefficients, inquiry.meter.domain, problem.rng("compose")
    )
    warnings = []
    for layer, (count, told) in enumerate(zip(found.num_carriers, found.sides_told, strict=True), start=1):
        if count:
            text = f"layer {layer}: the last {count} units stand for what is affine in this domain"
            warnings.append(text if told else text + "; they absorb the sides of others")
    return Finding(found.network, warnings=tuple(warnings), in_domain=True)


def _open(planes: np.ndarray, reason: str) -> Finding:
    network = Network([planes[:, :-1]], [planes[:, -1]], ["relu"], upper=UNKNOWN)
    return Finding(
        network,
        reason=f"the first hidden layer is known as far as it shows here, what stands above it is not: {reason}",
        undetermined=(
            *(f"layer 1, unit {i}: the side it is active on" for i in range(len(planes))),
            "layer 1: the scale of every row",
            "everything above layer 1",
        ),
    )
