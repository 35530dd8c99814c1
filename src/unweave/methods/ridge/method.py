"""Ridge functions: a single neuron ``f(x) = c phi(w.x + b) + c0``, dense or sparse, in very many inputs.

Along any line the function is one unit of one variable, so (1) some thirty answers on a random line give
the activation, its shift and the outgoing weights (``probes.profile``), or say that this is no ridge
function; (2) with the profile known every further answer is *exactly* one linear measurement of w: ``w.g =
(z - z0)/h`` from ``f(x0 + h g)``. One measurement a coordinate gives a dense w (d + O(1) questions in all);
k non-zeros among d follow from O(k log d) random directions by orthogonal matching pursuit
(``algebra.sparse``; Tropp and Gilbert 2007; Cohen, Daubechies, DeVore, Kerkyacharian and Picard 2012 for
ridge functions), as many as it takes until held-out directions are predicted. (3) Least squares on all
answers polishes what was found.

Assumes one unit, answers of a smooth or piecewise linear activation, and a line on which the unit is
active. The sign of (w, b) is a symmetry for tanh, sigmoid and erf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.sparse import SparseVector, recover_sparse
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import PIECEWISE_LINEAR, RELU_LIKE, SATURATING, Finding, Problem, Serves, Traits
from unweave.probes.profile import Profile, fit_profile
from unweave.solve.polish import polish

MANY_INPUTS = 500
"""From this many inputs on a single unit is looked for first."""
MOST_POLISHED = 250
"""Units with more weights than this are left as measured: they are exact to rounding already."""
INACTIVE = "the answers do not change on a line: the unit is inactive there; widen the domain"


@dataclass(frozen=True)
class RidgeOptions:
    """How many lines to try and how many random directions to ask."""

    num_lines: int = 4
    first_directions: int = 48
    growth: float = 1.25
    num_held_out: int = 6
    dense_fraction: float = 0.25
    """Random directions give way to one question a coordinate when they would exceed this fraction of d ...
    """
    most_directions: int = 1500
    """... or this number."""


class Ridge:
    """See the module's docstring."""

    serves: Serves
    options: RidgeOptions

    name = "ridge"
    serves = Serves(Evidence.QUERIES, (*SATURATING, *RELU_LIKE, *PIECEWISE_LINEAR))

    def __init__(self, options: RidgeOptions | None = None):
        self.options = RidgeOptions() if options is None else options

    def suits(self, traits: Traits) -> str | None:
        if traits.input_size < MANY_INPUTS or not traits.candidates(self.serves):
            return None
        return f"{traits.input_size:,} inputs: a single unit would show after a few dozen queries"

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The unit, or the reason why the answers are not those of a single one."""
        rng = problem.rng("ridge")
        for _ in range(self.options.num_lines):
            seen = _profile_on_a_line(meter, problem, rng)
            if seen is not None:
                break
        else:
            return Finding(None, INACTIVE)
        line, residuals = seen.line, seen.residuals
        if line is None:
            return Finding(None, seen.refusal, alternatives=residuals)
        weights, num_directions = _Weights(meter, problem, line, rng, self.options).measure()
        network = _assemble(line, weights)
        network = _polish(network, meter, problem.precision.noise)
        details = {"num_directions": num_directions, "num_nonzero": int(np.sum(weights != 0))}
        return Finding(network, alternatives=residuals, details=details)


@dataclass(frozen=True)
class _Line:
    """A profile through ``base`` along ``direction``, where the unit is most sensitive."""

    base: np.ndarray
    argument: float
    profile: Profile
    size: float
    """An estimate of |w|, from one random direction."""


@dataclass(frozen=True)
class _Seen:
    """What a line shows: the unit along it, or why the function is no single unit."""

    line: _Line | None
    residuals: dict[str, float]
    refusal: str = ""


def _profile_on_a_line(meter: Meter, problem: Problem, rng) -> _Seen | None:
    """Answers at dyadic distances on a random line, then a fit by each candidate activation; None: inactive there."""
    start, direction, reach = _random_line(meter, rng)
    tolerance = max(1e-10, 30 * problem.precision.relative)
    noise = max(problem.precision.noise, 1e-15 * problem.precision.scale)
    with meter.stage("profile"):
        scales = reach * 2.0 ** -np.arange(
            0.0, 14.0 if np.isinf(meter.domain.reach(meter.input_size)) else 8.0
        )
        t = np.concatenate([[0.0], scales, -scales])
        y = meter.ask(start + t[:, None] * direction)
        t, y = _refine_line(meter, start, direction, t, y)
    if np.max(np.abs(y - y[0])) <= 100 * noise:
        return None
    names = (
        problem.activations if len(problem.activations) == 1 else (*problem.activations, *PIECEWISE_LINEAR)
    )
    fits = [fit for name in dict.fromkeys(names) if (fit := fit_profile(t, y, name)) is not None]
    residuals = {fit.activation: fit.rms for fit in fits}
    if not fits:
        return _Seen(None, residuals, "not a ridge function of these activations: no unit fits along a line")
    best = min(fits, key=lambda fit: fit.rms)
    local = float(np.max(np.abs(y - y.mean(axis=0))))
    if best.rms * local > tolerance * max(problem.precision.scale, local):
        return _Seen(
            None,
            residuals,
            f"not a ridge function: along a line one unit leaves a relative residual of {best.rms:.1e}; "
            "use method='in-domain'",
        )
    best_t = _most_sensitive(best, t[np.abs(t) <= 0.6 * reach])
    base = meter.snap((start + best_t * direction)[None])[0]
    norm = float(np.linalg.norm(direction))
    size = abs(best.slope) * np.sqrt(meter.input_size) / norm  # |w.g| of a direction g of random signs
    return _Seen(_Line(base, best.slope * best_t + best.shift, best, size), residuals)


def _random_line(meter: Meter, rng) -> tuple[np.ndarray, np.ndarray, float]:
    """A start inside the domain, a random direction of typical length sqrt(d), and how far it may be followed."""
    d = meter.input_size
    direction = rng.choice([-1.0, 1.0], size=d)
    if np.isinf(meter.domain.reach(d)):
        return np.round(256 * rng.standard_normal(d)) / 256 * 0.5, direction, 64.0
    cloud = meter.domain.sample(32, d, rng)
    middle = cloud.mean(axis=0)
    direction = direction * cloud.std(axis=0)
    start, reach = middle + 0.3 * (cloud[0] - middle), 4.0
    for _ in range(40):
        ends = start + np.array([[-reach], [reach]]) * direction
        if np.all(meter.domain.contains(ends)):
            break
        reach *= 0.8
    return start, direction, reach


def _refine_line(meter: Meter, start, direction, t, y) -> tuple[np.ndarray, np.ndarray]:
    """A few more points where the answers change most between neighbours."""
    for _ in range(2):
        order = np.argsort(t)
        t, y = t[order], y[order]
        jumps = np.linalg.norm(np.diff(y, axis=0), axis=1)
        widest = np.argsort(-jumps)[:4]
        more = (t[widest] + t[widest + 1]) / 2
        t = np.concatenate([t, more])
        y = np.concatenate([y, meter.ask(start + more[:, None] * direction)])
    return t, y


def _most_sensitive(profile: Profile, t: np.ndarray) -> float:
    """Among the points asked, where the derivative of the unit is largest (and, for relu, well inside)."""
    phi = act.get(profile.activation)
    z = profile.argument(t)
    if phi.smooth:
        return float(t[int(np.argmax(np.abs(phi.first(z, np)) - 1e-3 * np.abs(z)))])
    active = np.flatnonzero(z > 0)
    return float(t[active[np.argsort(z[active])[len(active) // 2]]]) if len(active) else 0.0


@dataclass(frozen=True)
class _Weights:
    """Linear measurements of w through the known profile, sparse first, dense where that is cheaper."""

    meter: Meter
    problem: Problem
    line: _Line
    rng: np.random.Generator
    options: RidgeOptions

    def measure(self) -> tuple[np.ndarray, int]:
        d = self.meter.input_size
        accuracy = max(1e-9, 1e4 * self.problem.precision.relative)
        directions, values = np.zeros((0, d)), np.zeros(0)
        count = float(self.options.first_directions)
        with self.meter.stage("directions"):
            while count < min(self.options.dense_fraction * d, self.options.most_directions):
                fresh = self.rng.choice([-1.0, 1.0], size=(int(count) - len(values), d))
                directions = np.concatenate([directions, fresh])
                values = np.concatenate([values, self._along(fresh)])
                found = self._sparse(directions, values, accuracy)
                if found is not None:
                    return found.dense(d), len(values)
                count *= self.options.growth
        with self.meter.stage("gradient"):
            return self._along(np.eye(d)), len(values) + d

    def _sparse(self, directions, values, accuracy: float) -> SparseVector | None:
        """A sparse vector that predicts the held-out measurements, or None."""
        kept = len(values) - self.options.num_held_out
        tolerance = max(1e-12, 0.1 * accuracy)
        found = recover_sparse(directions[:kept], values[:kept], tolerance=tolerance, max_support=kept // 4)
        if found.residual > accuracy:
            return None
        predicted = directions[kept:][:, found.support] @ found.values
        scale = float(np.sqrt(np.mean(values**2)))
        return found if np.max(np.abs(predicted - values[kept:])) <= 100 * accuracy * scale else None

    def _along(self, directions: np.ndarray) -> np.ndarray:
        """``w.g`` for each row g: one question each, read through the inverse of the profile."""
        line = self.line
        smooth = act.get(line.profile.activation).smooth
        longest = 0.2 * (1.0 if smooth else min(abs(line.argument), 1.0))
        # |w.g| is about |w| for random signs g; for a coordinate it may be all of |w|
        change = line.size if smooth or len(directions) < directions.shape[1] else 4 * line.size
        steps = np.full(len(directions), 2.0 ** np.floor(np.log2(longest / max(change, 1e-300))))
        for _ in range(60):
            outside = ~self.meter.domain.contains(line.base + steps[:, None] * directions)
            if not outside.any():
                break
            steps[outside] /= 2
        points = self.meter.snap(line.base + steps[:, None] * directions)
        z = line.profile.invert(self.meter.ask(points), np.full(len(points), line.argument))
        return (z - line.argument) / steps


def _assemble(line: _Line, weights: np.ndarray) -> Network:
    profile = line.profile
    bias = line.argument - float(weights @ line.base)
    return Network(
        [weights[None], profile.outgoing[:, None]],
        [np.array([bias]), profile.offset],
        [profile.activation, "identity"],
    )


def _polish(network: Network, meter: Meter, noise: float) -> Network:
    """Least squares on every answer so far, over the non-zero weights."""
    weights = network.weights[0][0]
    support = np.flatnonzero(weights)
    x, y = meter.transcript("profile", "directions", "gradient")
    if len(support) > MOST_POLISHED or len(support) + 3 > y.size:
        return network
    small = Network([weights[None, support], network.weights[1]], network.biases, network.activations)
    before = float(np.sum((small(x[:, support]) - y) ** 2))
    better = polish(small, x[:, support], y, noise=noise).network
    if not float(np.sum((better(x[:, support]) - y) ** 2)) < before:
        return network
    full = np.zeros((1, network.input_size))
    full[0, support] = better.weights[0][0]
    return Network([full, better.weights[1]], better.biases, network.activations)
