"""Hessian pencil: one hidden layer from Hessians: two of them up to as many units as inputs.

``Hess f(x) = A' D(x) A`` with the rows of A and a diagonal D(x), so for two points ``Hess f(x1) Hess f(x2)^-1 =
A' D(x1) D(x2)^-1 A'^-1``: its eigenvectors are the rows, whenever they are independent and no two units have the
same ratio of curvatures (Theorem 2 of Fornasier, Klock and Rauchensteiner 2019 whitens a whole span of Hessians
instead; Jennrich's algorithm for tensors is the same idea). With fewer units than inputs everything happens in
the directions in which the answers vary. Given the directions, slopes, shifts and outgoing weights are three
numbers a unit; least squares finds them on ordinary points, then all parameters.

Two Hessians cost twice the square of the number of units, the fit one and a half answers a parameter: about four
questions a parameter where the span takes twenty, and no search over widths. Accuracy is lost with the condition
of the rows, which the final fit makes good. More units than inputs, or a second hidden layer, give complex
eigenvalues or a poor fit. Where all of many inputs count, Hessians in a few directions show more units than that
(``crowded``); further layers end it, and then it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.pencil import eigen_pencil
from unweave.core import activations as act
from unweave.core import clock
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import RELU_LIKE, SATURATING, Finding, Problem, Serves, Traits
from unweave.methods.hessian.crowded import read_crowded_rows
from unweave.methods.hessian.probe import FLAT, HessianProbe, smooth_activations
from unweave.methods.hessian.span_shallow import fit_shallow, fit_units
from unweave.students.forms import Form
from unweave.students.scalars import fit_scalars

MANY_PAIRS = 30
"""From this many inputs on two Hessians are asked for before an over-wide student, whose steps get slow."""
CROWDED = 50
"""From this many inputs on, all of which count, more units than inputs are looked for: below, students are cheap."""
TELLING = 8
"""Units whose bends tell the activation then, the strongest ones."""
MOST_DIRECTIONS = 400
"""Two Hessians in so many directions cost 320,000 questions, and the final fit 200 GB."""
MOST_COMPLEX = 0.4
"""Share of complex eigenvalues from which on the two Hessians have no common form."""
NUM_PENCILS = 3
"""Pairs of Hessians asked for, the second and third only when the fit from the one before came near."""
NEAR = 0.2
"""Relative residual of slopes, shifts and outgoing weights from which the fit of all parameters may start."""


class HessianPencil:
    """See the module's docstring. ``time_limit`` in seconds, checked between steps."""

    serves: Serves

    name = "hessian-pencil"
    serves = Serves(Evidence.QUERIES, (*SATURATING, *RELU_LIKE))

    def __init__(
        self, time_limit: float = 600.0, samples_per_parameter: float = 1.5, crowded_from: int = CROWDED
    ):
        self.time_limit = time_limit
        self.crowded_from = crowded_from
        self.samples_per_parameter = samples_per_parameter

    def suits(self, traits: Traits) -> str | None:
        if not traits.exact or traits.input_size < MANY_PAIRS or not traits.candidates(self.serves):
            return None
        return f"{traits.why_smooth()}; units up to as many as inputs would show in two Hessians"

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The network, or why two Hessians did not give it."""
        smooth = smooth_activations(problem)
        if not smooth:
            return Finding(None, FLAT)
        if problem.precision.relative > 1e-12:
            return Finding(None, "the answers are too coarse for two Hessians; use method='in-domain'")
        width = meter.input_size if problem.hidden is None else sum(problem.hidden[:1])
        wider = width > meter.input_size
        if problem.hidden is not None and len(problem.hidden) > 1:
            return Finding(None, "Hessians serve one hidden layer; use method='in-domain'")
        if wider and meter.input_size < self.crowded_from:
            return Finding(None, "two Hessians serve one hidden layer of at most as many units as inputs")
        least = 2 * meter.input_size * width
        if meter.ledger.left < least:
            return Finding(None, f"two Hessians take {least:,} queries, which the budget does not leave")
        deadline = clock.now() + problem.within(self.time_limit)
        run = _Run(meter, problem, smooth, deadline=deadline, crowded_from=self.crowded_from)
        return run.recover(self.samples_per_parameter)


@dataclass
class _Run(HessianProbe):
    deadline: float = float("inf")
    crowded_from: int = CROWDED

    def recover(self, samples_per_parameter: float) -> Finding:
        self.measure_length()
        if self.problem.hidden is not None and sum(self.problem.hidden) > self.size:
            return self._fit_crowded(samples_per_parameter)
        basis = self.active_directions()
        if basis.shape[1] > MOST_DIRECTIONS:
            return self._nothing(f"{basis.shape[1]} active directions are too many for Hessians")
        hessians = self.hessians(self.inner_points(2), basis)
        x, y = np.zeros((0, self.size)), np.zeros((0, self.meter.output_size))
        finding = Finding(None)
        for attempt in range(NUM_PENCILS):
            if attempt:
                hessians = np.concatenate([hessians, self.hessians(self.inner_points(1), basis)])
            vectors = self._read_pencil(hessians, attempt)
            if vectors is None:
                reason = "two Hessians have no common form: more units than inputs, or several hidden layers"
                finding = self._nothing(f"{reason}; use method='in-domain'")
                break
            finding, x, y = self._fit(vectors @ basis.T, x, y, samples_per_parameter)
            is_near = min(finding.alternatives.values()) < NEAR
            if finding.network is not None or not is_near or clock.now() > self.deadline:
                break
        crowded = finding.network is None and basis.shape[1] == self.size >= self.crowded_from
        return self._fit_crowded(samples_per_parameter) if crowded else finding

    def _read_pencil(self, hessians: np.ndarray, num_more: int) -> np.ndarray | None:
        """Unit vectors (m, k) along the rows, from Hessians (n, outputs, k, k); None without a common form.

        ``num_more`` is added to the rank that the spectrum shows: a unit of little curvature may hide below it.
        """
        matrices = hessians.reshape(-1, *hessians.shape[2:])
        pair = matrices
        if len(matrices) > 2:
            pair = np.einsum("rn,npq->rpq", self.rng.standard_normal((2, len(matrices))), matrices)
        size = hessians.shape[-1]
        floor = 10 * self.differences(size).error(2, self.problem.precision, self.length)
        frame, spectrum, _ = np.linalg.svd(np.concatenate(list(matrices), axis=1), full_matrices=False)
        hidden = self.problem.hidden
        rank = min(_rank(spectrum, floor) + num_more, size) if hidden is None else min(hidden[0], size)
        self.keep("hessian_spectrum", spectrum, rank)
        try:
            values, vectors = eigen_pencil(*(frame[:, :rank].T @ pair @ frame[:, :rank]))
        except np.linalg.LinAlgError:  # the answers do not bend
            return None
        if np.sum(np.iscomplex(values)) > MOST_COMPLEX * rank:
            return None
        rows = np.real(vectors).T @ frame[:, :rank].T
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def _fit(
        self, rows: np.ndarray, x: np.ndarray, y: np.ndarray, samples_per_parameter: float
    ) -> tuple[Finding, np.ndarray, np.ndarray]:
        """Everything else from answers at ordinary points, bought where missing; the activation by its residual."""
        count = self._num_points(len(rows), samples_per_parameter)
        few = min(count, 30 * len(rows) + 3 * self.size)
        x, y = self._more(x, y, few)
        scalars = {a: fit_scalars(x[:few], y[:few], rows, a, self.deadline) for a in self.activations}
        alternatives = {name: found.rms for name, found in scalars.items()}
        leading = min(alternatives, key=lambda name: alternatives[name])
        self.details["rows"] = rows
        if alternatives[leading] > NEAR:
            reason = (
                f"units along the {len(rows)} directions of two Hessians leave {alternatives[leading]:.0%}"
            )
            return self._nothing(f"{reason}; use method='in-domain'", alternatives), x, y
        x, y = self._more(x, y, count)
        sigmoid = act.get(leading).name == "sigmoid"  # fit_shallow takes its own arguments, not those of tanh
        slopes, shifts = (
            (2.0 if sigmoid else 1.0) * a for a in (scalars[leading].slopes, scalars[leading].shifts)
        )
        return self._fit_all(slopes[:, None] * rows, shifts, leading, x, y, alternatives), x, y

    def _fit_crowded(self, samples_per_parameter: float) -> Finding:
        """More units than inputs: their rows, slopes and shifts from Hessians in a few directions."""
        crowded = read_crowded_rows(self)
        if crowded is None:
            reason = "Hessians are no sum of few squares: too many units, or several hidden layers"
            return self._nothing(f"{reason}; use method='in-domain'")
        self.details["rows"] = rows = crowded.rows
        arguments, curvatures = crowded.points @ rows.T, crowded.curvatures
        few = np.argsort(-np.sum(curvatures**2, axis=(0, 1)))[:TELLING]
        alternatives = {
            a: fit_units(arguments[:, few], curvatures[:, :, few], act.get(a))[2] for a in self.activations
        }
        leading = min(alternatives, key=lambda name: alternatives[name])
        if alternatives[leading] > NEAR:
            reason = (
                f"the bends along {len(rows)} directions are of no known kind ({alternatives[leading]:.0%})"
            )
            return self._nothing(f"{reason}; use method='in-domain'", alternatives)
        slopes, shifts, _ = fit_units(arguments, curvatures, act.get(leading))
        count = self._num_points(len(rows), samples_per_parameter)
        x, y = self._more(np.zeros((0, self.size)), np.zeros((0, self.meter.output_size)), count)
        return self._fit_all(slopes[:, None] * rows, shifts, leading, x, y, alternatives)

    def _num_points(self, num_units: int, samples_per_parameter: float) -> int:
        """For a fit of all parameters."""
        num_outputs = self.meter.output_size
        num_parameters = num_units * (self.size + 1 + num_outputs) + num_outputs
        num_parameters += self.size * num_outputs if any(Form.of(a).skips for a in self.activations) else 0
        return int(samples_per_parameter * num_parameters / num_outputs) + 20

    def _fit_all(
        self,
        rows: np.ndarray,
        shifts: np.ndarray,
        activation: str,
        x: np.ndarray,
        y: np.ndarray,
        alternatives: dict[str, float],
    ) -> Finding:
        """All parameters, from rows and shifts near the truth."""
        noise = self.problem.precision.noise
        fit = fit_shallow(x, y, rows, shifts, activation, noise=noise, deadline=self.deadline)
        if fit.network is None:
            reason = f"the fit of all parameters along {len(rows)} directions stopped at a residual of {fit.rms:.1e}"
            return self._nothing(f"{reason}; use method='in-domain'", alternatives)
        return Finding(
            fit.network, undetermined=fit.undetermined, alternatives=alternatives, details=self.details
        )

    def _more(self, x: np.ndarray, y: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """At least ``count`` points with answers, near and further out where the domain has no end."""
        missing = max(count - len(x), 0)
        parts = [
            self.points(n, s * self.unit) for n, s in ((missing // 2, 1.0), (missing - missing // 2, 2.0))
        ]
        fresh = self.meter.snap(np.concatenate(parts))
        with self.meter.stage("reconstruction"):
            answers = self.meter.ask(fresh)
        order = self.rng.permutation(missing)
        return np.concatenate([x, fresh[order]]), np.concatenate([y, answers[order]])

    def _nothing(self, reason: str, alternatives: dict[str, float] | None = None) -> Finding:
        return Finding(None, reason, alternatives=alternatives or {}, details=self.details)


def _rank(spectrum: np.ndarray, floor: float) -> int:
    """Where a spectrum ends in its floor, by the largest fall into it; full when it never does."""
    below = np.flatnonzero(spectrum < 3 * floor * spectrum[0])
    if not len(below):
        return len(spectrum)
    start = max(int(below[0]) - 3, 1)
    falls = spectrum[start - 1 : -1] / np.maximum(spectrum[start:], 1e-300)
    best = int(np.argmax(falls))
    return start + best if falls[best] > 30 else len(spectrum)
