"""Corners: one hidden layer of saturating units in a box, most of them saturated at most of its points.

Recovers ``f(x) = V phi(W x + b) + c`` with several outputs and at most as many units as inputs from derivatives at
places on the way to corners of the box: their span (``explore``), the rows in it (``separate``), slope and shift of
every unit on the chord between the two corners it points to (``profiles``). Networks trained on inputs that are mostly
zero (encodings, boards, pixels) have units whose planes pass far from the middle of the box: no ordinary point shows
them, so no fit to ordinary points finds them. Rows found lead to corners that show further units. Least squares on
points where each unit switches give the last digits. Answers exact to rounding, float64 or float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core import activations as act
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import SATURATING, Finding, Problem, Serves, Traits
from unweave.methods.corners.explore import LOUD, Span, draw_place, explore, hunt
from unweave.methods.corners.profiles import read_profile
from unweave.methods.corners.separate import separate_rows
from unweave.methods.corners.view import Cube
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_collapsed, spread_of
from unweave.solve.layout import Layout

LEAST_INPUTS = 30
"""With fewer, students of ordinary points reach every unit."""
FAR = 1e4
"""Domains that reach so far are looked at from afar."""
ROUNDS = 5
"""Of rows and further exploring."""
PLACES = 3
"""Places of the tensor for each direction, beside a few."""
FLOOR = 1e-5
"""Least relative singular value of the tensor that is a term of it."""
MISFIT = 0.1
"""Root mean square error of the logarithm of a profile from which on it is none of a unit."""
POINTS = 1.4
"""Points in the final fit for every weight of a row."""
OTHERS = 6
"""Answers given before that join the fit for each one that is not explained."""
REACH = 2.0
"""Arguments of a unit at the points that show its row."""
FITTED = 1e-9
"""Relative residual of the final fit from which on something is missing, unless the answers are coarser."""
STRANGE = 8.0
"""Multiple of the median residual from which on a point shows a unit that is not found yet."""
LITTLE = 1e-3
"""What is left without a unit, from which on it may be one too many."""
STEPS = Settings(max_steps=80, damping=1e-4, stall_steps=0, patience=3)

FEW = 50
"""Ordinary places in succession that show nothing new, after which corners are looked at."""
ORDINARY = "every unit that shows near corners shows at ordinary points, too"
UNEXPLAINED = "units that show near corners only: some answers there are not those of the network found"
UNSEEN = "units that show near corners only: rounding hides the tails by which all would be seen from afar"
NO_ROWS = "derivatives at corners have no common rows: more units than inputs, or several layers"
NO_UNITS = "what was found along rows at corners does not switch as saturating units do"


class Corners:
    """See the module's docstring."""

    serves: Serves

    name = "corners"
    serves = Serves(Evidence.QUERIES, SATURATING)

    def suits(self, traits: Traits) -> str | None:
        bounded = traits.reach < FAR
        sharp = traits.exact or traits.single
        if not (bounded and sharp and traits.input_size >= LEAST_INPUTS and traits.output_size > 1):
            return None
        if not traits.candidates(self.serves):
            return None
        return f"{traits.why_smooth()}; units that switch near corners only would show there"

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The network, or why derivatives at corners did not give it."""
        if not isinstance(meter.domain, Box):
            return Finding(None, "corners are those of a box; use method='in-domain'")
        if meter.output_size < 2 or (problem.hidden is not None and len(problem.hidden) > 1):
            return Finding(
                None, "corners serve one hidden layer with several outputs; use method='in-domain'"
            )
        return _Run(Cube.over(meter, meter.domain, problem.precision), problem).recover()


@dataclass(frozen=True)
class Units:
    """Rows (m, d) of the cube with their lengths, shifts, and how badly profiles fit."""

    rows: np.ndarray
    shifts: np.ndarray
    misfit: float


@dataclass
class _Run:
    cube: Cube
    problem: Problem

    def __post_init__(self) -> None:
        size = self.cube.size
        self.rounding: float = self.cube.noise
        self.rng: np.random.Generator = self.problem.rng("corners")
        self.seen: Span = Span(np.zeros((0, size)), np.zeros((0, size)))
        self.points: np.ndarray = np.zeros((0, size))
        self.answers: np.ndarray = np.zeros((0, self.cube.meter.output_size))

    def recover(self) -> Finding:
        """Units that show beyond those known, until none does."""
        activations, misfits, rms = self.problem.activations, {}, np.inf
        undetermined = (UNEXPLAINED,)
        if self._is_ordinary():
            return Finding(None, f"{ORDINARY}; use method='in-domain'")
        for _ in range(ROUNDS):
            rows = self._find_rows()
            if rows is None and self.cube.known is None:
                return Finding(None, f"{NO_ROWS}; use method='in-domain'")
            if rows is not None and not len(rows):
                undetermined = (UNSEEN,) if self.cube.rounded else ()
                break
            units = {} if rows is None else {name: self._read_units(rows, name) for name in activations}
            misfits = misfits or {name: found.misfit for name, found in units.items()}
            leading = min(units, key=lambda name: units[name].misfit, default="")
            if leading and len(units[leading].rows):
                activations = (leading,)
                rms = self._add(units[leading], leading)
            elif self.cube.known is not None:
                rms = self._learn(self.cube.known)
        network = self.cube.known
        if network is None:
            return Finding(None, f"{NO_UNITS}; use method='in-domain'", alternatives=misfits)
        network = self._outside(network)
        if rms > max(FITTED, 5 * self.rounding):
            reason = (
                f"the fit of all parameters of {network.hidden[0]} units stopped at a residual of {rms:.1e}"
            )
            return Finding(None, f"{reason}; use method='in-domain'", alternatives=misfits, student=network)
        return Finding(network, undetermined=undetermined, alternatives=misfits)

    def _is_ordinary(self) -> bool:
        """Whether corners move the answers in no direction that ordinary points do not."""
        cube, nothing = self.cube, np.zeros((0, self.cube.size))
        with cube.meter.stage("corners"):
            inside = explore(
                cube,
                self.rng,
                Span(nothing, nothing),
                nothing,
                most=cube.size - 1,
                inside=1.0,
                quiet_after=FEW,
            )
            self.seen = explore(cube, self.rng, inside, nothing, most=cube.size - 1)
        return len(self.seen.basis) == len(inside.basis)

    def _find_rows(self) -> np.ndarray | None:
        """Unit rows (m, d) of the cube, none where nothing moves; None where there are too many, or no common ones."""
        cube, size = self.cube, self.cube.size
        hints = np.zeros((0, size)) if cube.known is None else cube.known.weights[0]
        hints = hints / np.linalg.norm(hints, axis=1, keepdims=True)
        span, rows, strange = Span(np.zeros((0, size)), hints), None, np.zeros((0, size))
        if cube.known is not None:
            with cube.meter.stage("corners"):
                strange, errs = hunt(cube, self.rng, hints)
            if not len(strange):
                return None if errs else strange
        else:
            span = self.seen
        for _ in range(ROUNDS):
            with cube.meter.stage("corners"):
                seen = explore(cube, self.rng, span, strange, most=size - 1)
            if len(seen.basis) >= size:
                return None
            if len(seen.basis) == (0 if rows is None else len(rows)):
                break
            found = self._separate(seen)
            if found is None:
                return rows
            rows = found
            span = Span(np.linalg.qr(rows.T)[0].T, np.vstack([hints, rows]), seen.steepest, seen.places)
        return np.zeros((0, size)) if rows is None else rows

    def _separate(self, span: Span) -> np.ndarray | None:
        """Unit rows (m, d) in the span, from derivatives at its places and others; None without common ones."""
        cube = self.cube
        if len(span.basis) == 1:
            return span.basis
        count = PLACES * len(span.basis) + 20
        drawn = [draw_place(cube.size, span.hints, self.rng) for _ in range(count)]
        with cube.meter.stage("rows"):
            tensor = cube.slopes(np.array([*span.places, *drawn]), span.basis)
        floor = LOUD * cube.rounding(len(span.basis))
        tensor = tensor[np.linalg.norm(tensor, axis=(1, 2)) > floor]
        if len(tensor) <= len(span.basis):
            return None
        rows = separate_rows(tensor, max(FLOOR, floor / span.steepest), self.rng)
        return None if rows is None else rows @ span.basis

    def _read_units(self, rows: np.ndarray, activation: str) -> Units:
        """Rows with their lengths, and shifts, of those that switch in the box as units do."""
        duals = np.linalg.pinv(rows).T
        with self.cube.meter.stage("profiles"):
            profiles = [read_profile(self.cube, *pair, activation) for pair in zip(rows, duals, strict=True)]
        shown = [
            (row, p) for row, p in zip(rows, profiles, strict=True) if p is not None and p.misfit < MISFIT
        ]
        if not shown:
            return Units(rows[:0], np.zeros(0), np.inf)
        misfit = float(np.sqrt(np.mean([p.misfit**2 for _, p in shown])))
        return Units(
            np.array([p.slope * row for row, p in shown]), np.array([p.shift for _, p in shown]), misfit
        )

    def _add(self, units: Units, activation: str) -> float:
        """Fit the network known with further units to points at which one or another switches; its residual."""
        cube = self.cube
        count = int(POINTS * (cube.size + 1)) + 5
        aimed = [self._aim(row, shift, count) for row, shift in zip(units.rows, units.shifts, strict=True)]
        points = np.concatenate([*aimed, self.rng.uniform(-1, 1, (count, cube.size))])
        with cube.meter.stage("points that switch units"):
            answers = cube.answer(points)
        self.points, self.answers = np.vstack([self.points, points]), np.vstack([self.answers, answers])
        rows, shifts = units.rows, units.shifts
        if cube.known is not None:
            rows, shifts = np.vstack([cube.known.weights[0], rows]), np.append(cube.known.biases[0], shifts)
        rms = self._fit(rows, shifts, activation)
        known, noise = cube.known, cube.noise
        assert known is not None
        needed = self._needed()
        if not np.all(needed):
            fewer = self._fit(known.weights[0][needed], known.biases[0][needed], activation)
            if fewer > 2 * max(rms, self.rounding):
                cube.known, cube.noise = known, noise
            else:
                rms = fewer
        return rms

    def _learn(self, known: Network) -> float:
        """Fit the network known again, with answers given before: those that are not its own, and others; its residual.

        What is left at corners hangs on combinations of weights that points in the middle hardly tell.
        """
        few = int(POINTS * self.cube.size)
        strange, others = self.cube.strange_answers(few), self.cube.some_answers(OTHERS * few, self.rng)
        for points, answers in (strange, others):
            self.points, self.answers = np.vstack([self.points, points]), np.vstack([self.answers, answers])
        return self._fit(known.weights[0], known.biases[0], known.activations[0])

    def _fit(self, rows: np.ndarray, shifts: np.ndarray, activation: str) -> float:
        """Least squares on all points from these units, which are then known; the relative residual."""
        cube, steps = (
            self.cube,
            replace(STEPS, target=(3.0 if self.problem.precision.kind == "float64" else 0.3) * self.rounding),
        )
        top = self._best_top(act.get(activation)(self.points @ rows.T + shifts))[0]
        network = Network([rows, top[:, :-1]], [shifts, top[:, -1]], [activation, "identity"])
        layout, theta = Layout.of(network), network.flat()
        kept, rest = np.ones(len(self.points), dtype=bool), np.zeros(0)
        for _ in range(2):  # once more without points at which units not found yet show
            found = fit_collapsed(layout, theta, self.points[kept], self.answers[kept], settings=steps)
            theta, cube.known = found.parameters, layout.network(found.parameters)
            rest = np.max(np.abs(self.answers - cube.known(self.points)), axis=1)
            kept = rest <= max(STRANGE * float(np.median(rest)), 5 * self.rounding)
            if np.all(kept):
                break
        cube.noise = max(self.rounding, float(np.sqrt(np.mean(rest[kept] ** 2))))
        return float(np.sqrt(np.mean(rest**2))) / spread_of(self.answers)

    def _best_top(self, features: np.ndarray) -> tuple[np.ndarray, float]:
        """Outgoing weights with their shifts, and the root mean square of what they leave."""
        design = np.hstack([features, np.ones((len(features), 1))])
        top = np.linalg.lstsq(design, self.answers, rcond=1e-12)[0]
        return top.T, float(np.sqrt(np.mean((design @ top - self.answers) ** 2)))

    def _needed(self) -> np.ndarray:
        """Which units known explain something, unlike rows that rounding or two units together showed."""
        known = self.cube.known
        assert known is not None
        features = act.get(known.activations[0])(self.points @ known.weights[0].T + known.biases[0])
        needed = np.ones(len(known.biases[0]), dtype=bool)
        for unit in range(len(needed)):
            needed[unit] = False
            needed[unit] = self._best_top(features[:, needed])[1] > LITTLE
        return needed

    def _aim(self, row: np.ndarray, shift: float, count: int) -> np.ndarray:
        """Points of the cube at which ``row u + shift`` is within ``REACH``, or as near as the cube comes to that.

        Points all over the cube move towards the corner that raises or lowers the argument, as far as it takes.
        """
        start = self.rng.uniform(-1, 1, (count, len(row)))
        start = np.where(self.rng.uniform(size=(count, 1)) < 0.5, start, np.sign(start))
        wanted = self.rng.uniform(-REACH, REACH, count)
        here = start @ row + shift
        corner = np.sign(wanted - here)[:, None] * np.sign(row)
        there = np.sum(corner * row, axis=1) + shift
        share = np.clip((wanted - here) / np.where(there == here, 1.0, there - here), 0.0, 1.0)
        return start + share[:, None] * (corner - start)

    def _outside(self, network: Network) -> Network:
        """A network of the cube in inputs and outputs of the model."""
        cube = self.cube
        first = network.weights[0] / cube.half
        return Network(
            [first, cube.scale * network.weights[1]],
            [network.biases[0] - first @ cube.middle, cube.scale * network.biases[1]],
            network.activations,
        )
