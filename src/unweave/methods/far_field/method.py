"""Far field: saturating networks (tanh, sigmoid, erf) of any depth, from far-out queries.

Recovers ``f(x) = T(phi(A x + theta))``, T affine or a network of further saturating layers, with free norms, any
number of units against inputs and several outputs used jointly, from queries on a domain that reaches far out.
Far from the origin every first-layer unit is saturated except near its own hyperplane, so

1. along a large half circle each unit switches once: the number of steps is the width (``probes.far_circle``);
2. small steps around each crossing read the unit's row (``first_layer``), whatever stands above;
3. at far vertices the hidden vector is known exactly, so the network on top is an ordinary fit: affine for one
   hidden layer, a shallow fit for two (``top``), students for more (``peel``), which points near the origin show better
   where vertices are few or steep (``inside``);
4. with the top known, the answers around each crossing give rows and biases to rounding (``exact``); one antipodal
   query a unit removes the error that the radius puts on its bias. Coarse answers (float32) are blurred far out:
   there the last digits come from points near the origin (``near``).

Assumes that no two first-layer rows are parallel and that every unit has an effect at some far vertex. The sign of
each unit is a symmetry and cannot be known. tanh and sigmoid describe the same functions; the work is done in tanh
form.

One long file: it is the order of the stages, with what each hands to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import SATURATING, Finding, Problem, Serves, Traits
from unweave.methods.far_field.curvature import fit_by_curvature
from unweave.methods.far_field.exact import look_closer, read_through
from unweave.methods.far_field.first_layer import FirstLayer, misses_a_unit, read_first_layer, sharpen_rows
from unweave.methods.far_field.first_look import looks_affine, say_unknown, see_activation
from unweave.methods.far_field.inside import Inside
from unweave.methods.far_field.middle import Middle
from unweave.methods.far_field.near import settle
from unweave.methods.far_field.one_layer import distinct_rows, fit_one_layer, rows_in_length
from unweave.methods.far_field.pair import fit_pair
from unweave.methods.far_field.peel import MOST_VERTICES, Peeling
from unweave.methods.far_field.reread import read_elsewhere
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import MISSED, Top, fit_affine, fit_top
from unweave.methods.far_field.union import join_circles
from unweave.methods.far_field.wide import fit_wide
from unweave.probes.far_circle import Circle, Crossing, find_crossings, is_jump, random_circle
from unweave.probes.far_vertices import choose_vertices
from unweave.probes.growth import Growth
from unweave.solve.weighted import relative_errors, weighted_polish
from unweave.students.overwide import Pool

NEAREST = 1e4
"""The domain must reach at least this far: inside, neighbouring units overlap."""
ROUGH = 1e-5
"""Relative error of the answers beyond which far-out looks tell too little."""
MAX_CIRCLES, MORE_CIRCLES = 3, 8
"""Attempts, each with a circle of its own, and further circles of coarse answers."""
MARGIN, COARSE_MARGIN = 0.02, 0.08
"""Least cosine between a vertex's direction and a row, to begin with; rows of coarse answers are less exact."""
SMALL = 60
"""Units up to which fits by exact steps come first."""
NEARLY = 1e-3
"""Residual of a student around known rows that no method without them would improve on."""
VERTICES, PEELING, MIDDLE_SHARE = 20.0, 25.0, 0.85
"""Seconds that one layer on top has, and then several have, before one steep layer is tried from nearer by, and the
share of the time left that this may take where there are too many units for anything else."""
MANY = 64
"""First-layer units beyond which one layer on top has more time."""
CROWDED, GLANCE = 20, 8.0
"""First-layer units, more than the inputs and at most ``SMALL``, from which one student from nearer by goes before
several layers, and the seconds that far vertices have before it: such layers are mostly those of trained networks.
With fewer units several layers have these seconds first."""
GENTLER = 2.0
"""Time of students at points near the origin, relative to that of those on vertices before them."""
FEWEST = 400
"""Vertices that are always allowed for one hidden layer on top."""


