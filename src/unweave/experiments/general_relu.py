"""Awasthi, Tang and Vijayaraghavan (2021): one hidden layer of relus with biases from Gaussian samples.

The paper has no experiments; these are the ones its theorems call for. Error of the units against the number of
samples N, the inputs d and the units m, at orders 1 (m <= d) and 2 (m > d), with exact tensors as the limit of N; the
function learnt when some biases are far (Algorithm 5); signs that can't be known (Claim 4.8).

As stated: Hermite tensors of the samples, Jennrich, RecoverScalars, FixSigns; the number of units is given. unweave:
``learn`` on the same rows, nothing given. Networks: unit rows, biases uniform in [-1, 1], |a| in [0.5, 1.5].
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import UnweaveError
from unweave.core.network import Network
from unweave.experiments.exhibits import Entry, Exhibit, seconds_of
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Measured, Paper, Scope, Stopwatch, setting
from unweave.experiments.sample_figures import draw_errors
from unweave.methods.general_relu.improper import learn_improper
from unweave.methods.general_relu.recover import recover_from_moments
from unweave.moments.hermite import HermiteMoments
from unweave.moments.population import ReluUnits, population_tensors

FAR_BIAS = 6.0
EXACT = "exact"
SIZES = {"1": ((5, 5), (8, 8)), "2": ((4, 6), (5, 8))}
LARGER: dict[str, tuple[tuple[int, int], ...]] = {
    "1": ((5, 5), (8, 8), (12, 6), (12, 12)),
    "2": ((4, 6), (5, 8), (6, 12)),
}
SAMPLES: dict[str, tuple[int, ...]] = {
    "quick": (10_000, 100_000, 1_000_000),
    "usual": (10_000, 100_000, 1_000_000),
    "full": (10_000, 100_000, 1_000_000, 4_000_000),
}
CHUNK = 100_000
NEAR = 0.1
"""A unit counts as found when direction and bias are this close."""


def plan(scope: Scope) -> list[Cell]:
    cells = []
    counts = SAMPLES[scope.size]
    sizes = SIZES if scope.size == "quick" else LARGER
    for trial in range(scope.num_trials(3, 5, 20)):
        for order, pairs in sizes.items():
            for d, m in pairs:
                for count in (*counts, EXACT):
                    where = setting(order=order, d=d, m=m, N=count)
                    cells.append(Cell("units", AS_STATED, where, trial, scope.seed))
                    if count != EXACT:
                        cells.append(Cell("units", UNWEAVE, where, trial, scope.seed))
        for num_far in (1, 2):
            where = setting(d=5, m=5, far=num_far, N=counts[-1])
            cells += [Cell("far biases", column, where, trial, scope.seed) for column in (AS_STATED, UNWEAVE)]
        for d, m in ((3, 5), (4, 6)):
            for biases in ("zero", "free"):
                where = setting(d=d, m=m, biases=biases)
                cells += [Cell("signs", column, where, trial, scope.seed) for column in (AS_STATED, UNWEAVE)]
    return cells


def run(cell: Cell) -> list[Measured]:
    measure = {"units": _units, "far biases": _far_biases, "signs": _signs}[cell.study]
    return measure(cell)


def draw_units(d: int, m: int, rng: np.random.Generator) -> ReluUnits:
    rows = rng.standard_normal((m, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.choice([-1.0, 1.0], m) * rng.uniform(0.5, 1.5, m)
    return ReluUnits(rows, rng.uniform(-1, 1, m), weights)


def unit_errors(truth: ReluUnits, found: ReluUnits) -> np.ndarray:
    """Distance of each true (w, b) from the nearest found one, up to a common sign; 1 where there is none."""
    if not len(found):
        return np.ones(len(truth))
    a = np.column_stack([truth.directions, truth.biases])
    b = np.column_stack([found.directions, found.biases])
    apart = [np.linalg.norm(a[:, None] - s * b[None], axis=2) for s in (1, -1)]
    return np.minimum(np.min(np.minimum(*apart), axis=1), 1.0)


def _units(cell: Cell) -> list[Measured]:
    rng = _rng(cell)
    d, m, order = cell.number("d"), cell.number("m"), cell.number("order")
    truth, watch = draw_units(d, m, rng), Stopwatch()
    if cell["N"] == EXACT:
        tensors = population_tensors(truth, 2 * order + 2)
        with watch.running():
            found = recover_from_moments(tensors, order=order, num_units=m, as_stated=True, rng=rng).units
    elif cell.column == AS_STATED:
        with watch.running():
            moments = _moments(truth, cell.number("N"), 2 * order + 2, rng)
            found = recover_from_moments(moments, order=order, num_units=m, as_stated=True, rng=rng).units
    else:
        x = rng.standard_normal((cell.number("N"), d))
        found = _learn(x, truth(x), cell.seed, watch)
    errors = unit_errors(truth, found)
    return [
        Measured("error", float(np.sqrt(np.mean(errors**2)))),
        Measured("found", float(np.mean(errors < NEAR))),
        Measured("complete", float(np.max(errors) < 1e-8)),
        Measured("seconds", watch.seconds),
    ]


def _far_biases(cell: Cell) -> list[Measured]:
    """Some units with |b| = 6: linear or dead under the Gaussian. The error is that of the function."""
    rng = _rng(cell)
    d, m, num_far = cell.number("d"), cell.number("m"), cell.number("far")
    near, watch = draw_units(d, m, rng), Stopwatch()
    biases = near.biases.copy()
    biases[:num_far] = FAR_BIAS * rng.choice([-1.0, 1.0], num_far)
    truth = ReluUnits(near.directions, biases, near.weights)
    count = cell.number("N")
    if cell.column == AS_STATED:
        with watch.running():
            moments = _moments(truth, count // 2, 4, rng)
            units = recover_from_moments(moments, num_units=m - num_far, as_stated=True, rng=rng).units
            network = learn_improper(_rows(truth, count // 2, rng), units).network
    else:
        from unweave.run import learn

        x = rng.standard_normal((count, d))
        with watch.running():
            network = learn(x, truth(x), activation="relu", seed=cell.seed).network
    return [
        Measured("error", _function_error(truth, network, rng)),
        Measured("units", 0.0 if network is None else float(network.hidden[0])),
        Measured("seconds", watch.seconds),
    ]


def _signs(cell: Cell) -> list[Measured]:
    """Claim 4.8: dependent rows with zero biases and output weights that hide the signs; and a generic control.

    "told" is right when undetermined signs are said to be so, and determined ones are not doubted.
    """
    rng = _rng(cell)
    d, m, watch = cell.number("d"), cell.number("m"), Stopwatch()
    rows = draw_units(d, m, rng).directions
    hidden = cell["biases"] == "zero"
    beta, biases = rng.uniform(0.5, 1.5, m), rng.uniform(-1, 1, m)
    if hidden:
        # sum_i beta_i w_i = 0 over d + 1 dependent rows: flipping all of them leaves the function as it is
        beta[: d + 1] = np.linalg.svd(rows[: d + 1].T)[2][-1]
        biases = np.zeros(m)
    truth = ReluUnits(rows, biases, beta / np.max(np.abs(beta)))
    if cell.column == AS_STATED:
        tensors = population_tensors(truth, 6)
        with watch.running():
            found = recover_from_moments(tensors, order=2, num_units=m, as_stated=True, rng=rng)
        doubted, network = not np.all(found.signs_determined), found.network
    else:
        from unweave.run import learn

        x = rng.standard_normal((4000, d))
        with watch.running():
            learnt = learn(x, truth(x), activation="relu", seed=cell.seed)
        doubted, network = bool(learnt.undetermined) or not learnt.identified, learnt.network
    return [
        Measured("told", float(doubted == hidden)),
        Measured("error", _function_error(truth, network, rng)),
        Measured("seconds", watch.seconds),
    ]


def _moments(truth: ReluUnits, count: int, order: int, rng: np.random.Generator) -> HermiteMoments:
    moments = HermiteMoments(truth.input_size, order=order)
    for x, y in _rows(truth, count, rng):
        moments.update(x, y)
    return moments


def _rows(truth: ReluUnits, count: int, rng: np.random.Generator):
    for start in range(0, count, CHUNK):
        x = rng.standard_normal((min(CHUNK, count - start), truth.input_size))
        yield x, truth(x)


def _learn(x: np.ndarray, y: np.ndarray, seed: int, watch: Stopwatch) -> ReluUnits:
    from unweave.run import learn

    with watch.running():
        network = learn(x, y, activation="relu", seed=seed).network
    if network is None:
        return ReluUnits(np.zeros((0, x.shape[1])), np.zeros(0), np.zeros(0))
    try:
        return ReluUnits.of(network)
    except UnweaveError:
        return ReluUnits(np.zeros((0, x.shape[1])), np.zeros(0), np.zeros(0))


def _function_error(truth: ReluUnits, network: Network | None, rng: np.random.Generator) -> float:
    x = rng.standard_normal((20_000, truth.input_size))
    y = truth(x)
    away = y if network is None else network(x)[:, 0] - y
    return float(np.sqrt(np.mean(away**2)) / max(np.std(y), 1e-300))


def _rng(cell: Cell) -> np.random.Generator:
    """Of the setting but not of the column: both see the same networks."""
    given = dict(cell.parameters)
    values = [given[name] for name in ("order", "d", "m", "far", "biases") if name in given]
    numbers = [int(v) if v.isdigit() else len(v) for v in values]
    return np.random.default_rng([8000 + cell.seed, cell.trial, *numbers])


EXHIBITS = (
    Exhibit(
        (),
        "Error of the units against N, d, m",
        ("order", "d", "m", "N"),
        (
            Entry("error", "error", "units", "units", style="error", statistic="median"),
            Entry("units found", "found", "units", "units"),
            Entry("complete", "complete", "units", "units"),
            seconds_of("units"),
        ),
        draw=draw_errors,
        note="Median over trials of the root mean square distance of (w, b) over the units, a missing unit counting 1; "
        'found: within 0.1; complete: all within 1e-8. "exact" stands for exact tensors, the limit of N.',
    ),
    Exhibit(
        (),
        "Far biases: the function of Algorithm 5",
        ("d", "m", "far", "N"),
        (
            Entry("error of f", "error", "far biases", "far biases", style="error", statistic="median"),
            Entry("units", "units", "far biases", "far biases", style="number"),
            seconds_of("far biases"),
        ),
        note='"far" units have |b| = 6. Error of the function relative to its standard deviation; the paper allows '
        "m + 2 units.",
    ),
    Exhibit(
        (),
        "Claim 4.8: signs that no samples determine",
        ("d", "m", "biases"),
        (
            Entry("told", "told", "signs", "signs"),
            Entry("error of f", "error", "signs", "signs", style="error", statistic="median"),
            seconds_of("signs"),
        ),
        note="Dependent rows. Biases zero: output weights that make flipped signs the same function; free: generic "
        "ones. told: undetermined signs are reported, determined ones are not doubted. As stated works on exact "
        "tensors here, and FixSigns has no answer for dependent rows; unweave sees 4000 samples.",
    ),
)

PAPER = Paper(
    name="general-relu",
    title="One hidden layer of general relus from Gaussian samples",
    reference="Awasthi, Tang, Vijayaraghavan: Efficient algorithms for learning depth-2 neural networks with general "
    "ReLU activations (2021)",
    parameters=("order", "d", "m", "N", "far", "biases"),
    plan=plan,
    run=run,
    exhibits=EXHIBITS,
    notes=(
        "The paper prints no experiments; its column is empty. Queries are the samples N.",
        "As stated: empirical Hermite tensors, Jennrich on T_{2l+1} and T_{2l+2}, RecoverScalars, FixSigns; the number "
        'of units is given. unweave: learn(x, y, activation="relu") on as many rows; the number of units is not given.',
    ),
)
