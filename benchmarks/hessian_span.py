"""The span of Hessians on the networks of Fornasier, Klock and Rauchensteiner: as stated against improved.

    python benchmarks/hessian_span.py --quick        shallow cells and (8,2), three trials a cell, about two minutes
    python benchmarks/hessian_span.py                (12,3), (20,3), (30,3), (30,9): minutes a trial
    python benchmarks/hessian_span.py --only pencil  one hidden layer from two Hessians, about two minutes

*projection*: |P - P'|_F^2 / dimension, of the span that the weights were looked for in (as stated: all
weights, at the origin; improved: the first layer, common to all base points). *R_a*, *R_v*: share of the
first layer's rows and the entangled second layer's directions with a squared distance below 0.05 from a
found one. *exact*: every parameter to 1e-8 after alignment. As stated, the final descent is cut to
--descent-steps. Seconds are CPU time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scenarios import open_parser, paper_network, random_mlp

import unweave
from unweave.algebra.matrix_span import MatrixSpan, projection_error, span_of_squares
from unweave.core import activations as act
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.experiments.two_layer_stated import StatedOptions, StatedSpan
from unweave.methods.base import Finding, Method, Problem
from unweave.methods.hessian.span import HessianSpan, SpanOptions
from unweave.models.resolve import resolve

THRESHOLD = 0.05


@dataclass(frozen=True)
class Trial:
    projection: float
    first_rate: float
    second_rate: float
    error: float
    queries: int
    seconds: float


def entangled(network: unweave.Network) -> np.ndarray:
    """``v_l = A G(0) b_l``, normalised."""
    rows, second, _ = network.weights
    slopes = act.get(network.activations[0]).first(network.biases[0], np)
    vectors = (second * slopes) @ rows
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def rate(found: np.ndarray, truth: np.ndarray) -> float:
    """Share of true directions with a found one nearby, up to sign."""
    cosines = np.max(np.abs(truth @ found.T), axis=1) if len(found) else np.zeros(len(truth))
    return float(np.mean(2 - 2 * cosines < THRESHOLD))


def run(network: unweave.Network, activation: str, seed: int, method: Method) -> Trial:
    began = time.process_time()
    meter = Meter(resolve(network))
    precision = measure_precision(meter, np.random.default_rng(seed))
    problem = Problem((activation,), network.hidden, precision, seed)
    finding = method.recover(meter, problem)
    seconds = time.process_time() - began
    error = np.inf
    if finding.network is not None:
        error = unweave.compare(network, finding.network).max_relative_error
    figures = _stated_figures if isinstance(method, StatedSpan) else _improved_figures
    return Trial(*figures(network, finding), error, meter.ledger.total, seconds)


def _stated_figures(network: unweave.Network, finding: Finding) -> tuple[float, float, float]:
    rows, second = network.weights[0], entangled(network)
    span = MatrixSpan(finding.details["span_basis"], finding.details["hessian_spectrum"], rows.shape[1])
    truth = span_of_squares(np.concatenate([rows, second]))
    found = finding.details["components"]
    return projection_error(span, truth), rate(found, rows), rate(found, second)


def _improved_figures(network: unweave.Network, finding: Finding) -> tuple[float, float, float]:
    rows, details = network.weights[0], finding.details
    first = details.get("first_layer", np.zeros((0, rows.shape[1])))
    error = np.nan
    if "common_basis" in details:
        common = MatrixSpan(details["common_basis"], details["common_spectrum"], rows.shape[1])
        error = projection_error(common, span_of_squares(rows))
    profiles = details.get("second_layer", np.zeros((0, len(first))))
    vectors = profiles @ first
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    return error, rate(first, rows), rate(vectors, entangled(network))


def show(name: str, trials: list[Trial]) -> None:
    exact = sum(t.error <= 1e-8 for t in trials)
    mean = {
        k: float(np.nanmean([getattr(t, k) for t in trials]))
        for k in ("projection", "first_rate", "second_rate")
    }
    print(
        f"{name:38s} {len(trials)} trials  projection {mean['projection']:.3f}  R_a {mean['first_rate']:.2f}  "
        f"R_v {mean['second_rate']:.2f}  exact {exact}/{len(trials)}  "
        f"{np.mean([t.queries for t in trials]):9.0f} queries  {np.median([t.seconds for t in trials]):6.1f} s",
        flush=True,
    )


def shallow_cells(count: int, first_seed: int) -> None:
    print("One hidden layer, free norms and output weights, width not given:")
    for sizes in ((10, 6, 1), (10, 10, 1), (10, 20, 1), (8, 20, 1), (40, 5, 1)):
        for activation in ("tanh", "sigmoid", "gelu", "softplus"):
            exact, queries, seconds = 0, [], []
            for seed in range(first_seed, first_seed + count):
                network = random_mlp(sizes, activation, seed)
                began = time.process_time()
                found = unweave.identify(network, method="hessian-span", activation=activation, seed=seed)
                seconds.append(time.process_time() - began)
                queries.append(found.ledger.total / network.num_parameters)
                exact += found.identified and unweave.compare(network, found).max_relative_error <= 1e-8
            print(
                f"  {'-'.join(map(str, sizes)):8s} {activation:9s} exact {exact}/{count}  "
                f"{np.mean(queries):5.1f} queries/parameter  {np.median(seconds):5.1f} s",
                flush=True,
            )


def pencil_cells(count: int, first_seed: int) -> None:
    """One hidden layer inside |x| <= 2 sqrt(d) from two Hessians."""
    for d, m in ((10, 10), (20, 8), (20, 20), (40, 10), (40, 40)):
        for name in ("tanh", "gelu", "softplus"):
            errors, questions, seconds, num_parameters = [], [], [], 1
            for seed in range(first_seed, first_seed + count):
                network = random_mlp((d, m, 1), name, seed)
                num_parameters, began = network.num_parameters, time.process_time()
                domain = unweave.Ball(2 * np.sqrt(d))
                found = unweave.identify(network, method="hessian-pencil", domain=domain, seed=seed)
                seconds.append(time.process_time() - began)
                questions.append(found.ledger.total)
                good = found.identified and found.network is not None
                errors.append(unweave.compare(network, found).max_relative_error if good else np.inf)
            print(
                f"{d}-{m}-1 {name:9s} exact {sum(e <= 1e-8 for e in errors):2d}/{count}  questions a parameter "
                f"{np.median(questions) / num_parameters:5.2f} (most {max(questions) / num_parameters:5.2f})  "
                f"CPU s {np.median(seconds):6.2f} (most {max(seconds):6.2f})",
                flush=True,
            )


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--only", choices=("shallow", "pencil", "two"))
    parser.add_argument("--sizes", help="for instance 8,2 or 30,3")
    parser.add_argument("--descent-steps", type=int, default=5000)
    parser.add_argument("--first-seed", type=int, default=2000)
    options = parser.parse_args()
    cells = [(8, 2)] if options.quick else [(12, 3), (20, 3), (30, 3), (30, 9)]
    if options.sizes:
        cells = [tuple(map(int, options.sizes.split(",")))]
    count = options.trials or 3
    stated = StatedSpan(StatedOptions(descent_steps=options.descent_steps))
    improved = HessianSpan(SpanOptions(time_limit=180.0 if options.quick else 900.0))
    if options.only in (None, "shallow"):
        shallow_cells(count, options.first_seed)
    if options.only in (None, "pencil"):
        pencil_cells(options.trials or 10, options.first_seed)
    if options.only in ("shallow", "pencil"):
        return
    for m0, m1 in cells:
        for geometry in ("pod", "sphere"):
            for activation in ("tanh", "sigmoid"):
                seeds = range(options.first_seed, options.first_seed + count)
                networks = [paper_network(m0, m1, geometry, activation, s) for s in seeds]
                for name, chosen in (("as stated", stated), ("improved", improved)):
                    trials = [run(n, activation, s, chosen) for n, s in zip(networks, seeds, strict=True)]
                    show(f"({m0},{m1}) {geometry} {activation}, {name}", trials)


if __name__ == "__main__":
    main()
