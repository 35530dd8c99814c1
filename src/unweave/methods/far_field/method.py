"""Far field: saturating networks (tanh, sigmoid, erf) with one or two hidden layers, from far-out queries.

Recovers ``f(x) = C phi(B phi(A x + theta) + tau) + c0``, or the same without the layer B, with free norms, any
number of units against inputs and several outputs used jointly, from queries on a domain that reaches far out.
Far from the origin every first-layer unit is saturated except near its own hyperplane, so

1. along a large half circle each unit switches once: the number of steps is the width (``probes.far_circle``);
2. small steps around each crossing read the unit's row (``probes.far_rows``);
3. at far vertices the hidden vector is known exactly, so the network on top is an ordinary fit
   (``far_field_top``), affine when there is one hidden layer;
4. with the top known, the answers around each crossing give rows and biases to rounding
   (``far_field_arguments``); one antipodal query a unit removes the error that the radius puts on its bias.

Assumes that no two first-layer rows are parallel, that every unit has an effect at some far vertex, and that the
answers are exact to about 1e-9. The sign of each unit is a symmetry and cannot be known. tanh and sigmoid describe
the same functions; the work is done in tanh form.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import SATURATING, Finding, Problem, Serves, Traits
from unweave.methods.far_field.arguments import read_row, solve_arguments
from unweave.methods.far_field.top import Top, affine_top, fit_top
from unweave.probes.far_circle import Circle, Crossing, find_crossings, is_jump, random_circle
from unweave.probes.far_rows import (
    Reading,
    approximate_row,
    choose_radii,
    direct_row,
    hides_another,
    neighbour_gaps,
    orthogonal_test,
    read_crossings,
    split_overlap,
)
from unweave.probes.far_vertices import choose_vertices, staircase_patterns, wander
from unweave.probes.growth import Growth
from unweave.solve.weighted import relative_errors, weighted_polish, weighted_system

RADIUS = 1e7
FARTHEST = 1e9
NEAREST = 1e4
"""The domain must reach at least this far: inside, neighbouring units overlap."""
MAX_CIRCLES = 3
EXACT = 3e-10
"""Relative standard error above which a unit is read again."""


class FarField:
    """See the module's docstring. ``time_limit`` bounds the fits of the second layer, in seconds a circle."""

    name = "far-field"
    serves = Serves(Evidence.QUERIES, SATURATING)

    def __init__(self, time_limit: float = 300.0):
        self.time_limit = time_limit

    def suits(self, traits: Traits) -> str | None:
        levels_off = traits.growth in (Growth.SATURATING, Growth.UNSEEN)
        far = traits.reach >= NEAREST and traits.exact and levels_off
        return f"{traits.growth} and are exact" if far and traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The network, or the reason why far-out queries do not give it."""
        if meter.input_size < 2:
            return Finding(None, "far field needs at least two inputs; use method='in-domain'")
        reach = meter.domain.reach(meter.input_size)
        if reach < NEAREST:
            return Finding(
                None, f"far field needs a domain of radius {NEAREST:g} or more; use method='in-domain'"
            )
        reason, scales, units = "", None, 0
        for attempt in range(MAX_CIRCLES):
            deadline = time.monotonic() + problem.within(self.time_limit)
            run = _Run(meter, problem, attempt, reach, deadline, scales)
            finding = run.recover()
            if finding.network is not None or run.hopeless:
                return finding
            reason, scales, units = finding.reason, run.row_scales(), max(units, run.num_units)
        return Finding(None, f"{reason} ({units} first-layer units seen on {MAX_CIRCLES} circles)")


@dataclass(frozen=True)
class _FirstLayer:
    readings: list[Reading]
    rows: np.ndarray
    circle: Circle
    basis: np.ndarray


class _Run:
    """One circle and everything that follows from it."""

    def __init__(self, meter: Meter, problem: Problem, attempt: int, reach: float, deadline: float, scales):
        self.meter, self.problem, self.attempt, self.deadline = meter, problem, attempt, deadline
        self.rng = problem.rng("far circle", attempt)
        self.radius = min(RADIUS, 0.9 * reach)
        self.farthest = min(FARTHEST, 0.9 * reach)
        self.scales = scales
        scale = max(problem.precision.scale, 1e-300)
        self.noise = problem.precision.noise
        self.tolerance = max(1e-9 * scale, 40 * self.noise)
        self.accept = max(1e-11, 20 * problem.precision.relative)
        self.candidates = list(dict.fromkeys("tanh" if a == "sigmoid" else a for a in problem.activations))
        self.activation = act.get(self.candidates[0])
        self.hopeless = False
        self.num_units = 0
        self._rows: np.ndarray | None = None

    def row_scales(self) -> np.ndarray | None:
        """Coordinate scales that would make the rows found so far isotropic, for the next circle."""
        if self._rows is None or not len(self._rows):
            return None
        sizes = np.sqrt(np.mean(self._rows**2, axis=0))
        return 1 / np.maximum(sizes, 1e-3 * sizes.max())

    def recover(self) -> Finding:
        circle = random_circle(self.meter.input_size, self.rng, self.scales)
        crossings = self._crossings(circle)
        self.num_units = len(crossings)
        if not crossings:
            self.hopeless = True
            return Finding(None, "the answers do not change along a far circle: a constant far field")
        if any(c.width == 0 for c in crossings):
            return self._jumps()
        self._choose_activation(circle, crossings)
        deep = not self._looks_affine(circle, crossings)
        layer, doubtful = self._first_layer(circle, crossings, deep)
        if layer is None:
            with self.meter.stage("circle"):
                if is_jump(self.meter.ask, circle, crossings[0], self.tolerance):
                    return self._jumps()
            return Finding(None, f"{doubtful} crossings stay unresolved: units overlap on this circle")
        self._rows, self.num_units = layer.rows, len(layer.rows)
        top = self._top(layer, deep)
        if top.network is None:
            return Finding(None, f"{top.reason}; best relative residual {top.rms:.1e}")
        exact = self._exact(layer, top.network)
        if exact is None:
            return Finding(None, "a unit's row could not be read through the network on top")
        network, bend = exact
        network = self._look_closer(network, layer.basis)
        return self._conclude(network, bend, top)

    def _jumps(self) -> Finding:
        self.hopeless = True
        reason = "the answers jump instead of passing smoothly: step units, a decision tree or rounding"
        return Finding(None, f"{reason}, not a smooth saturating network", conclusive=True)

    def _crossings(self, circle: Circle) -> list[Crossing]:
        with self.meter.stage("circle"):
            return find_crossings(
                self.meter.ask, circle, self.radius, self.activation, tolerance=self.tolerance
            )

    def _choose_activation(self, circle: Circle, crossings: list[Crossing]) -> None:
        """tanh approaches its limit exponentially, erf as a Gaussian: three points in one tail tell."""
        if len(self.candidates) == 1:
            return
        strongest = max(crossings, key=lambda c: float(np.linalg.norm(c.jump)))
        offsets = np.array([3.0, 4.5, 6.0]) * strongest.width
        with self.meter.stage("activation"):
            points = circle.point(strongest.angle + offsets / strongest.radius, strongest.radius)
            tail = np.linalg.norm(self.meter.ask(points) - strongest.after, axis=1)
        tail = np.maximum(tail, self.noise + 1e-300)
        first, second = np.log(tail[0] / tail[1]), np.log(tail[1] / tail[2])
        chosen = "tanh" if second < 1.25 * first else "erf"
        if chosen in self.candidates:
            self.activation = act.get(chosen)

    def _looks_affine(self, circle: Circle, crossings: list[Crossing]) -> bool:
        """One hidden layer: values at a plateau and at its antipode have the same sum everywhere."""
        if self.problem.hidden is not None:
            return len(self.problem.hidden) == 1
        num_units = len(crossings)
        angles = np.array([c.angle for c in crossings])
        plateaus = np.array([crossings[0].before, *(c.after for c in crossings)])
        chosen = np.unique(np.linspace(0, num_units, 5).astype(int)[:4])
        edges = np.concatenate([[angles[-1] - np.pi], angles, [angles[0] + np.pi]])
        middles = (edges[chosen] + edges[chosen + 1]) / 2
        with self.meter.stage("depth"):
            antipodes = self.meter.ask(circle.point(middles + np.pi, self.radius))
        sums = plateaus[chosen] + antipodes
        return bool(np.max(np.abs(sums - sums[0])) <= 10 * self.tolerance)

    def _first_layer(self, circle, crossings, deep) -> tuple[_FirstLayer | None, int]:
        """Readings and approximate rows of all units, in the order of their crossings."""
        meter, size = self.meter, self.meter.input_size
        basis, _ = np.linalg.qr(self.rng.standard_normal((size, size)))
        if deep:
            crossings = self._uncover(circle, crossings)
        done: dict[int, tuple[Reading, np.ndarray]] = {}
        pending = list(range(len(crossings)))
        for attempt in range(4):
            # another unit may not be saturated because of a large bias: again from further out, in shorter steps
            radii = np.minimum(
                6.0**attempt * choose_radii(crossings, self.activation, self.farthest), self.farthest
            )
            chosen = [crossings[i] for i in pending]
            with meter.stage("rows"):
                readings = read_crossings(
                    meter.ask,
                    circle,
                    chosen,
                    self.activation,
                    basis,
                    self._steps(radii[pending], deep) / 2.0**attempt,
                    radii[pending],
                    neighbour_gaps(crossings)[pending] / 2,
                    exact=not deep,
                )
                done.update(self._single_units(dict(zip(pending, readings, strict=True)), basis, deep))
            pending = [i for i in range(len(crossings)) if i not in done]
            if not pending:
                break
            with meter.stage("circle"):
                pieces = [
                    split_overlap(
                        meter.ask, circle, crossings[i], self.activation, self.tolerance, self.farthest
                    )
                    if i in pending
                    else [crossings[i]]
                    for i in range(len(crossings))
                ]
            crossings, done = _renumber(pieces, done)
            pending = [i for i in range(len(crossings)) if i not in done]
        if pending:
            self._rows = np.array([a for _, a in done.values()]).reshape(-1, size)
            return None, len(pending)
        readings, rows = zip(*(done[i] for i in range(len(crossings))), strict=True)
        return _FirstLayer(list(readings), np.array(rows), circle, basis), 0

    def _uncover(self, circle: Circle, crossings: list[Crossing]) -> list[Crossing]:
        """Split the crossings that hide a second unit; under an unknown top their rows alone would not show it."""
        with self.meter.stage("circle"):
            double = hides_another(self.meter.ask, circle, crossings, self.activation, 10 * self.tolerance)
            pieces = [
                split_overlap(self.meter.ask, circle, c, self.activation, self.tolerance, self.farthest)
                if two
                else [c]
                for c, two in zip(crossings, double, strict=True)
            ]
        return [c for group in pieces for c in group]

    def _single_units(self, readings, basis, deep) -> dict[int, tuple[Reading, np.ndarray]]:
        """Readings that pass the orthogonal test, with their rows."""
        rows = {
            i: approximate_row(r, basis) if deep else direct_row(r, self.activation, basis)
            for i, r in readings.items()
            if r is not None
        }
        sound = [i for i, row in rows.items() if np.all(np.isfinite(row)) and np.any(row)]
        single = orthogonal_test(
            self.meter.ask,
            [readings[i] for i in sound],
            np.array([rows[i] for i in sound]),
            self.rng,
            self._slack(deep),
        )
        return {i: (readings[i], rows[i]) for i, ok in zip(sound, single, strict=True) if ok}

    def _steps(self, radii: np.ndarray, deep: bool) -> np.ndarray:
        """How far to step, in units of the argument: longer where rounding is worse, short where T is unknown."""
        if not deep:
            return np.full(len(radii), 0.12 * self.activation.scale)
        noise = max(self.problem.precision.relative, 1e-16)
        return np.clip(np.maximum(5e-6 * radii, 10 * noise ** (1 / 3)), 0.02, 0.1)

    def _slack(self, deep: bool) -> float:
        """How far the answer may move in the orthogonal test, relative to the change along the circle."""
        return max(0.02 if deep else 1e-5, 1e4 * self.problem.precision.relative)

    def _top(self, layer: _FirstLayer, deep: bool) -> Top:
        """The network above the first layer, from the plateaus and further far vertices."""
        crossings = [r.crossing for r in layer.readings]
        num_units = len(crossings)
        patterns = staircase_patterns(num_units)
        values = np.array([crossings[0].before, *(c.after for c in crossings)])
        known = {(p > 0).tobytes() for p in patterns}

        def buy(num_vertices: int) -> tuple[np.ndarray, np.ndarray]:
            directions, signs = choose_vertices(layer.rows, num_vertices, self.rng, known)
            with self.meter.stage("vertices"):
                return signs, self.meter.ask(self.radius * directions)

        scale = max(float(np.std(values)), self.problem.precision.scale, 1e-300)
        if not deep:
            extra = buy(6)
            top = affine_top(patterns, values)
            worst = float(np.max(np.abs(top(extra[0]) - extra[1]), initial=0.0)) / scale
            if worst <= 1e3 * self.accept:
                joint = affine_top(np.concatenate([patterns, extra[0]]), np.concatenate([values, extra[1]]))
                return Top(joint, worst, len(patterns) + len(extra[0]))
            return Top(None, worst, len(patterns), "a unit of the first layer was missed on this circle")
        if self._misses_a_unit(layer):
            return Top(None, np.inf, len(patterns), "a unit of the first layer was missed on this circle")
        hidden = self.problem.hidden
        if hidden is not None and len(hidden) != 2:
            return Top(None, np.inf, len(patterns), "far field serves one or two hidden layers")
        return fit_top(
            patterns,
            values,
            buy,
            self.activation,
            width=None if hidden is None else hidden[1],
            accept=self.accept,
            rng=self.rng,
            max_vertices=self._most_vertices(num_units),
            deadline=self.deadline,
        )

    def _misses_a_unit(self, layer: _FirstLayer, num_pairs: int = 8) -> bool:
        """Two far points on the same side of every known hyperplane answer alike, unless one is unknown."""
        directions, _ = choose_vertices(layer.rows, num_pairs, self.rng, set())
        others = wander(layer.rows, directions, self.rng)
        with self.meter.stage("vertices"):
            answers = self.meter.ask(self.radius * np.concatenate([directions, others]))
        first, second = np.split(answers, 2)
        return bool(np.any(np.abs(first - second) > 10 * self.tolerance))

    def _most_vertices(self, num_units: int) -> int:
        """Enough for a second layer half as wide as the first; on the last circle, as wide."""
        widest = num_units + 1 if self.attempt == MAX_CIRCLES - 1 else (num_units + 1) // 2 + 1
        return int(min(max(4 * widest * (num_units + 2), 400), 60_000, self.meter.ledger.left + num_units))

    def _exact(self, layer: _FirstLayer, top: Network) -> tuple[Network, float] | None:
        """Rows and biases to rounding, through the known top; doubtful units are read again elsewhere."""
        patterns = staircase_patterns(len(layer.rows))
        rows, arguments, bends = [], [], []
        for i, reading in enumerate(layer.readings):
            row = read_row(reading, patterns[i], i, top, self.activation, layer.basis)
            rows.append(row.weights)
            arguments.append(row.argument)
            bends.append(row.bend)
        weights, bases = np.array(rows), np.array([r.base for r in layer.readings])
        if not np.all(np.isfinite(weights)) or not np.all(np.any(weights, axis=1)):
            return None
        biases = np.array(arguments) - np.sum(weights * bases, axis=1)
        signs = patterns[:-1]
        with self.meter.stage("biases"):
            biases = self._antipodes(top, weights, biases, bases, np.array(arguments), signs)
        doubtful = self._doubtful(layer, weights, biases, np.array(bends))
        if doubtful.any():
            with self.meter.stage("second look"):
                weights, biases = self._read_again(
                    np.flatnonzero(doubtful), top, weights, biases, layer.basis
                )
        names = [self.activation.name] + [self.activation.name] * (top.num_layers - 1) + ["identity"]
        return Network([weights, *top.weights], [biases, *top.biases], names), float(np.median(bends))

    def _look_closer(self, network: Network, basis: np.ndarray) -> Network:
        """Read again the units that all answers so far leave uncertain, where the answers would allow better."""
        system = weighted_system(network, *self.meter.transcript(), self.noise)
        if system is None:
            return network
        errors = system.unit_errors(network)[: network.hidden[0]]
        uncertain = errors > max(EXACT, 1e4 * self.problem.precision.relative)
        if (
            uncertain.mean() > 0.5
        ):  # rough estimates: only with more units than inputs, read from far out, they tell
            crowded = len(errors) > network.input_size
            uncertain = errors >= np.quantile(errors, 0.8) if crowded else np.zeros(len(errors), dtype=bool)
        if not uncertain.any():
            return network
        top = Network(network.weights[1:], network.biases[1:], network.activations[1:])
        with self.meter.stage("second look"):
            weights, biases = self._read_again(
                np.flatnonzero(uncertain), top, network.weights[0], network.biases[0], basis
            )
        return Network([weights, *top.weights], [biases, *top.biases], network.activations)

    def _antipodes(self, top, weights, biases, bases, arguments, signs) -> np.ndarray:
        """theta = (u(x) + u(x') - a.(x + x'))/2 with x' next to -x: the large part of a.x cancels."""
        squared = np.sum(weights**2, axis=1)
        mirrored = -bases - (2 * biases / squared)[:, None] * weights
        answers = self.meter.ask(mirrored)
        units = np.arange(len(weights))
        found = solve_arguments(answers, -signs, units, top, self.activation, -arguments)
        return (arguments + found - np.sum(weights * (bases + mirrored), axis=1)) / 2

    def _doubtful(self, layer, weights, biases, bends) -> np.ndarray:
        """Units whose reading was not clean: another unit not saturated, a very large radius, tiny steps."""
        bases = np.array([r.base for r in layer.readings])
        others = np.abs(bases @ weights.T + biases)
        np.fill_diagonal(others, np.inf)
        unsaturated = np.min(others, axis=1) < 0.97 * act.saturation_point(self.activation)
        distant = np.linalg.norm(bases, axis=1) * np.linalg.norm(weights, axis=1) > 2e5
        steps = np.array([r.step for r in layer.readings]) * np.linalg.norm(weights, axis=1)
        short = steps / np.sqrt(weights.shape[1]) < 0.01 * self.activation.scale
        return unsaturated | distant | short | (bends > 1e-3)

    def _read_again(self, units, top, weights, biases, basis) -> tuple[np.ndarray, np.ndarray]:
        """New base points inside each unit's hyperplane, as close to the origin as saturation allows."""
        weights, biases = weights.copy(), biases.copy()
        size = weights.shape[1]
        for i in units:
            base, signs = self._saturated_base(i, weights, biases)
            if base is None:
                continue
            step = 0.25 * self.activation.scale * np.sqrt(size) / np.linalg.norm(weights[i])
            points = np.concatenate([base[None], base + step * basis.T])
            guesses = points @ weights[i] + biases[i]
            found = solve_arguments(
                self.meter.ask(points), signs, i, top, self.activation, np.clip(guesses, -2, 2)
            )
            row = basis @ (found[1:] - found[0]) / step
            if np.linalg.norm(row - weights[i]) > 0.1 * np.linalg.norm(weights[i]):
                continue
            bias = found[0] - row @ base
            weights[i], biases[i] = row, bias
            biases[i : i + 1] = self._antipodes_of(i, top, row, bias, base, found[0], signs)
        return weights, biases

    def _antipodes_of(self, unit, top, row, bias, base, argument, signs) -> np.ndarray:
        mirrored = -base - 2 * bias / (row @ row) * row
        answer = self.meter.ask(mirrored[None])
        found = solve_arguments(answer, -signs[None], unit, top, self.activation, np.array([-argument]))
        return (argument + found - row @ (base + mirrored)) / 2

    def _saturated_base(self, unit, weights, biases) -> tuple[np.ndarray | None, np.ndarray]:
        row, squared = weights[unit], weights[unit] @ weights[unit]
        directions = self.rng.standard_normal((400, len(row)))
        directions -= np.outer(directions @ row, row) / squared
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        shift = -biases[unit] * row / squared
        others = np.arange(len(weights)) != unit
        slopes = directions @ weights[others].T
        offsets = weights[others] @ shift + biases[others]
        needed = 1.15 * act.saturation_point(self.activation) + np.abs(offsets)
        radii = np.max(needed / np.maximum(np.abs(slopes), 1e-300), axis=1, initial=1.0)
        best = int(np.argmin(radii))
        if radii[best] > 0.5 * self.radius:
            return None, np.zeros(len(weights))
        base = radii[best] * directions[best] + shift
        return base, np.where(weights @ base + biases > 0, 1.0, -1.0)

    def _conclude(self, network: Network, bend: float, top: Top) -> Finding:
        """Check against every answer already paid for; write sigmoid where it was asked for."""
        x, y = self.meter.transcript()
        wrong = relative_errors(network, x, y) > max(1e-6, 100 * self.problem.precision.relative)
        if bend > 1e-2 or wrong.mean() > 0.01:
            return Finding(
                None,
                f"the recovered network misses {wrong.mean():.0%} of the answers (profile bend {bend:.1e}): "
                f"not a plain {self.activation.name} network of one or two hidden layers",
            )
        network = weighted_polish(network, x, y, self.noise)
        if self.problem.activations[0] == "sigmoid":
            network = network.as_sigmoid()
        return Finding(
            network,
            alternatives={f"{self.activation.name} vertices": top.rms},
            details={"bend": bend, "attempts": list(top.attempts)},
        )


def _renumber(pieces, done) -> tuple[list[Crossing], dict]:
    crossings, kept = [], {}
    for i, group in enumerate(pieces):
        if i in done:
            kept[len(crossings)] = done[i]
        crossings.extend(group)
    return crossings, kept
