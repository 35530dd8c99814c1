"""Hessian span: smooth networks with one or two hidden layers from second derivatives (Fornasier, Klock and
Rauchensteiner 2019, "Robust and resource efficient identification of two hidden layer neural networks").

1. *Active subspace* (Algorithm 1): when the gradients span fewer directions than there are inputs,
   everything below happens in those directions only.
2. *Span of Hessians* (Algorithm 2). One hidden layer: Hessians at scattered points lie in the span of ``a_i
   a_i'`` exactly, and its dimension, read off the spectrum, is the width, be it smaller or larger than the
   number of inputs (Theorem 2 by whitening, Remark 2 otherwise).
3. *Rank-one elements* (Algorithm 3): the weights, by whitening for m <= d, by the subspace power method
   otherwise.
4. *Two hidden layers*: the spans around several base points have only the first layer in common; with it
   known, the second layer is the off-diagonal part of the transformed Hessians (``span_layers``).
5. *The rest* by Levenberg-Marquardt (``span_shallow``, ``span_layers``), then on all
   parameters.

Assumes a smooth activation, answers exact enough for second differences (relative noise below about 1e-8),
no two parallel rows, and for two hidden layers m1 <= m0 <= d with independent first-layer rows.
The figures of each stage, with the a posteriori checks, are in ``Finding.details``. The paper's own settings are
``experiments.two_layer_stated``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.algebra.a_posteriori import check_components
from unweave.algebra.matrix_span import MatrixSpan, common_span, estimate_span
from unweave.algebra.rank_one import find_components, polish_components
from unweave.algebra.whitening import whitened_components
from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import RELU_LIKE, SATURATING, Finding, Problem, Serves, Traits
from unweave.methods.hessian.probe import FLAT, HessianProbe, smooth_activations
from unweave.methods.hessian.span_layers import (
    Deparametrised,
    SecondLayer,
    complete_directions,
    find_second_layer,
    independent_directions,
)
from unweave.methods.hessian.span_shallow import ShallowFit, curvature_coefficients, fit_shallow, fit_units
from unweave.probes.derivatives import Scheme
from unweave.solve.descend import Settings
from unweave.solve.fit import Fit, fit_network
from unweave.solve.polish import polish

MOST_INPUTS = 64
"""Hessians in more directions than this are not asked for: each costs the square of it."""


@dataclass(frozen=True)
class SpanOptions:
    """Every number of the method. Lengths are in units of the length over which the network bends."""

    scheme: Scheme | None = None
    """None: central differences of exact answers, Richardson's of others."""
    radius: float = 3.0
    """Spread of the base points of a network with two hidden layers where the domain has no end."""
    local: float = 0.03
    """Spread of the Hessians around one base point."""
    num_bases: int = 10
    most_scattered: float = 4.5
    """Hessians at scattered points per active direction before a second hidden layer is assumed."""
    num_rounds: int = 5
    """How often base points are added when the first layer is incomplete or the fit fails."""
    num_attempts: int = 6
    """Starts of the fit of all parameters: three slopes, then random second layers."""
    samples_per_parameter: float = 4.0
    time_limit: float = 180.0
    """Seconds after which no further start or round begins."""


