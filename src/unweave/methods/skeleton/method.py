"""Relu-like smooth networks (gelu, silu, softplus, elu, mish, ...) from queries far out: the far skeleton.

Beyond a few dozen units of its argument such an activation equals ``relu(z + k) - k`` to the last bit. Far out the
network is exactly piecewise linear but for narrow windows around the kinks: the methods for relu networks recover that
skeleton, seen from afar, and the windows give what it leaves open: each layer's activation, the lengths of rows and the
biases. Widths, depth and activations need not be known, and layers may differ in their activation. Needs exact answers
and a domain that reaches far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np

from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.skeleton.alpha import fit_alpha, has_alpha, state_alpha
from unweave.methods.skeleton.assemble import Assembled, assemble, say_unknown, window_candidates
from unweave.methods.skeleton.far import MOST_SECONDS, NUM_ATTEMPTS, Scales, find_first_layer, find_skeleton
from unweave.methods.skeleton.features import fit_in_features, read_first_layer
from unweave.methods.skeleton.profiles import CANDIDATES
from unweave.methods.skeleton.quiet import add_quiet_units
from unweave.methods.skeleton.settle import misfit_level, settle, window_points
from unweave.methods.skeleton.sharpen import sharpen
from unweave.methods.skeleton.steady import add_steady, orient_with_rest, split_rest
from unweave.probes.growth import Growth
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.weighted import answer_accuracy

LEAST_REACH = 1e7
"""Radius of a domain from which on the skeleton is looked for."""
SETTLED = 30.0
"""A misfit below so many accuracies of the answers leaves nothing to sharpen ..."""
EXPLAINED, EXPLAINED_SINGLE = 1e8, 4.0
"""... and above so many a unit is missing; in single precision the accuracy itself is what a unit hides behind."""
NEARLY_EXPLAINED = 1e11
"""Up to here the rows of a large network may be all that is amiss."""
FEW_STEPS, MANY_STEPS = 8, 40
"""Gauss-Newton steps on lengths and biases alone, and with weights of which nothing is known."""
MOST_RIVALS = 6
"""Choices of activations tried where windows leave more than one."""
SMALL = 1000
"""Parameters up to which they are all fitted again in any case."""
MOST_PARAMETERS = 6000
"""Up to here every parameter is fitted again where lengths and biases do not settle it."""
OUTLIERS = (1e3, 30.0, 5.0)
"""Answers that miss by so many times the median miss say nothing about small corrections."""
FARTHEST_NEAR = 30.0
"""Radius up to which points count as near the origin."""
NUM_FAR, FAR_FROM_QUIET = 4, (3e2, 1e4)
"""Points in the window of every unit, and their radii, where units that are quiet far out are quiet."""
NUM_NEAR = 8
"""Points near the origin at which the size of the answers is looked at."""
NUM_QUIET = 3
"""Units that hardly show far out, looked for one after the other."""


@dataclass(frozen=True)
class Skeleton:
    """``method="skeleton"``."""

    name: str = "skeleton"
    serves: ClassVar[Serves] = Serves(
        Evidence.QUERIES, CANDIDATES, when_named=("celu", "selu"), queries=400_000
    )

    def suits(self, traits: Traits) -> str | None:
        """Exact answers that grow in proportion, and a domain in which windows lie apart."""
        exact = traits.exact or traits.single
        fits = traits.growth is Growth.LINEAR and exact and traits.reach >= LEAST_REACH
        return f"{traits.growth} and are exact" if fits and traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find the skeleton, read its windows, settle what they leave open; look closer where that is not all."""
        finding = Finding(None, reason="no far skeleton was found")
        problem = replace(problem, precision=_precision_near(meter, problem))
        for attempt in range(NUM_ATTEMPTS):
            if problem.deadline.left <= 0:
                break
            found = self._attempt(meter, problem, attempt)
            finding = found if finding.network is None or found.network is not None else finding
            if finding.conclusive or finding.details.get("level", np.inf) <= _explained(problem):
                break
        return finding

    def _attempt(self, meter: Meter, problem: Problem, attempt: int) -> Finding:
        far = find_skeleton(meter, problem, attempt)
        if far.network is None and problem.precision.kind == "float32":
            return self._attempt_in_features(meter, problem, attempt)
        if far.network is None and far.conclusive:
            return far
        if far.network is None or far.network.is_open:
            return Finding(None, reason=f"no far skeleton: {far.reason}")
        entries = far.details.get(
            "open_entries", ()
        )  # single weights that never show far out show nearer, ...
        nearer = problem.precision.kind == "float32"  # ... and those that rough answers leave open
        steady = far.details.get("always_on", 0)
        if (
            far.undetermined and not steady and attempt == 0 and not nearer
        ):  # a unit is rarely on, or rarely off
            return Finding(None, reason=f"the far skeleton leaves open: {far.undetermined[0]}")
        skeleton, rest = far.network, None
        if steady:
            skeleton, rest = split_rest(skeleton, steady)
        found, network, level = self._read(meter, problem, skeleton, rest, attempt, entries)
        if network is None:
            return Finding(None, reason=found.reason, alternatives=found.misfits, conclusive=found.conclusive)
        return _describe(meter, problem, network, level, found.misfits)

    def _attempt_in_features(self, meter: Meter, problem: Problem, attempt: int) -> Finding:
        """Two layers from rough answers: the first far out, the second in its features."""
        skeleton = find_first_layer(meter, problem, attempt)
        if skeleton is None:
            return Finding(None, reason="no far skeleton: the planes of the first layer do not show")
        rng, radius = problem.rng("features", attempt), Scales.of(problem.precision).profile
        names = window_candidates(problem.activations)
        with meter.stage("windows"):
            read, rows, biases = read_first_layer(meter, skeleton, problem, names, radius, rng)
        misfits = {f"{name}, layer 1": 10.0**value for name, value in read.misfits.items()}
        if not read.rivals:
            # a window may hold a bend of the second layer that was not seen: the next attempt looks at others
            return Finding(
                None, reason=say_unknown(read.misfits, 0), alternatives=misfits, conclusive=attempt > 0
            )
        best, level = None, np.inf
        for name in read.rivals[:MOST_RIVALS]:
            name = read.activation if name == "elu" and read.activation else name
            within = problem.within(MOST_SECONDS)
            network = fit_in_features(
                meter, problem, rows, biases, (name, name), skeleton.hidden[1], rng, within
            )
            if network is None:
                continue
            network, reached = self._settle(meter, problem, network, attempt, rng)
            if reached < level:
                best, level = network, reached
            if level <= _explained(problem):
                break
        if best is None:
            reason = "the second layer was not found in the features of the first"
            return Finding(None, reason=reason, alternatives=misfits)
        return _describe(meter, problem, best, level, misfits)

    def _read(
        self,
        meter: Meter,
        problem: Problem,
        skeleton: Network,
        rest: np.ndarray | None,
        attempt: int,
        entries: tuple[tuple[int, int, int], ...],
    ) -> tuple[Assembled, Network | None, float]:
        """Windows, then what they leave open; the next activations that explain them where the first do not settle."""
        found, best, level, chosen = None, None, np.inf, [None]
        for number in range(MOST_RIVALS):
            if number >= len(chosen):
                break
            rng, steady = problem.rng("windows"), 0
            with meter.stage("windows"):
                read = assemble(
                    meter, skeleton, problem, Scales.of(problem.precision).profile, rng, chosen[number]
                )
            if found is None:
                found, chosen = read, [None, *list(product(*read.rivals))[1:]]
            network = read.network
            if network is None:
                continue
            if rest is not None:
                lengths = [np.linalg.norm(n.weights[-3], axis=1) for n in (network, skeleton)]
                left = rest * lengths[1] / lengths[0]
                oriented = add_steady(meter, network, left, problem.precision, rng)
                if oriented is None:
                    oriented = orient_with_rest(meter, network, left, problem.precision, rng)
                network, steady = (network, 0) if oriented is None else (oriented, 1)
            # a steady unit is known roughly: every parameter is fitted again, as in a later attempt
            network, reached = self._settle(meter, problem, network, max(attempt, steady), rng, entries)
            if best is None or reached < level:
                best, level = network, reached
            if level <= _explained(problem):
                break
        assert found is not None
        return found, best, level

    def _settle(
        self,
        meter: Meter,
        problem: Problem,
        network: Network,
        attempt: int,
        rng: np.random.Generator,
        entries: tuple[tuple[int, int, int], ...] = (),
    ) -> tuple[Network, float]:
        """Lengths and biases first; every parameter, and units not seen so far, where that does not explain all."""
        precision, explained = problem.precision, _explained(problem)
        single = precision.kind == "float32"
        with meter.stage("settle"):
            near = near_points(40, meter.input_size, rng)
            x = meter.snap(
                np.concatenate([window_points(network, 5, Scales.of(precision).settle, rng), near])
            )
            y = meter.ask(x)
        accuracy = answer_accuracy(network, x, precision.noise, precision.unit)
        for number in range(NUM_QUIET + 1):
            steps = MANY_STEPS if entries else FEW_STEPS
            settled = settle(network, x, y, precision.noise, precision.unit, max_steps=steps, free=entries)
            told, network, level = network, settled.network, settled.level
            if (
                has_alpha(network)
                and (single or level > SETTLED)
                and network.num_parameters <= MOST_PARAMETERS
            ):
                fitted = fit_alpha(network, x, y, accuracy, precision.unit).network
                reached = misfit_level(fitted, x, y, accuracy)
                if reached < level:
                    network, level = fitted, reached
            rough = level > explained
            # of a large network rows that were fitted to few answers far out are somewhat off without missing units
            nearly = network.num_parameters > SMALL and level <= NEARLY_EXPLAINED
            if rough and not nearly and number < NUM_QUIET and not single:
                # what windows tell is exact, and so is what shows far out: the rest may show the one unit without
                with meter.stage("settle"):
                    far = meter.snap(window_points(told, NUM_FAR, FAR_FROM_QUIET, rng))
                    answers = meter.ask(far)
                told = settle(told, far, answers, precision.noise, precision.unit, free=entries).network
                grown = add_quiet_units(meter, told, rng, sure=True)
                if grown is not None:
                    network = grown
                    continue
            enough = SETTLED if network.num_parameters > SMALL else 0.0
            if (
                level > enough
                and network.num_parameters <= MOST_PARAMETERS
                and (attempt or single or entries or nearly or not rough)
            ):
                network = self._polish(meter, network, x, y, problem, rng, rough)
                level = misfit_level(network, x, y, accuracy)
                if entries and SETTLED < level <= explained:  # from nothing known of a weight it takes longer
                    network = self._polish(meter, network, x, y, problem, rng, True)
                    level = misfit_level(network, x, y, accuracy)
            if level <= explained and single:
                network = sharpen(meter, network, precision, rng)
            if level <= explained or number == NUM_QUIET or attempt == 0:
                break
            grown = add_quiet_units(meter, network, rng)
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


