"""The second of two hidden layers, where the first is no wider than the input: one hidden layer over its features.

Independent planes make their heights coordinates that can be asked for at will. Where only one height changes, the
answers stay as they are on the side on which its unit is off: that tells the sides, and planes that do not bend the
answers there are none. Where all units are on, their outputs are the heights, and the network is one hidden layer of
them in a box: whatever finds one hidden layer finds it, from exact or rough answers, as many units as there may be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from unweave.core import activations as act
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.affine_view import AffineView
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.one_layer.lines import ReluLines
from unweave.probes.inquiry import SAFETY, Inquiry

CONDITION = 1e4
"""Condition of the planes' normals up to which heights are coordinates."""
REACH = 4.0
"""The box of heights, in units of the median of those at points of the domain."""
LEAST = 1e-3
"""Its distance from the planes, relative to its size, or farther by what is not known of the planes."""
CORNERS = 50
"""Corners of the box at which the errors of heights are looked at."""
BASES, NO_PLANE = 6, 0.7
"""Places at which a height is moved, and the change on one side, relative to that on the other, from which on the
answers do not bend there at all."""
MOST_LOST = 0.25
"""Share of the planes that may be none."""
NOT_ONE = "what stands above the first layer is not one hidden layer over its features"


def recover_above(
    inquiry: Inquiry,
    problem: Problem,
    normals: np.ndarray,
    offsets: np.ndarray,
    deviations: Callable[[np.ndarray], np.ndarray],
) -> Finding:
    """The whole network over planes ``normals . x + offsets = 0``; ``deviations`` gives the errors of their heights."""
    meter, rng = inquiry.meter, problem.rng("relu above")
    if not 0 < len(normals) <= normals.shape[1] or np.linalg.cond(normals) > CONDITION:
        return Finding(None, reason="the hyperplanes of the first layer are not independent")
    points = meter.domain.sample(400, inquiry.input_size, rng)
    size = REACH * float(np.median(np.abs(points @ normals.T + offsets)))
    with meter.stage("first layer"):
        sides = tell_sides(inquiry, normals, offsets, size, rng)
    real = sides != 0
    if np.sum(~real) > MOST_LOST * len(sides):
        return Finding(None, reason="the sides of the first layer do not show")
    rows, shift = sides[real, None] * normals[real], sides[real] * offsets[real]
    view = features_view(meter, rows, shift, size, lambda x: deviations(x)[:, real])
    found = ReluLines(whole=False).recover(view, replace(problem, precision=measure_precision(view, rng)))
    if found.network is None or found.network.is_open:
        return Finding(None, reason=f"{NOT_ONE}: {found.reason}" if found.reason else NOT_ONE)
    upper = found.network
    if len(upper.weights) == 1:
        return Finding(None, reason="nothing bends above the first layer")
    if act.split_name(upper.activations[0])[0] != "relu":
        return Finding(None, reason=NOT_ONE)
    network = Network([rows, *upper.weights], [shift, *upper.biases], ["relu", *upper.activations])
    return Finding(
        network,
        warnings=tuple(text.replace("layer 1", "layer 2") for text in found.warnings),
        undetermined=tuple(text.replace("layer 1", "layer 2") for text in found.undetermined),
    )


def features_view(
    meter: Meter,
    rows: np.ndarray,
    shift: np.ndarray,
    size: float,
    deviations: Callable[[np.ndarray], np.ndarray],
) -> Meter:
    """The model over heights ``rows . x + shift`` between nearly zero and ``size``."""
    inverse = np.linalg.pinv(rows)
    origin = -inverse @ shift
    corners = size * np.random.default_rng(len(rows)).integers(2, size=(CORNERS, len(rows)))
    low = np.maximum(LEAST * size, SAFETY * np.max(deviations(origin + corners @ inverse.T), axis=0))
    view = AffineView(meter, origin, inverse.T, rows.T, Box(low, low + size))
    return cast(Meter, view)


def tell_sides(
    inquiry: Inquiry, normals: np.ndarray, offsets: np.ndarray, size: float, rng: np.random.Generator
) -> np.ndarray:
    """The side, +1 or -1, on which the unit of each plane is on; 0: nothing bends there."""
    m = len(normals)
    inverse = np.linalg.pinv(normals)
    moved = np.zeros((2, m))  # beyond the plane, and on this side of it
    for _ in range(BASES):
        heights = size * rng.uniform(0.2, 1, m) * rng.choice([-1.0, 1.0], size=m)
        h = np.tile(heights, (4, m, 1))
        for step, own in zip((0.25, 0.5, -0.25, -0.5), h, strict=True):
            own[np.arange(m), np.arange(m)] = step * size
        answers, bars = inquiry.ask((h.reshape(-1, m) - offsets) @ inverse.T)
        f, bar = answers.reshape(4, m, -1), bars.reshape(4, m).max(axis=0)
        for side in (0, 1):
            change = np.linalg.norm(f[2 * side + 1] - f[2 * side], axis=1)
            moved[side] += np.where(change > SAFETY * bar, change, 0.0)
    share = moved.min(axis=0) / np.maximum(moved.max(axis=0), 1e-300)
    sides = np.where(moved[0] > moved[1], 1.0, -1.0)
    return np.where((share < NO_PLANE) & (moved.max(axis=0) > 0), sides, 0.0)