class HessianSpan:
    """See the module's docstring."""

    serves: Serves
    options: SpanOptions

    name = "hessian-span"
    serves = Serves(Evidence.QUERIES, (*SATURATING, *RELU_LIKE))

    def __init__(self, options: SpanOptions | None = None) -> None:
        self.options = SpanOptions() if options is None else options

    def suits(self, traits: Traits) -> str | None:
        """Never of itself: other methods take fewer queries."""
        return None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The network, or the stage at which the spans did not give it, with the spectra in ``details``."""
        smooth = smooth_activations(problem)
        if not smooth:
            return Finding(None, FLAT)
        if problem.precision.relative > 1e-6:
            return Finding(None, "the answers are too noisy for second differences; use method='in-domain'")
        return _Run(meter, problem, smooth, options=self.options).recover()


@dataclass
class _Run(HessianProbe):
    options: SpanOptions = field(default_factory=SpanOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scheme = self.options.scheme
        self.deadline = clock.now() + self.problem.within(self.options.time_limit)

    def recover(self) -> Finding:
        self.measure_length()
        basis = self.active_directions()
        if basis.shape[1] == 1:
            return self._nothing("the answers vary in one direction only; use method='ridge'")
        if basis.shape[1] > MOST_INPUTS:
            return self._nothing(f"{basis.shape[1]} active directions are too many for Hessians")
        hidden = self.problem.hidden
        if hidden is None or len(hidden) == 1:
            finding = self._one_layer(basis)
            if finding is not None:
                return finding
        if hidden is not None and len(hidden) != 2:
            return self._nothing("the Hessians do not lie in a span of as many squares as units were given")
        return self._two_layers(basis)

    def _one_layer(self, basis: np.ndarray) -> Finding | None:
        """The shallow network, or None when the Hessians at scattered points have no gap in their spectrum."""
        directions = basis.shape[1]
        widest = directions * (directions + 1) // 2
        hidden = self.problem.hidden
        floor = 10 * self.differences(directions).error(2, self.problem.precision, self.length)
        most = min(widest + 2, int(self.options.most_scattered * directions) + 10)
        most = most if hidden is None else hidden[0] + 6
        points, hessians = (
            np.zeros((0, self.size)),
            np.zeros((0, self.meter.output_size, directions, directions)),
        )
        count = min(8, most)
        while True:
            fresh = self.points(count - len(points), self.unit)
            points = np.concatenate([points, fresh])
            hessians = np.concatenate([hessians, self.hessians(fresh, basis)])
            matrices = hessians.reshape(-1, directions, directions)
            span = estimate_span(matrices, floor=floor, least_gap=self.least_gap(floor), gram=False)
            settled = span.dimension < min(len(matrices), widest) - 1
            if settled or count >= most:
                break
            count = min(int(1.5 * count) + 1, most)
        self.keep("hessian_spectrum", span.spectrum, span.dimension)
        # beyond d(d-1)/2 squares (one more for d <= 3) a span contains other rank-one matrices as well
        if span.dimension >= len(matrices) or span.dimension > widest - directions + (directions <= 3):
            return None
        if hidden is not None and span.dimension != hidden[0]:
            span = estimate_span(matrices, dimension=hidden[0], gram=False)
        vectors = self._components(span, floor)
        if len(vectors) != span.dimension:
            return None
        self.details["checks"] = check_components(span, vectors).to_dict()
        return self._finish_shallow(points, hessians, vectors, basis)

    def _components(self, span: MatrixSpan, floor: float) -> np.ndarray:
        """All rank-one elements of a span known to about ``floor``, as unit vectors."""
        vectors = whitened_components(span, self.rng)
        if vectors is not None:
            vectors = polish_components(span, vectors)
            if np.max(span.distances(vectors)) < np.clip(30 * floor, 1e-3, 0.2):
                return vectors
        least = 1 - float(np.clip((30 * floor) ** 2, 1e-6, 0.02))
        found = find_components(span, self.rng, accept=least)
        return found.vectors[found.values >= least]

    def _finish_shallow(self, points, hessians, vectors, basis) -> Finding:
        """Slopes and shifts from curvatures, then all parameters; the activation by its residual."""
        curvatures = curvature_coefficients(hessians, vectors)
        rows = vectors @ basis.T
        arguments = points @ rows.T
        few = np.argsort(-np.sum(curvatures**2, axis=(0, 1)))[:6]
        rough = {
            a: fit_units(arguments[:, few], curvatures[:, :, few], act.get(a))[2] for a in self.activations
        }
        leading = sorted(rough, key=lambda a: rough[a])[:2]
        guesses = {name: fit_units(arguments, curvatures, act.get(name)) for name in leading}
        alternatives = {**rough, **{name: guess[2] for name, guess in guesses.items()}}
        x, y = self._samples(
            Network([rows, np.ones((self.meter.output_size, len(rows)))], [None, None], ["tanh", "identity"])
        )
        best: ShallowFit | None = None
        for name in sorted(guesses, key=lambda n: guesses[n][2]):
            slopes, shifts, _ = guesses[name]
            fit = fit_shallow(x, y, slopes[:, None] * rows, shifts, name, noise=self.problem.precision.noise)
            if best is None or (fit.network is not None, -fit.rms) > (best.network is not None, -best.rms):
                best = fit
            if best.network is not None:
                break
        assert best is not None
        self.details["rows"] = rows
        if best.network is None:
            return self._nothing(
                f"{len(rows)} directions were found but no activation fits them (residual {best.rms:.1e})",
                alternatives,
            )
        return Finding(
            best.network, undetermined=best.undetermined, alternatives=alternatives, details=self.details
        )

    def _samples(self, network: Network) -> tuple[np.ndarray, np.ndarray]:
        """Fresh answers for a fit of all parameters of such a network."""
        count = self.options.samples_per_parameter * network.num_parameters / self.meter.output_size
        x = np.concatenate([self.points(int(count) // 2 + 10, s * self.unit) for s in (1.0, 2.0)])
        with self.meter.stage("reconstruction"):
            return self.meter.snap(x), self.meter.ask(x)

    def _two_layers(self, basis: np.ndarray) -> Finding:
        """First layer from what local spans have in common, second layer from what is off the diagonal then."""
        if self.meter.output_size != 1:
            return self._nothing("two hidden layers are served for one output; use method='in-domain'")
        if self.problem.precision.relative > 1e-10:
            return self._nothing("two hidden layers need exact answers; use method='in-domain'")
        width = basis.shape[1]
        spans: list[MatrixSpan] = []
        near: np.ndarray | None = None
        finding = self._nothing("no base points")
        for turn in range(self.options.num_rounds):
            if turn and clock.now() > self.deadline:
                break
            first = self._first_layer(basis, spans)
            num_found, first = len(first), complete_directions(first)
            self.details["first_layer"] = first @ basis.T
            if num_found < 0.75 * width:
                reason = f"{num_found} of {width} first-layer directions were found in the common span"
                finding = self._nothing(f"{reason}; use method='in-domain'")
                continue
            if near is None:
                near = self._local_hessians(self.points(1, 0.0)[0], basis, 0.15, 3 * width)[:, 0]
            hidden = self.problem.hidden
            num_second = None if hidden is None else hidden[1]
            second = find_second_layer(near, first, self.rng, width=num_second, floor=1e-3)
            self.keep("second_spectrum", second.spectrum, second.width)
            self.details["second_layer"] = second.vectors
            finding = self._reconstruct(first @ basis.T, second)
            if finding.network is not None:
                break
        return finding

    def _first_layer(self, basis: np.ndarray, spans: list[MatrixSpan]) -> np.ndarray:
        """Directions (m0, k) common to the spans around base points, m0 = k; a round of spans is added."""
        width = basis.shape[1]
        hidden = self.problem.hidden
        extra = max(width // 4, 2) if hidden is None else hidden[1]
        for base in self.points(self.options.num_bases, self.options.radius * self.unit):
            local = self._local_hessians(base, basis, self.options.local, width + extra + 4)
            matrices = local.reshape(-1, width, width)
            spans.append(estimate_span(matrices, dimension=width + extra, gram=False))
        common = common_span(spans, width)
        self.keep("common_spectrum", common.spectrum, common.dimension)
        self.details["common_basis"] = common.basis
        found = find_components(common, self.rng, exact=False, max_rounds=6)
        self.details["checks"] = check_components(common, found.top(width).vectors).to_dict()
        return independent_directions(found.vectors, width)

    def _local_hessians(self, base: np.ndarray, basis: np.ndarray, spread: float, count: int) -> np.ndarray:
        offsets = spread * self.unit * self.rng.standard_normal((count, self.size))
        return self.hessians(base + offsets @ basis @ basis.T, basis)

    def _reconstruct(self, rows: np.ndarray, second: SecondLayer) -> Finding:
        """All parameters from the directions of both layers, at the least width of the second that fits."""
        hidden = self.problem.hidden
        widths = [second.width] if hidden is not None else [second.width + k for k in (-1, 0, 1)]
        alternatives: dict[str, float] = {}
        for width in widths:
            if width < 1:
                continue
            names = ["tanh", "tanh", "identity"]
            shape = Network([rows, np.ones((width, len(rows))), np.ones((1, width))], [None] * 3, names)
            x, y = self._samples(shape)
            fit = self._fit_all(rows, second.vectors, width, x, y, alternatives)
            if fit.rms <= max(1e-8, 30 * self.problem.precision.relative):
                polished = polish(fit.network, x, y, noise=self.problem.precision.noise)
                spare = ("layer 2: a unit could be removed",) if polished.null_directions.shape[1] else ()
                return Finding(
                    polished.network, undetermined=spare, alternatives=alternatives, details=self.details
                )
        best = min(alternatives.values())
        reason = f"both layers were read but the fit of all parameters stopped at {best:.1e}"
        return self._nothing(f"{reason}; use method='in-domain'", alternatives)

    def _fit_all(self, rows, profiles, width: int, x, y, alternatives: dict[str, float]) -> Fit:
        """The best of a few starts: the second layer as found at three slopes, then random ones."""
        best: Fit | None = None
        for attempt in range(self.options.num_attempts):
            leading = sorted(self.activations, key=lambda a: alternatives.get(a, 0.0))
            for name in leading if attempt == 0 else leading[:2]:
                if best is not None and clock.now() > self.deadline:
                    return best
                slope = act.get(name).scale / self.unit * (1.0, 1.7, 0.6)[attempt % 3]
                known = profiles if attempt < 3 and len(profiles) == width else None
                start = self._start(name, slope, rows, known, width, x, y)
                settings = Settings(max_steps=120, damping=1e-3, stall_steps=25, deadline=self.deadline)
                fit = fit_network(start, x, y, settings=settings)
                alternatives[name] = min(alternatives.get(name, np.inf), fit.rms)
                best = fit if best is None or fit.rms < best.rms else best
            if best is not None and best.rms < 1e-9:
                break
        assert best is not None
        return best

    def _start(self, name: str, slope: float, rows, profiles, width: int, x, y) -> Network:
        """Where the fit of all parameters begins; without profiles the second layer is random."""
        phi = act.get(name)
        if profiles is None:
            profiles = self.rng.standard_normal((width, len(rows)))
            profiles /= np.linalg.norm(profiles, axis=1, keepdims=True)
        model = Deparametrised(rows, profiles, phi, free_outputs=True)
        rough = model.fit(model.start(x, y[:, 0], slope), x, y[:, 0])
        return model.network(rough.parameters)

    def _nothing(self, reason: str, alternatives: dict[str, float] | None = None) -> Finding:
        return Finding(None, reason, alternatives=alternatives or {}, details=self.details)
