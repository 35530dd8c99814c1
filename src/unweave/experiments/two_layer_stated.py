"""Two hidden layers exactly as Fornasier, Klock and Rauchensteiner (2019, secs 4 and 6) describe their experiments.

Kept to reproduce their tables and to measure improvements against: Hessians by forward differences on the
sphere of radius sqrt(m0), the first m0 + m1 singular vectors, projected ascent from random elements,
k-means++, attribution to layers by ``I(w)``, and plain gradient descent on the deparametrised network. The
widths must be given, the number of inputs is m0, and there is one output with weights 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.algebra.a_posteriori import check_components
from unweave.algebra.matrix_span import MatrixSpan, estimate_span
from unweave.algebra.rank_one import ascend_spectral_norm, cluster_directions
from unweave.core import activations as act
from unweave.core.activations import Activation
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.experiments.long_descent import descend_plainly
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.hessian.span_layers import Deparametrised
from unweave.probes.derivatives import Differences, estimate_gradients, estimate_hessians

BLOCK = 8
"""Hessians asked for at a time: their questions stay in the cache, those of a thousand would fill a gigabyte."""


@dataclass(frozen=True)
class StatedOptions:
    """The paper's hyperparameters."""

    num_hessians: int = 1000
    step: float = 1e-5
    gamma: float = 2.0
    num_starts: int = 1000
    descent_steps: int = 500_000


@dataclass(frozen=True)
class StatedWeights:
    """What sections 4 and 6.1 give: unit vectors in no order, and the layer each is attributed to."""

    span: MatrixSpan
    vectors: np.ndarray = field(repr=False)
    lambdas: np.ndarray = field(repr=False)
    """Largest eigenvalue of every limit of the ascent."""
    energy: np.ndarray = field(repr=False)
    """``I(w)`` of each vector."""
    first: np.ndarray
    """Whether each vector is attributed to the first layer."""

    @property
    def rows(self) -> np.ndarray:
        return self.vectors[self.first]

    @property
    def entangled(self) -> np.ndarray:
        return self.vectors[~self.first]


class StatedSpan:
    """The whole pipeline as a method; every stage leaves its figures in ``details``."""

    serves: Serves
    options: StatedOptions

    name = "hessian-span as stated"
    serves = Serves(Evidence.QUERIES, ("tanh", "sigmoid"))

    def __init__(self, options: StatedOptions | None = None):
        self.options = StatedOptions() if options is None else options

    def suits(self, traits: Traits) -> str | None:
        """Never of itself: it reproduces a paper."""
        return None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """The network of the given widths, with the first candidate activation."""
        hidden = problem.hidden
        if hidden is None or len(hidden) != 2 or meter.output_size != 1 or hidden[0] != meter.input_size:
            return Finding(None, "as stated, the method needs hidden=(m0, m1) with m0 inputs, and one output")
        rng, phi = problem.rng("hessians"), act.get(problem.activations[0])
        found = find_weights(meter, hidden, rng, self.options)
        model, parameters, loss = fit_rest(meter, found.rows, found.entangled, phi, rng, self.options)
        details = {
            "hessian_spectrum": found.span.spectrum,
            "span_basis": found.span.basis,
            "components": found.vectors,
            "lambda_1": found.lambdas,
            "energy": found.energy,
            "first_layer": found.rows,
            "entangled": found.entangled,
            "checks": check_components(found.span, found.vectors).to_dict(),
            "mse": loss,
        }
        return Finding(model.network(parameters), details=details)


def find_weights(
    meter: Meter, widths: tuple[int, ...], rng: np.random.Generator, options: StatedOptions
) -> StatedWeights:
    """Secs 4 and 6.1: the span of Hessians, its rank-one elements, and their attribution to layers."""
    m0, m1 = widths
    steps = Differences("forward", options.step, options.step)
    points = rng.standard_normal((options.num_hessians, m0))
    points *= np.sqrt(m0) / np.linalg.norm(points, axis=1, keepdims=True)
    with meter.stage("hessians"):
        blocks = [points[i : i + BLOCK] for i in range(0, len(points), BLOCK)]
        hessians = np.concatenate([estimate_hessians(meter, block, steps)[:, 0] for block in blocks])
    span, vectors, lambdas = find_vectors(hessians, m0 + m1, rng, options)
    with meter.stage("attribution"):
        energy = gradient_energy(meter, vectors, steps)
    first = np.zeros(m0 + m1, dtype=bool)
    first[np.argsort(-energy)[:m0]] = True
    return StatedWeights(span, vectors, lambdas, energy, first)


def find_vectors(
    hessians: np.ndarray, count: int, rng: np.random.Generator, options: StatedOptions
) -> tuple[MatrixSpan, np.ndarray, np.ndarray]:
    """Algorithms 2 and 3 and k-means++: the span, ``count`` unit vectors, the largest eigenvalue of every limit."""
    span = with_fixed_signs(estimate_span(hessians, dimension=count, gram=True))
    starts = rng.standard_normal((options.num_starts, span.dimension))
    limits, lambdas = ascend_spectral_norm(span, starts, gamma=options.gamma)
    return span, cluster_directions(limits, count, rng), lambdas


