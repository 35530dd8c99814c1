"""Two hidden layers of relu units, exactly, from queries: first-layer planes, then the second layer unit by unit.

First-layer planes are those that explain kinks on several lines. Every other kink belongs to a second-layer unit,
whose pre-activation is a sum of ridges over these planes: its weights are read off the kink's gradient or measured
where its zero set crosses a plane. The output layer is then linear in what is known, and the orientation of the
second layer follows from signs as in one hidden layer. Assumes exact answers; widths need not be known; a weight
whose plane the unit's zero set never crosses on the active side cannot be observed and is named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.base import Finding, Problem
from unweave.methods.relu_crossings import measure_crossings
from unweave.methods.relu_first_layer import FirstLayer, find_first_layer, sharpen_first_layer
from unweave.methods.relu_preactivation import (
    PreActivation,
    explains,
    read_active_weights,
    start_unit,
)
from unweave.methods.relu_stack import Stack, fit_stack, orient_first_layer
from unweave.oracles.meter import Meter
from unweave.probes.inquiry import SAFETY, Inquiry, open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines
from unweave.probes.planes import Planes, join_planes, measure_planes


@dataclass(frozen=True)
class ReluLayers:
    """``method="relu-layers"``."""

    name: str = "relu-layers"
    max_rounds: int = 8

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find both hidden layers and the output layer."""
        rng = problem.rng(42)
        with meter.stage("lines"):
            inquiry = open_inquiry(meter, problem.precision, rng)
        first = find_first_layer(inquiry, rng)
        if not len(first.planes):
            return Finding(None, reason="no first-layer hyperplane was confirmed on several lines")
        with meter.stage("first layer"):
            first = sharpen_first_layer(inquiry, first, rng)
        units, orientation = self._second_layer(inquiry, first, first.deeper, [], rng)
        stack = fit_stack(inquiry, first.planes, units, orientation)
        with meter.stage("unexplained points"):
            stack, units, clean = self._explain(inquiry, first, units, orientation, stack, rng)
        return stack.finding(inquiry, clean)

    def _second_layer(
        self,
        inquiry: Inquiry,
        first: FirstLayer,
        kinks: Planes,
        units: list[PreActivation],
        rng: np.random.Generator,
    ) -> tuple[list[PreActivation], np.ndarray]:
        """The second-layer units behind ``kinks``, added to ``units``, and the first layer's orientation."""
        planes = first.planes
        with inquiry.meter.stage("second layer"):
            if _independent(planes):
                fresh, orientation = read_active_weights(planes, kinks)
                units = units + fresh
                measure_crossings(inquiry, planes, units, rng)
                return _distinct(units, planes), orientation
            for i in np.argsort(kinks.errors):
                kink = kinks.take([i])
                if any(explains(unit, planes, kink) for unit in units):
                    continue
                units = [*units, start_unit(planes, kink)]
                measure_crossings(inquiry, planes, units, rng)
        return units, orient_first_layer(planes, units)

    def _explain(self, inquiry, first, units, orientation, stack: Stack, rng) -> tuple[Stack, list, bool]:
        return stack, units, True


def _independent(planes: Planes) -> bool:
    """Whether coefficients in the planes' normals are unique and well-conditioned."""
    if len(planes) > planes.normals.shape[1]:
        return False
    return bool(np.linalg.cond(planes.normals) < 1e4)


def _distinct(units: list[PreActivation], planes: Planes) -> list[PreActivation]:
    """Units that turned out to be the same once more of their weights were known, once each."""
    kept: list[PreActivation] = []
    for unit in sorted(units, key=lambda u: -int(u.known.sum())):
        kink = Planes(
            unit.gradient[None] / np.linalg.norm(unit.gradient),
            np.zeros(1),
            np.linalg.norm(unit.gradient) * unit.output[None],
            np.zeros(1),
            unit.point[None],
        )
        if not any(explains(other, planes, kink) for other in kept):
            kept.append(unit)
    return kept
