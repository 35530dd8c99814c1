"""Two hidden layers exactly as Fornasier, Klock and Rauchensteiner (2019, secs 4 and 6) describe their experiments.

Kept to reproduce their tables and to measure improvements against: Hessians by forward differences on the
sphere of radius sqrt(m0), the first m0 + m1 singular vectors, projected ascent from random elements,
k-means++, attribution to layers by ``I(w)``, and plain gradient descent on the deparametrised network. The
widths must be given, the number of inputs is m0, and there is one output with weights 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave import activations as act
from unweave.algebra.a_posteriori import check_components
from unweave.algebra.matrix_span import estimate_span
from unweave.algebra.rank_one import ascend_spectral_norm, cluster_directions
from unweave.methods.base import Finding, Problem
from unweave.methods.hessian_span_layers import Deparametrised
from unweave.oracles.meter import Meter
from unweave.probes.derivatives import Differences, estimate_gradients, estimate_hessians


@dataclass(frozen=True)
class StatedOptions:
    """The paper's hyperparameters."""

    num_hessians: int = 1000
    step: float = 1e-5
    gamma: float = 2.0
    num_starts: int = 1000
    descent_steps: int = 500_000


def recover_as_stated(meter: Meter, problem: Problem, activation: str, options: StatedOptions) -> Finding:
    """The whole pipeline; every stage leaves its figures in ``details``."""
    hidden = problem.hidden
    if hidden is None or len(hidden) != 2 or meter.output_size != 1 or hidden[0] != meter.input_size:
        return Finding(None, "as stated, the method needs hidden=(m0, m1) with m0 inputs, and one output")
    (m0, m1), rng = hidden, problem.rng(200)
    steps = Differences("forward", options.step, options.step)
    points = rng.standard_normal((options.num_hessians, m0))
    points *= np.sqrt(m0) / np.linalg.norm(points, axis=1, keepdims=True)
    with meter.stage("hessians"):
        hessians = estimate_hessians(meter, points, steps)[:, 0]
    span = estimate_span(hessians, dimension=m0 + m1)
    starts = rng.standard_normal((options.num_starts, span.dimension))
    limits, lambdas = ascend_spectral_norm(span, starts, gamma=options.gamma)
    vectors = cluster_directions(limits, m0 + m1, rng)
    with meter.stage("attribution"):
        energy = gradient_energy(meter, vectors, steps)
    order = np.argsort(-energy)
    rows, entangled = vectors[order[:m0]], vectors[order[m0:]]
    x = rng.standard_normal((10 * (m0 + m1), m0))
    with meter.stage("reconstruction"):
        y = meter.ask(x)[:, 0]
    phi = act.get(activation)
    profiles = np.linalg.lstsq(rows.T, entangled.T, rcond=1e-10)[0].T
    model = Deparametrised(rows, profiles, phi, free_outputs=False)
    rate = 0.5 if phi.name == "sigmoid" else 0.025
    parameters, loss = descend(model, x, y, rng, rate=rate, num_steps=options.descent_steps)
    details = {
        "hessian_spectrum": span.spectrum,
        "span_basis": span.basis,
        "components": vectors,
        "lambda_1": lambdas,
        "energy": energy,
        "first_layer": rows,
        "entangled": entangled,
        "checks": check_components(span, vectors).to_dict(),
        "mse": loss / float(np.mean(y**2)),
    }
    return Finding(model.network(parameters), details=details)


def gradient_energy(meter: Meter, vectors: np.ndarray, differences: Differences) -> np.ndarray:
    """``I(w)`` of sec. 6.1 for unit vectors (k, d): large for first-layer weights of saturating networks."""
    times = np.arange(-19.0, 21.0)
    points = (vectors[:, None, :] * times[None, :, None]).reshape(-1, meter.input_size)
    gradients = estimate_gradients(meter, points, differences)
    return np.sum(gradients**2, axis=(1, 2)).reshape(len(vectors), len(times)).sum(axis=1)


def descend(
    problem: Deparametrised,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    rate: float,
    num_steps: int,
    stall: float = 1e-13,
) -> tuple[np.ndarray, float]:
    """Plain gradient descent as stated: D2 = D3 = 1, the rest N(0, 0.1); the loss is the mean square error.

    Stops early when the loss has not fallen by a relative ``stall`` over a thousand steps.
    """
    m0, m1 = problem.sizes
    sd = np.sqrt(0.1)
    p = np.concatenate(
        [
            sd * rng.standard_normal(m1),
            np.ones(2 * m0),
            sd * rng.standard_normal(m0),
            sd * rng.standard_normal(m1),
            np.ones(m1),
            [0.0],
        ]
    )
    t = x @ problem.rows.T
    free = np.ones(len(p), dtype=bool)
    free[-m1 - 1 :] = problem.free_outputs
    last, loss = np.inf, np.inf
    for step in range(num_steps):
        outputs, jacobian = problem.linearise(p, t)
        r = outputs - y
        loss = float(r @ r) / len(r)
        if not np.isfinite(loss) or loss == 0.0:
            break
        if step % 1000 == 0:
            if last - loss <= stall * loss:
                break
            last = loss
        p = p - rate * 2 * np.where(free, r @ jacobian, 0.0) / len(r)
    return p, loss
