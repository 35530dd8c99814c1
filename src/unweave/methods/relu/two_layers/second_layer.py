"""The second hidden layer over known planes, unit by unit: each from the kinks that the others do not explain.

A unit's pre-activation is a sum of ridges over the first layer's planes. Its weights are read off a kink's gradient
where the planes' normals are independent, measured where its zero set crosses a plane, and filled in from the
orientation of the first layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.two_layers.audit import audit
from unweave.methods.relu.two_layers.crossings import measure_crossings
from unweave.methods.relu.two_layers.first_layer import FirstLayer
from unweave.methods.relu.two_layers.preactivation import (
    PreActivation,
    absorb,
    complete_weights,
    explains,
    read_active_weights,
    start_unit,
)
from unweave.methods.relu.two_layers.stack import orient_first_layer
from unweave.probes.inquiry import Inquiry
from unweave.probes.planes import Planes, measure_planes


@dataclass(frozen=True)
class SecondLayer:
    """Second-layer units and the orientation of the first layer, 0 where it is not known."""

    units: list[PreActivation]
    orientation: np.ndarray

    @property
    def num_open(self) -> int:
        """Weights that are not known."""
        return sum(int(np.sum(~unit.known)) for unit in self.units)

    def traced(self) -> SecondLayer:
        """Without the units of which most weights are open: a kink was taken for one of them."""
        return SecondLayer([unit for unit in self.units if unit.known.mean() >= 0.5], self.orientation)

    def complete(self) -> SecondLayer:
        """The units all of whose weights are known."""
        return SecondLayer([unit for unit in self.units if unit.known.all()], self.orientation)


def add_units(
    inquiry: Inquiry,
    first: FirstLayer,
    kinks: Planes,
    second: SecondLayer,
    rng: np.random.Generator,
) -> SecondLayer:
    """The second layer with the units behind ``kinks`` added, less those that do not show where they should."""
    planes, units, orientation = first.planes, second.units, second.orientation
    for _ in range(3):
        open_kinks = [
            i for i in range(len(kinks)) if not any(absorb(unit, planes, kinks.take([i])) for unit in units)
        ]
        kinks = kinks.take(open_kinks)
        with inquiry.meter.stage("second layer"):
            if independent(planes):
                units, orientation = read_active_weights(planes, kinks, units, orientation)
                measure_crossings(inquiry, planes, units, rng)
            else:
                units = trace_units(inquiry, planes, kinks, units, rng)
                orientation = orient_first_layer(planes, units)
        orientation = np.where(orientation == 0, orient_first_layer(planes, units), orientation)
        for unit in units:
            complete_weights(unit, planes, orientation)
        units = _distinct(units, planes)
        found, predicted, left = audit(units, planes, first.lines, first.kinks)
        units = [u for i, u in enumerate(units) if 3 * found[i] >= 2 * predicted[i]]
        if not any(len(k.positions) for k in left) or not mostly_complete(units):
            break
        with inquiry.meter.stage("second layer"):
            kinks, _ = measure_planes(inquiry, first.lines, left, rng)
    return SecondLayer(units, orientation)


def complete_units(
    inquiry: Inquiry, planes: Planes, second: SecondLayer, rng: np.random.Generator
) -> SecondLayer:
    """Look for the open weights of the last few units at many more places, now that the others are known."""
    units = sorted(second.units, key=lambda unit: not unit.known.all())
    num_complete = sum(bool(unit.known.all()) for unit in units)
    if 0 < len(units) - num_complete <= max(3, len(units) // 8):
        with inquiry.meter.stage("second layer"):
            measure_crossings(inquiry, planes, units, rng, start=num_complete, num_chains=480)
        for unit in units[num_complete:]:
            complete_weights(unit, planes, second.orientation)
    return SecondLayer(units, second.orientation)


def trace_units(
    inquiry: Inquiry,
    planes: Planes,
    kinks: Planes,
    units: list[PreActivation],
    rng: np.random.Generator,
) -> list[PreActivation]:
    """One unit after the other from the kinks that those before do not explain."""
    num_before, num_incomplete = len(units), 0
    for i in np.argsort(kinks.errors):
        kink = kinks.take([i])
        if any(explains(unit, planes, kink) or absorb(unit, planes, kink) for unit in units):
            continue
        units = [*units, start_unit(planes, kink)]
        measure_crossings(inquiry, planes, units, rng, start=len(units) - 1)
        num_incomplete += not units[-1].known.all()
        if num_incomplete > 3 + len(units) // 2:  # zero sets that are no ridge sums: units of a third layer
            break
    if 0 < num_incomplete <= 3:
        measure_crossings(inquiry, planes, units, rng, start=num_before)
    return units


def mostly_complete(units: list[PreActivation]) -> bool:
    """Whether most units have all their weights; zero sets of a third layer are no ridge sums and stay incomplete."""
    return sum(bool(unit.known.all()) for unit in units) >= len(units) / 2


def independent(planes: Planes) -> bool:
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
