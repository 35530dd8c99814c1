"""The first hidden layer of a relu network too deep, or with a unit too rare, to be taken apart further.

The planes of the first layer are flat everywhere, whatever stands above, so they are known exactly before anything
else is (``relu_first_layer``). Where their normals are independent, a unit's argument can be moved alone: on its
inactive side the answers then stay the same, which tells the side. The network found is open above the first layer.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import UNKNOWN, Network
from unweave.methods.base import Finding
from unweave.methods.relu.two_layers.consistency import match_kinks
from unweave.methods.relu.two_layers.first_layer import FirstLayer
from unweave.probes.inquiry import Inquiry
from unweave.probes.planes import Planes

MAX_CONDITION = 1e4
STILL = 1e-5
"""On the inactive side the answers change by less than this share of what they do on the other, or typically do."""


def describe_planes(inquiry: Inquiry, first: FirstLayer, reason: str, rng: np.random.Generator) -> Finding:
    """The planes seen on half of the lines as the first layer of an open network, with what is not known named."""
    matches, within = match_kinks(first.planes, first.lines, first.kinks)
    planes = first.planes.take(2 * np.sum(matches >= 0, axis=1) >= within.sum(axis=1))
    if not len(planes):
        return Finding(None, reason=reason)
    sides = find_sides(inquiry, planes, rng)
    turned = np.where(sides == 0, 1.0, sides)
    network = Network([turned[:, None] * planes.normals], [turned * planes.offsets], ["relu"], upper=UNKNOWN)
    unknown = tuple(f"layer 1, unit {i}: the side it is active on" for i in np.flatnonzero(sides == 0))
    return Finding(
        network,
        reason=f"the first hidden layer is known, what stands above it is not: {reason}",
        undetermined=(*unknown, "layer 1: the scale of every row", "everything above layer 1"),
    )


def find_sides(inquiry: Inquiry, planes: Planes, rng: np.random.Generator) -> np.ndarray:
    """+1 or -1 for the side of each plane on which its unit is active, 0 where that was not seen."""
    sides = np.zeros(len(planes))
    if len(planes) > inquiry.input_size or np.linalg.cond(planes.normals) > MAX_CONDITION:
        return sides
    alone = np.linalg.pinv(planes.normals)
    scale = 1 + float(np.median(np.abs(planes.offsets)))
    for shrink in (1.0, 0.5, 0.2):  # in a small domain only short moves stay inside
        reach = shrink * scale
        base = reach * rng.standard_normal(inquiry.input_size)
        heights = planes.normals @ base + planes.offsets
        goals = reach * np.array([-2.0, -1.0, 1.0, 2.0])
        x = base + (goals[None, :, None] - heights[:, None, None]) * alone.T[:, None, :]
        inside = inquiry.meter.domain.contains(x.reshape(-1, inquiry.input_size)).reshape(len(planes), 4)
        units = np.flatnonzero((sides == 0) & inside.all(axis=1))
        if not len(units) or 4 * len(units) > inquiry.meter.ledger.left:
            continue
        with inquiry.meter.stage("first layer"):
            answers = inquiry.meter.ask(x[units].reshape(-1, inquiry.input_size)).reshape(len(units), 4, -1)
        changes = np.max(np.abs(answers[:, [0, 2]] - answers[:, [1, 3]]), axis=2)
        still = changes < STILL * np.maximum(changes[:, ::-1], inquiry.slope * reach)
        told = still[:, 0] != still[:, 1]
        sides[units[told]] = np.where(still[told, 0], 1.0, -1.0)
    return sides