class FarField:
    """``time_limit`` bounds the fits of the network on top, in seconds a circle."""

    serves: Serves

    name = "far-field"
    serves = Serves(Evidence.QUERIES, SATURATING)

    def __init__(self, time_limit: float = 300.0):
        self.time_limit = time_limit

    def suits(self, traits: Traits) -> str | None:
        levels_off = traits.growth in (Growth.SATURATING, Growth.UNSEEN)
        if traits.reach < NEAREST or not levels_off or not traits.candidates(self.serves):
            return None
        return f"{traits.growth} and are exact" if traits.exact else traits.why_smooth()

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The network, or the reason why far-out queries do not give it."""
        if meter.input_size < 2:
            return Finding(None, "far field needs at least two inputs; use method='in-domain'")
        reach = meter.domain.reach(meter.input_size)
        if reach < NEAREST:
            return Finding(
                None, f"far field needs a domain of radius {NEAREST:g} or more; use method='in-domain'"
            )
        if problem.precision.relative > ROUGH:
            return Finding(
                None, f"far field needs answers that are exact to {ROUGH:g}; use method='in-domain'"
            )
        reason, scales, units = "", None, 0
        seen: list[np.ndarray] = []
        for attempt in range(MAX_CIRCLES):
            deadline = clock.now() + problem.within(self.time_limit)
            run = _Run(meter, problem, attempt, reach, deadline)
            finding = run.recover(scales)
            unknown = "" if finding.network is not None or attempt else run.say_unknown()
            if unknown:
                return Finding(None, unknown, conclusive=True)
            if finding.network is not None or run.hopeless or problem.deadline.passed:
                return finding
            reason, scales, units = finding.reason, run.row_scales(), max(units, run.num_units)
            seen += [] if run.shallow_rows is None else [run.shallow_rows]
        if len(seen) == MAX_CIRCLES:  # one layer, coarse answers: every circle has shown some of it
            finding = run.fit_shallow(distinct_rows(np.concatenate(seen)))
            if finding.network is not None or finding.conclusive:
                return finding
            return replace(finding, reason=f"{reason}; {finding.reason}")
        return Finding(None, f"{reason} ({units} first-layer units seen on {MAX_CIRCLES} circles)")


class _Run:
    """One circle and everything that follows from it."""

    def __init__(self, meter: Meter, problem: Problem, attempt: int, reach: float, deadline: float):
        self.meter, self.problem, self.deadline = meter, problem, deadline
        self.last = attempt == MAX_CIRCLES - 1
        self.candidates = list(dict.fromkeys("tanh" if a == "sigmoid" else a for a in problem.activations))
        rng = problem.rng("far circle", attempt)
        self.sight = Sight(meter, problem.precision, act.get(self.candidates[0]), rng, reach)
        self.hopeless = False
        self.num_units = 0
        self._shallow: tuple[Circle, list[Crossing]] | None = None
        """The circle and its crossings, where they say that there is one hidden layer."""
        self._rows: np.ndarray | None = None
        self.shallow_rows: np.ndarray | None = None
        """Rows in their lengths, where there is one layer and the answers are coarse."""

    def row_scales(self) -> np.ndarray | None:
        """Coordinate scales that would make the rows found so far isotropic, for the next circle."""
        if self._rows is None or not len(self._rows):
            return None
        sizes = np.sqrt(np.mean(self._rows**2, axis=0))
        return 1 / np.maximum(sizes, 1e-3 * sizes.max())

    def say_unknown(self) -> str:
        """Why the units are none of the candidates; nothing where they may be."""
        return "" if self._shallow is None else say_unknown(self.sight, *self._shallow, self.candidates)

    def recover(self, scales: np.ndarray | None) -> Finding:
        """``scales`` stretch the coordinates that the circle is drawn in."""
        circle = random_circle(self.meter.input_size, self.sight.rng, scales)
        crossings = self._crossings(circle)
        self.num_units = len(crossings)
        if not crossings:
            self.hopeless = True
            return Finding(None, "the answers do not change along a far circle: a constant far field")
        if any(c.width == 0 for c in crossings):
            return self._jumps()
        self.sight = replace(
            self.sight, activation=see_activation(self.sight, circle, crossings, self.candidates)
        )
        hidden = self.problem.hidden
        deep = not looks_affine(self.sight, circle, crossings) if hidden is None else len(hidden) > 1
        self._shallow = None if deep or hidden is not None else (circle, crossings)
        basis, _ = np.linalg.qr(self.sight.rng.standard_normal((circle.first.size, circle.first.size)))
        layer = read_first_layer(self.sight, circle, crossings, deep, basis)
        if deep and self.sight.coarse:
            layer = join_circles(chain([layer], self._further_layers(layer))) or layer
        if deep and (self.sight.coarse or len(layer.rows) > SMALL):
            # few hyperplanes leave vertices with wide margins, for which rows to a per cent do mostly
            layer = sharpen_rows(self.sight, layer)
        self._rows = layer.rows
        if self.sight.coarse and not deep and len(layer.rows):
            self.shallow_rows = rows_in_length(self.sight, layer)
        if layer.num_pending:
            with self.meter.stage("circle"):
                if is_jump(self.meter.ask, circle, crossings[0], self.sight.tolerance):
                    return self._jumps()
            return Finding(
                None, f"{layer.num_pending} crossings stay unresolved: units overlap on this circle"
            )
        self.num_units = len(layer.rows)
        top, layer = self._top(layer, deep)
        if top.network is None:
            return Finding(None, f"{top.reason}; best relative residual {top.rms:.1e}")
        if top.whole and self.sight.coarse:
            return self._conclude_near(top.network, top)
        if top.whole:
            return self._conclude(top.network, 0.0, top)
        found = read_through(self.sight, layer, top.network)
        if found is None and not self.sight.coarse:
            further = islice(self._further_layers(layer), MAX_CIRCLES)
            found = read_elsewhere(self.sight, layer, top.network, further)
        if found is None:
            return Finding(None, "a unit's row could not be read through the network on top")
        network, bend = found
        if self.sight.coarse:
            return self._conclude_near(network, top)
        return self._conclude(look_closer(self.sight, network, layer.basis), bend, top)

    def _further_layers(self, layer: FirstLayer) -> Iterator[FirstLayer]:
        """The same layer as further circles show it."""
        for _ in range(MORE_CIRCLES):
            circle = random_circle(self.meter.input_size, self.sight.rng)
            crossings = self._crossings(circle)
            if crossings:
                yield read_first_layer(self.sight, circle, crossings, True, layer.basis)

    def _jumps(self) -> Finding:
        reason = "the answers jump instead of passing smoothly: step units, a decision tree or rounding"
        self.hopeless = True
        return Finding(None, f"{reason}, not a smooth saturating network", conclusive=not self.sight.coarse)

    def _crossings(self, circle: Circle) -> list[Crossing]:
        with self.meter.stage("circle"):
            return find_crossings(
                self.meter.ask,
                circle,
                self.sight.radius,
                self.sight.activation,
                tolerance=self.sight.tolerance,
                close=24.0 if self.sight.coarse else 256.0,
            )

    def _top(self, layer: FirstLayer, deep: bool) -> tuple[Top, FirstLayer]:
        """The network above the first layer, from the plateaus and further far vertices, and the layer, sharper where
        that needed it.
        """
        known: set[bytes] = set()
        bought = [np.zeros((0, layer.rows.shape[1]))]
        margin = COARSE_MARGIN if self.sight.coarse else MARGIN

        def buy(num_vertices: int) -> tuple[np.ndarray, np.ndarray]:
            directions, signs = choose_vertices(
                layer.rows, num_vertices, self.sight.rng, known, margin=margin
            )
            bought.append(directions)
            with self.meter.stage("vertices"):
                return signs, self.meter.ask(self.sight.radius * directions)

        if layer.plateaus is None:
            patterns, values = buy(2 * len(layer.rows))
        else:
            patterns, values = layer.plateaus
            known.update((p > 0).tobytes() for p in patterns)
        if not deep:
            scale = max(float(np.std(values)), self.problem.precision.scale, 1e-300)
            return fit_affine(patterns, values, *buy(6), scale=scale, accept=self.sight.accept), layer
        if misses_a_unit(self.sight, layer):
            return Top(None, np.inf, len(patterns), MISSED), layer
        hidden, pool = self.problem.hidden, Pool(patterns, values, buy)
        two = hidden is not None and len(hidden) == 2
        top = Top(None, np.inf, len(patterns))
        # two layers are the likeliest, and their students need the fewest vertices
        small, crowded = len(layer.rows) <= SMALL, self._crowded(layer)
        first = small and (hidden is None or two) and not self.sight.coarse
        if first:
            top = fit_top(
                pool,
                self.sight.activation,
                width=None if hidden is None else hidden[1],
                accept=self.sight.accept,
                rng=self.sight.rng,
                max_vertices=self._most_vertices(len(layer.rows)),
                deadline=min(self.deadline, clock.now() + (GLANCE if crowded else VERTICES)),
                deeper=not two,
            )
        elif (hidden is None or two) and not self._wider(layer):
            top = fit_by_curvature(self.sight, layer, pool, self.deadline)
            if top.network is not None:
                return top, layer
            seconds = GLANCE if crowded else VERTICES * max(len(layer.rows) / MANY, 1.0) ** 3
            top = fit_wide(
                pool,
                self.sight.activation,
                width=None if hidden is None else hidden[1],
                accept=self.sight.accept,
                noise=self.sight.noise if self.sight.coarse else 0.0,
                rng=self.sight.rng,
                max_vertices=int(min(MOST_VERTICES, self.meter.ledger.left + len(layer.rows))),
                deadline=min(self.deadline, clock.now() + seconds),
            )
            first = True
        if top.network is not None:
            return top, layer
        if small and not self.sight.coarse:
            # a unit at whose crossing the answers turn back may have a row far off: then vertices have wrong signs
            layer, plateaus = sharpen_rows(self.sight, layer), len(pool.x) - sum(len(b) for b in bought)
            signs = np.where(np.concatenate(bought) @ layer.rows.T > 0, 1.0, -1.0)
            pool = Pool(np.concatenate([pool.x[:plateaus], signs]), pool.y, buy)
        return self._fit_above(layer, pool, top, first), layer

    def _fit_above(self, layer: FirstLayer, pool: Pool, top: Top, first: bool) -> Top:
        """Several layers on top, or a steep one, in turn; ``first``: on far vertices one layer ended with ``top``."""
        hidden, tried = self.problem.hidden, top.attempts
        two = hidden is not None and len(hidden) == 2
        peeling = Peeling(
            pool,
            self.sight.activation,
            hidden=None if hidden is None else hidden[1:],
            max_depth=self.problem.max_depth,
            noise=self.sight.noise,
            rng=self.sight.rng,
            shallow=not first,
        )
        middle, inside = Middle(self.sight, layer, hidden), Inside(self.sight, layer, self.problem)
        # three layers and more are found soon, or not soon, and so is a steep second layer
        small, crowded = len(layer.rows) <= SMALL, self._crowded(layer)
        gentler = small and not self.sight.coarse and not two
        rounds = [(0.0 if crowded else GLANCE, 1, 1.0), (PEELING, None, 0.5), (np.inf, 0, 0.0)]
        if not small:
            rounds = [(0.0 if self._wider(layer) else PEELING, None, MIDDLE_SHARE), rounds[-1]]
        for seconds, num_students, share in rounds:
            last = seconds == np.inf
            if crowded and gentler and seconds == PEELING and (hidden is None or len(hidden) == 3):
                top = fit_pair(
                    pool,
                    self.sight.activation,
                    accept=self.sight.accept,
                    rng=self.sight.rng,
                    max_vertices=int(min(MOST_VERTICES, self.meter.ledger.left + len(layer.rows))),
                    deadline=self.deadline,
                )
                tried += top.attempts
                if top.network is not None:
                    break
            if seconds and not (first and two) and not (last and gentler):
                late = clock.now() + (PEELING if gentler and not crowded else 0.0)
                top = peeling.go_on(min(clock.now() + seconds, self.deadline), min(late, self.deadline))
                tried += top.attempts
            few = not pool.can_grow and not self.sight.coarse
            if top.network is None and (few or (gentler and seconds)):
                more = np.inf if few else GENTLER * seconds
                late = clock.now() + (GENTLER * PEELING if gentler and not crowded else 0.0)
                top = inside.go_on(min(clock.now() + more, self.deadline), min(late, self.deadline))
                tried += top.attempts
            left = self.deadline - clock.now()
            if top.network is not None or left <= 0 or few:
                break
            if num_students != 0 and (hidden is None or two):
                top = middle.go_on(clock.now() + (1.0 if two else share) * left, num_students)
                tried += top.attempts
            if top.network is not None:
                break
        return replace(top, attempts=tried)

    def _crowded(self, layer: FirstLayer) -> bool:
        return max(CROWDED, self.meter.input_size) < len(layer.rows) <= SMALL

    def _wider(self, layer: FirstLayer) -> bool:
        """Whether one layer on top is best sought from nearer by at once."""
        return len(layer.rows) > max(SMALL, self.meter.input_size)

    def _most_vertices(self, num_units: int) -> int:
        """Enough for a second layer half as wide as the first; on the last circle, as wide."""
        widest = num_units + 1 if self.last else (num_units + 1) // 2 + 1
        return int(min(max(4 * widest * (num_units + 2), FEWEST), 60_000, self.meter.ledger.left + num_units))

    def fit_shallow(self, rows: np.ndarray) -> Finding:
        """One hidden layer around the rows that all circles have shown; or a student that comes near it."""
        network, rms = fit_one_layer(self.sight, rows, self.deadline)
        if network is None or rms > self.sight.accept:
            reason = (
                f"students around {len(rows)} rows that circles have shown explain near answers to {rms:.1e}"
            )
            near = rms < NEARLY  # others begin with less
            return Finding(None, f"{reason} only: units are too much alike", student=network, conclusive=near)
        return self._conclude_near(network, Top(network, rms, 0))

    def _conclude_near(self, network: Network, top: Top) -> Finding:
        """Coarse answers: the network that answers near the origin determine, from the one seen from afar."""
        network, rms = settle(network, self.meter, self.problem.precision, self.sight.rng, self.deadline)
        level = 30 * self.problem.precision.relative
        if rms > (max(1e-3, level) if len(network.hidden) > 1 else level):
            return Finding(None, f"the network seen from afar does not fit near the origin ({rms:.1e})")
        return self._finding(network, top, {"near": rms})

    def _conclude(self, network: Network, bend: float, top: Top) -> Finding:
        """Check against every answer already paid for."""
        x, y = self.meter.transcript()
        wrong = relative_errors(network, x, y) > max(1e-6, 100 * self.problem.precision.relative)
        if bend > 1e-2 or wrong.mean() > 0.01:
            return Finding(
                None,
                f"the recovered network misses {wrong.mean():.0%} of the answers (profile bend {bend:.1e}): "
                f"not a plain {self.sight.activation.name} network",
            )
        return self._finding(weighted_polish(network, x, y, self.sight.noise), top, {"bend": bend})

    def _finding(self, network: Network, top: Top, details: dict) -> Finding:
        """Sigmoid is written where it was asked for."""
        if self.problem.activations[0] == "sigmoid":
            network = network.as_sigmoid()
        return Finding(
            network,
            alternatives={f"{self.sight.activation.name} vertices": top.rms},
            details={**details, "attempts": list(top.attempts)},
        )