def with_fixed_signs(span: MatrixSpan) -> MatrixSpan:
    """Basis matrices whose entry of largest modulus is positive, so that starts do not depend on the solver."""
    largest = np.argmax(np.abs(span.basis), axis=1)
    signs = np.sign(span.basis[np.arange(len(span.basis)), largest])
    return MatrixSpan(span.basis * signs[:, None], span.spectrum, span.size)


def gradient_norms(
    meter: Meter, vectors: np.ndarray, times: np.ndarray, differences: Differences
) -> np.ndarray:
    """``|grad f(t w)|`` (k, times) for unit vectors (k, d): the trajectories that tell the layers apart."""
    points = (vectors[:, None, :] * times[None, :, None]).reshape(-1, meter.input_size)
    gradients = estimate_gradients(meter, points, differences)
    return np.sqrt(np.sum(gradients**2, axis=(1, 2))).reshape(len(vectors), len(times))


def gradient_energy(meter: Meter, vectors: np.ndarray, differences: Differences) -> np.ndarray:
    """``I(w)`` of sec. 6.1 for unit vectors (k, d): large for first-layer weights of saturating networks."""
    norms = gradient_norms(meter, vectors, np.arange(-19.0, 21.0), differences)
    return np.sum(norms**2, axis=1)


def fit_rest(
    meter: Meter,
    rows: np.ndarray,
    entangled: np.ndarray,
    phi: Activation,
    rng: np.random.Generator,
    options: StatedOptions,
) -> tuple[Deparametrised, np.ndarray, float]:
    """Sec. 6.2 for given weights: the model, its parameters, and the relative mean square error of the fit."""
    x = rng.standard_normal((10 * (len(rows) + len(entangled)), meter.input_size))
    with meter.stage("reconstruction"):
        y = meter.ask(x)[:, 0]
    profiles = np.linalg.lstsq(rows.T, entangled.T, rcond=1e-10)[0].T
    model = Deparametrised(rows, profiles, phi, free_outputs=False)
    rate = 0.5 if phi.name == "sigmoid" else 0.025
    start = draw_start(model, rng)
    parameters, loss = descend(model, start, x, y, rate=rate, num_steps=options.descent_steps)
    return model, parameters, loss / float(np.mean(y**2))


def draw_start(model: Deparametrised, rng: np.random.Generator) -> np.ndarray:
    """D2 = D3 = 1, the rest N(0, 0.1); the outputs are as in the paper's class."""
    (m0, m1), sd = model.sizes, np.sqrt(0.1)
    d1, w, z = (sd * rng.standard_normal(size) for size in (m1, m0, m1))
    return np.concatenate([d1, np.ones(2 * m0), w, z, np.ones(m1), [0.0]])


def descend(
    model: Deparametrised, start: np.ndarray, x: np.ndarray, y: np.ndarray, *, rate: float, num_steps: int
) -> tuple[np.ndarray, float]:
    """Plain gradient descent on the mean square error over D1, D2, D3, w and z: the last iterate and its error."""
    t, profiles = x @ model.rows.T, model.profiles
    fixed = np.zeros(len(profiles) + 1)

    def gradient(p: np.ndarray) -> np.ndarray:
        d1, d2, d3, w, z, *_ = model.split(p)
        g, g1 = _centred(model.phi, t * d3 + w)
        q = (g * d2) @ profiles.T
        h, h1 = _centred(model.phi, q * d1 + z)
        h1 *= (2 / len(y) * (np.sum(h, axis=1) - y))[:, None]
        back = (h1 * d1) @ profiles
        outer = back * d2
        outer *= g1
        over_samples = [np.einsum("ij,ij->j", a, b) for a, b in ((h1, q), (back, g), (outer, t))]
        return np.concatenate([*over_samples, np.sum(outer, axis=0), np.sum(h1, axis=0), fixed])

    def curvature(p: np.ndarray) -> np.ndarray:
        jacobian = model.linearise(p, t)[1]
        return 2 / len(y) * jacobian.T @ jacobian

    p = descend_plainly(gradient, curvature, start, rate=rate, num_steps=num_steps)
    r = model.linearise(p, t)[0] - y
    return p, float(r @ r) / len(r)


def _centred(phi: Activation, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``phi - phi(0)`` and its derivative; for tanh and sigmoid from one hyperbolic tangent."""
    if phi.name == "tanh":
        value = np.tanh(s)
        return value, 1 - value**2
    if phi.name == "sigmoid":
        value = 0.5 * np.tanh(0.5 * s)
        return value, 0.25 - value**2
    return phi(s) - float(phi(np.zeros(1))[0]), phi.first(s, np)
