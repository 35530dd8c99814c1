"""Relu-like smooth networks (gelu, silu, softplus, elu, mish, ...) from queries far out: the far skeleton.

Beyond a few dozen units of its argument such an activation equals ``relu(z + k) - k`` to the last bit. Far out the
network is exactly piecewise linear but for narrow windows around the kinks: the methods for relu networks recover that
skeleton, seen from afar, and the windows give what it leaves open: each layer's activation, the lengths of rows and the
biases. Widths, depth and activations need not be known, and layers may differ in their activation. Needs exact answers
and a domain that reaches far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.skeleton.assemble import assemble
from unweave.methods.skeleton.far import find_skeleton
from unweave.methods.skeleton.profiles import CANDIDATES
from unweave.methods.skeleton.quiet import add_quiet_unit
from unweave.methods.skeleton.settle import misfit_level, settle, window_points
from unweave.methods.skeleton.steady import orient_with_rest, split_rest
from unweave.probes.growth import Growth
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.weighted import answer_accuracy

LEAST_REACH = 1e8
"""Radius of a domain from which on the skeleton is looked for."""
RADIUS = 1e6
"""How far out windows are asked."""
SETTLED = 30.0
"""A misfit below so many accuracies of the answers leaves nothing to sharpen ..."""
EXPLAINED = 1e8
"""... and above so many a unit is missing."""
SMALL = 1000
"""Parameters up to which they are all fitted again in any case."""
MOST_PARAMETERS = 6000
"""Up to here every parameter is fitted again where lengths and biases do not settle it."""
OUTLIERS = (1e3, 30.0, 5.0)
"""Answers that miss by so many times the median miss say nothing about small corrections."""
NUM_ATTEMPTS = 3
"""Skeletons tried."""
NUM_QUIET = 3
"""Units that hardly show far out, looked for one after the other."""


@dataclass(frozen=True)
class Skeleton:
    """``method="skeleton"``."""

    name: str = "skeleton"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, CANDIDATES, when_named=("celu", "selu"))

    def suits(self, traits: Traits) -> str | None:
        """Exact answers that grow in proportion, and a domain in which windows lie apart."""
        fits = traits.growth is Growth.LINEAR and traits.exact and traits.reach >= LEAST_REACH
        return f"{traits.growth} and are exact" if fits and traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find the skeleton, read its windows, settle what they leave open; look closer where that is not all."""
        finding = Finding(None, reason="no far skeleton was found")
        for attempt in range(NUM_ATTEMPTS):
            if problem.deadline.left <= 0:
                break
            found = self._attempt(meter, problem, attempt)
            finding = found if finding.network is None or found.network is not None else finding
            if finding.conclusive or finding.details.get("level", np.inf) <= EXPLAINED:
                break
        return finding

    def _attempt(self, meter: Meter, problem: Problem, attempt: int) -> Finding:
        far = find_skeleton(meter, problem, attempt)
        if far.network is None or far.network.is_open:
            return Finding(None, reason=f"no far skeleton: {far.reason}")
        if far.undetermined and attempt == 0:  # a unit that is rarely on, or rarely off
            return Finding(None, reason=f"the far skeleton leaves open: {far.undetermined[0]}")
        skeleton, rest, rng = far.network, None, problem.rng("windows")
        if far.details.get("always_on"):
            skeleton, rest = split_rest(skeleton, far.details["always_on"])
        with meter.stage("windows"):
            found = assemble(meter, skeleton, problem, RADIUS, rng)
        if found.network is None:
            return Finding(None, reason=found.reason, alternatives=found.misfits, conclusive=found.conclusive)
        network = found.network
        if rest is not None:
            lengths = [np.linalg.norm(n.weights[-3], axis=1) for n in (network, skeleton)]
            oriented = orient_with_rest(
                meter, network, rest * lengths[1] / lengths[0], problem.precision, rng
            )
            network = network if oriented is None else oriented
        network, level = self._settle(meter, problem, network, attempt, rng)
        missing = "" if level <= EXPLAINED else "a unit that hardly shows far out is missing;"
        return Finding(network, reason=missing, alternatives=found.misfits, details={"level": level})

    def _settle(
        self, meter: Meter, problem: Problem, network: Network, attempt: int, rng: np.random.Generator
    ) -> tuple[Network, float]:
        """Lengths and biases first; every parameter, and units not seen so far, where that does not explain all."""
        precision = problem.precision
        with meter.stage("settle"):
            near = near_points(40, meter.input_size, rng)
            x = np.concatenate([window_points(network, 5, (3.0, 3e3), rng), near])
            y = meter.ask(x)
        for number in range(NUM_QUIET + 1):
            settled = settle(network, x, y, precision.noise, precision.unit)
            network, level = settled.network, settled.level
            rough = level > EXPLAINED
            enough = SETTLED if network.num_parameters > SMALL else 0.0
            if level > enough and network.num_parameters <= MOST_PARAMETERS and (attempt or not rough):
                network = self._polish(meter, network, x, y, problem, rng, rough)
                level = misfit_level(network, x, y, precision.noise, precision.unit)
            if level <= EXPLAINED or number == NUM_QUIET or attempt == 0:
                break
            grown = add_quiet_unit(meter, network, rng)
            if grown is None:
                break
            network = grown
        return network, level

    def _polish(
        self, meter: Meter, network: Network, x, y, problem: Problem, rng: np.random.Generator, rough: bool
    ) -> Network:
        """Every parameter, on answers already paid for; near the origin alone while a unit is known roughly."""
        near_x, near_y = meter.transcript("quiet units")
        x, y = np.concatenate([x, near_x]), np.concatenate([y, near_y])
        far_x, far_y = meter.transcript("lines", "first layer", "second layer", "fresh points", "layers")
        most = max(3 * network.num_parameters // meter.output_size, 500)
        chosen = np.sort(rng.permutation(len(far_x))[:most])
        noise, unit = problem.precision.noise, problem.precision.unit
        if rough:
            network = polish_weighted(network, x, y, 1.0, max_steps=60, damping=1e-6).network
        num_near = len(x)
        x, y = np.concatenate([x, far_x[chosen]]), np.concatenate([y, far_y[chosen]])
        accuracy = answer_accuracy(network, x, noise, unit)
        for (
            outlier
        ) in OUTLIERS:  # far out the window of a unit is too narrow for a correction to be small in it
            misses = np.max(np.abs(network(x) - y) / accuracy, axis=1)
            sound = misses <= outlier * max(float(np.median(misses)), 1.0)
            sound[:num_near] = True
            fit = polish_weighted(network, x[sound], y[sound], accuracy[sound], max_steps=4)
            network = fit.network
            if fit.rms <= SETTLED:
                break
        return network


def near_points(count: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
    """Points at radii .3 to 30, where all units bend at once."""
    x = rng.standard_normal((count, input_size))
    radii = np.exp(rng.uniform(np.log(0.3), np.log(30.0), size=(count, 1)))
    return x * (radii / np.linalg.norm(x, axis=1, keepdims=True))