def _precision_near(meter: Meter, problem: Problem) -> Precision:
    """The precision of answers near the origin, which that of a large domain says little about."""
    if not FARTHEST_NEAR <= meter.domain.reach(meter.input_size) < np.inf:
        return problem.precision
    with meter.stage("settle"):
        answers = meter.ask(near_points(NUM_NEAR, meter.input_size, problem.rng("precision near")))
    return problem.precision.at(answers)


def _describe(
    meter: Meter, problem: Problem, network: Network, level: float, misfits: dict[str, float]
) -> Finding:
    """What is said of a network that was settled to a misfit of ``level``."""
    missing = "" if level <= _explained(problem) else "a unit that hardly shows far out is missing;"
    rough, vague = problem.precision.kind == "float32", ()
    if rough and has_alpha(network) and not missing:
        x, y = meter.transcript("settle")
        accuracy = answer_accuracy(network, x, problem.precision.noise, problem.precision.unit)
        vague = state_alpha(network, x, y, accuracy)
    return Finding(
        network,
        reason=missing,
        warnings=vague,
        alternatives=misfits,
        details={"level": level},
        error_bars=partial(_error_bars, network, problem) if rough else None,
    )


def _error_bars(network: Network, problem: Problem, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What answers in single precision can be off by."""
    return np.max(answer_accuracy(network, x, problem.precision.noise, problem.precision.unit), axis=1)


def _explained(problem: Problem) -> float:
    """The misfit, in accuracies of the answers, up to which no unit is missing."""
    return EXPLAINED_SINGLE if problem.precision.kind == "float32" else EXPLAINED


def near_points(count: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
    """Points at radii from .3 on, where all units bend at once."""
    x = rng.standard_normal((count, input_size))
    radii = np.exp(rng.uniform(np.log(0.3), np.log(FARTHEST_NEAR), size=(count, 1)))
    return x * (radii / np.linalg.norm(x, axis=1, keepdims=True))
