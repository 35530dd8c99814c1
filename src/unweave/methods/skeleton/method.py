"""Relu-like smooth networks (gelu, silu, softplus, elu, mish, ...) from queries far out: the far skeleton.

Beyond a few dozen units of its argument such an activation equals ``relu(z + k) - k`` to the last bit. Far out the
network is exactly piecewise linear but for narrow windows around the kinks: the methods for relu networks recover that
skeleton, seen from afar, and the windows give what it leaves open: each layer's activation, the lengths of rows and the
biases. Widths, depth and activations need not be known, and layers may differ in their activation. Needs exact answers
and a domain that reaches far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from unweave.core.network import Network
from unweave.evidence.far_view import FarView
from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.layers import ReluLayers
from unweave.methods.relu.lines import ReluLines
from unweave.methods.skeleton.assemble import Assembled, assemble
from unweave.methods.skeleton.settle import settle, window_points
from unweave.solve.weighted import weighted_polish

FAR = 1e8
"""The scale from which the skeleton is seen where the domain allows it."""
WINDOW = 2e-5
"""Half width around a kink kept clear of, in units of that scale."""
RADIUS = 1e6
"""How far out windows are asked."""
SETTLED = 30.0
"""A misfit below so many accuracies leaves nothing to explain."""


@dataclass(frozen=True)
class Skeleton:
    """``method="skeleton"``."""

    name: str = "skeleton"

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find the skeleton, read its windows, settle what they left open."""
        view = FarView(meter, FAR)
        finding = self._skeleton(view, problem)
        if finding.network is None or finding.network.is_open:
            return Finding(None, reason=f"no far skeleton: {finding.reason}")
        far = finding.network
        skeleton = Network(far.weights, [FAR * b for b in far.biases], far.activations)
        rng = problem.rng(61)
        with meter.stage("windows"):
            found = assemble(meter, skeleton, problem, RADIUS, rng)
        if found.network is None:
            return Finding(None, reason=found.reason, alternatives=found.misfits)
        return self._settle(meter, problem, found, rng)

    def _skeleton(self, view: FarView, problem: Problem) -> Finding:
        meter = cast(Meter, view)
        finding = ReluLines(window=WINDOW).recover(meter, problem)
        if finding.network is None:
            finding = ReluLayers(window=WINDOW).recover(meter, problem)
        return finding

    def _settle(self, meter: Meter, problem: Problem, found: Assembled, rng: np.random.Generator) -> Finding:
        assert found.network is not None
        network, precision = found.network, problem.precision
        with meter.stage("settle"):
            x = np.concatenate(
                [window_points(network, 5, (3.0, 3e3), rng), near_points(40, meter.input_size, rng)]
            )
            y = meter.ask(x)
        settled = settle(network, x, y, precision.noise, precision.unit)
        network, level = settled.network, settled.level
        if level > SETTLED:
            with meter.stage("polish"):
                count = int(2.5 * network.num_parameters / meter.output_size / sum(network.hidden)) + 1
                more = window_points(network, count, (3.0, 3e3), rng)
                x, y = np.concatenate([x, more]), np.concatenate([y, meter.ask(more)])
            network = weighted_polish(network, x, y, precision.noise, unit=precision.unit, max_steps=6)
        return Finding(network, alternatives=found.misfits, details={"level": level})


def near_points(count: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
    """Points at radii .3 to 30, where all units bend at once."""
    x = rng.standard_normal((count, input_size))
    radii = np.exp(rng.uniform(np.log(0.3), np.log(30.0), size=(count, 1)))
    return x * (radii / np.linalg.norm(x, axis=1, keepdims=True))
