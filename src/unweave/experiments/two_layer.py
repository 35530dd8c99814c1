"""Fornasier, Klock and Rauchensteiner (2019): two hidden layers from point queries; Figures 2-6, Tables 1-3.

As stated: ``methods/hessian_span_stated`` with the paper's hyperparameters (1000 Hessians, 1000 starts, 500 000 steps
of the final descent). unweave: ``identify`` with nothing given but the function and its number of inputs. Both see the
same networks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from unweave.algebra.matrix_span import projection_error, span_of_squares
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.experiments import two_layer_printed as printed
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Measured, Paper, Scope, Stopwatch, setting
from unweave.experiments.scenarios import SCENARIOS, Truth, entangle, squared_distances
from unweave.experiments.two_layer_exhibits import EXHIBITS
from unweave.experiments.two_layer_stated import (
    StatedOptions,
    StatedWeights,
    find_weights,
    fit_rest,
    gradient_norms,
)
from unweave.probes.derivatives import Differences

if TYPE_CHECKING:
    from unweave.result import Identification

THRESHOLDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
TIMES = tuple(float(t) for t in range(-19, 21))
NUM_TEST = 50_000
LARGE_TRIALS = 5
"""Of the larger networks so many trials come first; the rest, which take hours, come last."""
ADMITTED = 0.5
"""Condition (67): trials whose squared errors sum to less enter Table 3."""
FIRST_SEED = 7_000_000
"""Networks of trial t are drawn from this + t, shifted by the seed."""


def plan(scope: Scope) -> list[Cell]:
    """Cells trial by trial, so that an interrupted run has seen every setting; most of the slow ones last."""
    trials = scope.num_trials(2, 5, 30)
    sizes = {"quick": printed.SIZES[:2], "usual": printed.SIZES[:3], "full": printed.SIZES}[scope.size]
    steps = StatedOptions().descent_steps
    cells = []
    for trial in range(trials):
        for m0, m1 in sizes:
            if scope.size == "quick" and scope.trials is None and trial and m1 > 3:
                continue
            for scenario in SCENARIOS:
                where = {"scenario": scenario, "m0": m0, "m1": m1}
                cells += _cells(where, steps, trial, scope)
    least = printed.SIZES[0][0]
    return sorted(cells, key=lambda c: c.trial >= LARGE_TRIALS and c.number("m0") > least)


def _cells(where: dict, steps: int, trial: int, scope: Scope) -> list[Cell]:
    plain, stepped = setting(**where), setting(**where, steps=steps)
    cells = [
        Cell("weights", AS_STATED, plain, trial, scope.seed),
        Cell("identify", UNWEAVE, plain, trial, scope.seed),
        Cell("given weights", AS_STATED, stepped, trial, scope.seed),
    ]
    if where["scenario"].startswith("POD"):
        cells.append(Cell("end to end", AS_STATED, stepped, trial, scope.seed))
    if trial == 0 and (where["m0"], where["m1"]) in ((30, 3), (45, 5)):
        cells += [Cell("trajectories", column, plain, trial, scope.seed) for column in (AS_STATED, UNWEAVE)]
    return cells


def run(cell: Cell) -> list[Measured]:
    """One trial; a function of the cell alone."""
    truth, network_key = _draw(cell), _network_key(cell)
    if cell.study == "trajectories":
        return _trajectories(cell, truth)
    if cell.column == UNWEAVE:
        return _identify(cell, truth)
    if cell.study == "weights":
        found, queries, seconds = _found(*network_key)
        span = span_of_squares(np.concatenate([truth.rows, truth.entangled]))
        error = projection_error(found.span, span)
        measured = [Measured("projection error", error), *_rates(truth, found.vectors, found.first)]
    elif cell.study == "given weights":
        measured, queries, seconds = _fit(truth, truth.rows, truth.entangled, cell)
    else:
        found, queries, seconds = _found(*network_key)
        missed = squared_distances(np.concatenate([truth.rows, truth.entangled]), found.vectors)
        admitted = missed.sum() < ADMITTED
        measured = [Measured("admitted", float(admitted))]
        if admitted:
            fitted, more_queries, more_seconds = _fit(truth, found.rows, found.entangled, cell)
            measured += fitted
            queries, seconds = queries + more_queries, seconds + more_seconds
    return [*measured, Measured("queries", queries), Measured("seconds", seconds)]


def _network_key(cell: Cell) -> tuple[str, int, int, int, int]:
    return cell["scenario"], cell.number("m0"), cell.number("m1"), cell.trial, cell.seed


def _draw(cell: Cell) -> Truth:
    return _drawn(*_network_key(cell))


@lru_cache(maxsize=4)
def _drawn(scenario: str, m0: int, m1: int, trial: int, seed: int) -> Truth:
    return Truth.draw(scenario, m0, m1, FIRST_SEED + 1000 * seed + trial)


@lru_cache(maxsize=4)
def _found(scenario: str, m0: int, m1: int, trial: int, seed: int) -> tuple[StatedWeights, int, float]:
    """The weights as stated, with queries and seconds; kept for the next study of the same network."""
    truth = _drawn(scenario, m0, m1, trial, seed)
    meter, watch = Meter(truth.oracle(), remember=False), Stopwatch()
    rng = np.random.default_rng([seed, trial, 200])
    with watch.running():
        found = find_weights(meter, (m0, m1), rng, StatedOptions())
    return found, meter.ledger.total, watch.seconds


@lru_cache(maxsize=4)
def _identified(scenario: str, m0: int, m1: int, trial: int, seed: int) -> tuple[Identification, float]:
    from unweave.run import identify

    truth, watch = _drawn(scenario, m0, m1, trial, seed), Stopwatch()
    with watch.running():
        found = identify(truth.oracle(), seed=seed)
    return found, watch.seconds


def _rates(truth: Truth, vectors: np.ndarray, first: np.ndarray) -> list[Measured]:
    """Recovery at thresholds, attribution to layers, condition (67), for unit vectors and their layers."""
    rows, entangled = truth.rows, truth.entangled
    wrong = squared_distances(vectors, np.concatenate([rows, entangled]))
    missed_first, missed_second = squared_distances(rows, vectors), squared_distances(entangled, vectors)
    of_first = squared_distances(vectors, rows) <= squared_distances(vectors, entangled)
    measured = []
    for t in THRESHOLDS:
        measured += [
            Measured("false positives", float(np.sum(wrong > t)) / (len(rows) + len(entangled)), t),
            Measured("recovered first", float(np.mean(missed_first < t)), t),
            Measured("recovered second", float(np.mean(missed_second < t)), t),
        ]
    return [
        *measured,
        Measured("attributed first", float(np.sum(of_first & first)) / len(rows)),
        Measured("attributed second", float(np.sum(~of_first & ~first)) / len(entangled)),
        Measured("admitted", float(missed_first.sum() + missed_second.sum() < ADMITTED)),
    ]


def _fit(
    truth: Truth, rows: np.ndarray, entangled: np.ndarray, cell: Cell
) -> tuple[list[Measured], int, float]:
    """Sec. 6.2 from given weights; with queries and seconds."""
    meter, watch = Meter(truth.oracle(), remember=False), Stopwatch()
    options = StatedOptions(descent_steps=cell.number("steps"))
    rng = np.random.default_rng([*cell.seeds, 202])
    with watch.running():
        model, parameters, _ = fit_rest(meter, rows, entangled, act.get(truth.activation), rng, options)
    network = model.network(parameters)
    _, _, _, w, z, *_ = model.split(parameters)
    measured = _outputs(truth, network, cell)
    if cell.study == "given weights":
        measured += [
            Measured("E_theta", _relative(w, truth.theta)),
            Measured("E_tau", _relative(z, truth.tau)),
        ]
    return measured, meter.ledger.total, watch.seconds


def _outputs(truth: Truth, network: Network, cell: Cell) -> list[Measured]:
    """Relative errors of the function on the paper's 50 000 test points."""
    z = np.random.default_rng([*cell.seeds, 201]).standard_normal((NUM_TEST, truth.network.input_size))
    y = truth.network(z)[:, 0]
    away = network(z)[:, 0] - y
    return [
        Measured("MSE", float(np.sum(away**2) / np.sum(y**2))),
        Measured("E_inf", float(np.max(np.abs(away)) / np.max(np.abs(y)))),
    ]


