"""Fresh points that contradict a stack of two relu layers, and the kinks on lines from there to points that do not.

In an unbounded domain the points are also drawn at the scale of the first layer's planes, and in rare patterns of its
units. Where none contradicts it, a few lines are searched for kinks that the stack does not have.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.two_layers.audit import known_breaks
from unweave.methods.relu.two_layers.first_layer import FirstLayer
from unweave.methods.relu.two_layers.second_layer import SecondLayer
from unweave.methods.relu.two_layers.stack import Stack
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import draw_lines, line_through
from unweave.probes.planes import Planes, measure_planes

NUM_LINES = 4
"""Lines from points that contradict a stack to points that do not."""
SLACK, SLACK_WINDOWS = 1e-8, 3e-5
"""Misses, in the median answer, that contradict nothing; what reads windows sharpens every weight, so later digits of
those measured at few places are left to that."""


def look_for_more(
    inquiry: Inquiry,
    first: FirstLayer,
    second: SecondLayer,
    stack: Stack,
    rng: np.random.Generator,
    suspects: np.ndarray | None,
    num_lines: int = NUM_LINES,
    num_fresh: int = 0,
) -> tuple[float, Planes]:
    """The share of fresh points that contradict the stack, and kinks on lines from there to points that do not."""
    domain, d = inquiry.meter.domain, inquiry.input_size
    residual = inquiry.against(stack)
    with inquiry.meter.stage("fresh points"):
        num_points = num_fresh or max(300, min(600, 30 * len(first.planes)))
        x = _fresh_points(inquiry, first, second.orientation, num_points, rng)
        if suspects is not None:
            x = np.concatenate([x, suspects])
        miss, bars = residual.ask(x)
        size = np.max(np.abs(miss), axis=1)
        slack = SLACK_WINDOWS if inquiry.window else SLACK
        allowed = SAFETY * bars + slack * np.median(np.abs(inquiry.meter.ask(x)))
        wrong, right = x[size > allowed], x[size <= allowed]
        if len(wrong):
            starts = wrong[rng.integers(len(wrong), size=num_lines)]
            goals = rng.standard_normal((num_lines, d))
            goals = right[rng.integers(len(right), size=num_lines)] if len(right) else goals
            lines = line_through(domain, starts, goals)
            kinks = find_kinks(residual, lines)
        else:
            lines = draw_lines(domain, 8, d, rng)
            kinks = find_kinks(residual, lines, num_nodes=12)
    if not len(wrong) and not any(len(k.positions) + len(k.unresolved) for k in kinks):
        return 0.0, first.deeper.take([])
    with inquiry.meter.stage("second layer"):
        open_kinks = []
        for line, found in enumerate(kinks):
            borders = known_breaks(second.units, first, lines, line)
            apart = np.array([np.min(np.abs(borders - t), initial=np.inf) for t in found.positions])
            near = 1e-7 * (np.abs(found.positions) + lines.scale[line])
            fresh = np.flatnonzero(apart > near) if len(apart) else np.zeros(0, dtype=int)
            open_kinks.append(
                Kinks(
                    found.positions[fresh],
                    found.jumps[fresh],
                    np.sort(np.concatenate([found.unresolved, borders])),
                    found.asked,
                    found.answers,
                )
            )
        fresh_planes, _ = measure_planes(inquiry, lines, open_kinks, rng)
    return max(len(wrong) / len(x), 1e-6), fresh_planes


def _fresh_points(
    inquiry: Inquiry, first: FirstLayer, orientation: np.ndarray, num_points: int, rng: np.random.Generator
) -> np.ndarray:
    """Fresh points of the domain; in an unbounded one also at the scale of the planes, and in rare patterns.

    A unit may be active only where one or two first-layer units dominate: for the rare patterns first-layer
    arguments are drawn, mostly negative with a few large ones, and points that come near them are asked.
    """
    domain, d, planes = inquiry.meter.domain, inquiry.input_size, first.planes
    x = domain.sample(num_points, d, rng)
    if not np.isinf(domain.reach(d)):
        return x
    third = num_points // 3
    scale = 1 + np.median(np.abs(planes.offsets))
    x[:third] = 1.5 * scale * rng.standard_normal((third, d))
    active = rng.uniform(size=(third, len(planes))) < rng.uniform(0, 0.7, size=(third, 1))
    arguments = np.where(active, 1.0, -1.0) * np.exp(1.5 * rng.standard_normal((third, len(planes))))
    sides = np.where(orientation == 0, 1.0, orientation)
    x[third : 2 * third] = (scale * arguments * sides - planes.offsets) @ np.linalg.pinv(planes.normals).T
    return x
