"""A second-layer unit that is on wherever anything was asked, from the places where it might be off.

What the units found leave over of the answers is then linear in the first layer's features h. If it is of one unit it
shows that unit's row and output weights, and where the row is farthest below its usual values the unit may be off: the
search costs no question, its ends do. There the answers lack ``row . h + bias``, which gives the bias.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.two_layers.oriented import OrientedLayer
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.methods.relu.two_layers.rest import single_row
from unweave.methods.relu.two_layers.stack import Stack
from unweave.probes.inquiry import SAFETY, Inquiry

NUM_STARTS = 24
"""Descents for either side."""
SIZES = (1.0, 10.0, 100.0)
"""Distances from the origin, in units of that of the planes, in an unbounded domain."""
FEWEST, AGREES = 3, 1e-5
"""Answers that must give the same bias, and to which share of what they lack."""


def find_steady(
    inquiry: Inquiry, layer: OrientedLayer, stack: Stack, rng: np.random.Generator
) -> list[PreActivation]:
    """The unit behind what ``stack`` leaves over, if it is a single one and is off anywhere."""
    single = single_row(stack.rest)
    if single is None or len(single[1]) == 1:  # of one output any rest looks like a single unit's
        return []
    row, output = single
    with inquiry.meter.stage("second layer"):
        x = np.concatenate([_lowest(inquiry, layer, side * row, rng) for side in (1.0, -1.0)])
        left, bars = inquiry.against(stack).ask(x)
    lacking, bars = left @ output, SAFETY * bars
    aside = np.linalg.norm(left - lacking[:, None] * output, axis=1)
    off = np.flatnonzero((np.abs(lacking) > bars / AGREES) & (aside <= bars + AGREES * np.abs(lacking)))
    biases = -lacking[off] - layer.features(x[off]) @ row
    slack = bars[off] + AGREES * np.abs(lacking[off])
    agree = np.abs(biases[:, None] - biases) <= slack[:, None] + slack
    if not len(off) or agree.sum(axis=1).max() < FEWEST:
        return []
    agree = agree[int(np.argmax(agree.sum(axis=1)))]
    whole = np.append(row, np.average(biases[agree], weights=1 / slack[agree] ** 2))
    side = np.sign(lacking[off[agree][0]])
    on = np.flatnonzero(np.sign(layer.features(x) @ row + whole[-1]) == side)
    if not len(on):
        return []
    return [layer.unit(side * whole, np.isfinite(row), side * output, x[on[0]], x[off[agree][0]])]


def _lowest(inquiry: Inquiry, layer: OrientedLayer, row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points at several distances where ``row . h`` is as low as descents come."""
    scale = 1 + float(np.median(np.abs(layer.offsets)))
    x = rng.standard_normal((NUM_STARTS, inquiry.input_size))
    sizes = scale * rng.choice(SIZES, size=(NUM_STARTS, 1)) * np.linalg.norm(x, axis=1, keepdims=True)
    return layer.lowest(row, x * sizes / np.linalg.norm(x, axis=1, keepdims=True), inquiry.meter.domain)