def _identify(cell: Cell, truth: Truth) -> list[Measured]:
    from unweave.comparison import compare

    found, seconds = _identified(*_network_key(cell))
    end = [Measured("queries", found.ledger.total), Measured("seconds", seconds)]
    network = found.network
    if not found.identified or network is None or network.hidden != truth.network.hidden:
        return [Measured("complete", 0.0), Measured("admitted", 0.0), *end]
    aligned = compare(truth.network, network)
    rows = network.weights[0] / np.linalg.norm(network.weights[0], axis=1, keepdims=True)
    vectors = np.concatenate([rows, entangle(network)])
    first = np.arange(len(vectors)) < len(rows)
    error = projection_error(
        span_of_squares(vectors), span_of_squares(np.concatenate([truth.rows, truth.entangled]))
    )
    theta, tau = (_relative(aligned.aligned.biases[k], aligned.reference.biases[k]) for k in (0, 1))
    return [
        Measured("complete", float(aligned.max_relative_error < 1e-8)),
        Measured("largest error", aligned.max_relative_error),
        Measured("projection error", max(error, 0.0)),
        *_rates(truth, vectors, first),
        *_outputs(truth, network, cell),
        Measured("E_theta", theta),
        Measured("E_tau", tau),
        *end,
    ]


def _trajectories(cell: Cell, truth: Truth) -> list[Measured]:
    """``|grad f(t w)|`` along the found weights, by the layer they belong to."""
    meter = Meter(truth.oracle(), remember=False)
    if cell.column == AS_STATED:
        weights, queries, seconds = _found(*_network_key(cell))
        vectors = weights.vectors
    else:
        found, seconds = _identified(*_network_key(cell))
        network, queries = found.network, found.ledger.total
        if network is None or len(network.hidden) != 2:
            return [Measured("queries", queries), Measured("seconds", seconds)]
        rows = network.weights[0] / np.linalg.norm(network.weights[0], axis=1, keepdims=True)
        vectors = np.concatenate([rows, entangle(network)])
    norms = gradient_norms(meter, vectors, np.array(TIMES), Differences("forward", 1e-5, 1e-5))
    of_first = squared_distances(vectors, truth.rows) <= squared_distances(vectors, truth.entangled)
    measured = []
    for layer, chosen in (("first", of_first), ("second", ~of_first)):
        for t, column in zip(TIMES, norms[chosen].T, strict=True):
            if len(column):
                for name, value in zip(
                    ("low", "middle", "high"), np.quantile(column, (0, 0.5, 1)), strict=True
                ):
                    measured.append(Measured(f"{layer} {name}", float(value), t))
    return [*measured, Measured("queries", queries + meter.ledger.total), Measured("seconds", seconds)]


def _relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sum((found - truth) ** 2) / np.sum(truth**2))


PAPER = Paper(
    name="two-layer",
    title="Two hidden layers from point queries",
    reference="Fornasier, Klock, Rauchensteiner: Robust and resource efficient identification of two hidden layer "
    "neural networks (2019)",
    parameters=("scenario", "m0", "m1", "steps"),
    plan=plan,
    run=run,
    exhibits=EXHIBITS,
    notes=(
        "As stated: 1000 Hessians by forward differences of step 1e-5 on the sphere of radius sqrt(m0), 1000 starts of "
        "the projected ascent, k-means++, attribution by I(w); the widths are given.",
        "unweave: identify(f) with its default method; neither widths nor activation are given. The same networks in "
        "both columns.",
    ),
)
