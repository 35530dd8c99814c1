"""Goel and Panigrahy (2019): the lowest layer under high thresholds, from Gaussian samples.

The paper has no experiments; these are the ones its theorems call for: the error of the directions against the number
of samples N, the threshold t and the inputs d, by the landscape G(z) (Claim 2) and after the refinement (Algorithms 1
and 2), and intersections of halfspaces (sec. 2.3).

Networks: four unit rows with singular values within 0.3 of one, thresholds t. Step units: f is their OR. Relu units:
their sum and half the product of every pair. As stated: the number of units is given, and the refinement is run on one
unit, from the landscape's estimate, for at most ``ROUNDS d`` rounds. unweave: ``learn(x, y, method=HighThreshold())``
and ``Halfspaces``, nothing given.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import UnweaveError
from unweave.experiments.exhibits import Entry, Exhibit, seconds_of
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Measured, Paper, Scope, Stopwatch, setting
from unweave.experiments.high_threshold_stated import refine_estimate
from unweave.experiments.sample_figures import draw_errors
from unweave.methods.high_threshold.landscape import landscape_starts

NUM_UNITS = 4
ROUNDS = {"quick": 150, "usual": 150, "full": 300}
BASE: dict[str, float] = {"N": 100_000, "t": 2.0, "d": 5}
VARIED: dict[str, dict[str, tuple[float, ...]]] = {
    "quick": {"N": (20_000, 400_000), "t": (2.5,), "d": (10,)},
    "usual": {"N": (20_000, 400_000, 1_000_000), "t": (1.5, 2.5), "d": (10, 15)},
    "full": {"N": (20_000, 400_000, 1_000_000, 2_000_000), "t": (1.5, 2.5, 3.0), "d": (10, 15, 20)},
}


def plan(scope: Scope) -> list[Cell]:
    settings = [BASE] + [
        {**BASE, name: value} for name, values in VARIED[scope.size].items() for value in values
    ]
    rounds = ROUNDS[scope.size]
    cells = []
    for trial in range(scope.num_trials(2, 5, 20)):
        for where in settings:
            for unit in ("step", "relu"):
                plain = setting(unit=unit, **where)
                cells.append(Cell("landscape", AS_STATED, plain, trial, scope.seed))
                cells.append(Cell("learn", UNWEAVE, plain, trial, scope.seed))
            step = setting(unit="step", **where, rounds=rounds)
            cells.append(Cell("refinement", AS_STATED, step, trial, scope.seed))
            cells.append(Cell("halfspaces", AS_STATED, setting(access="samples", **where), trial, scope.seed))
            cells.append(Cell("halfspaces", UNWEAVE, setting(access="samples", **where), trial, scope.seed))
            if where["N"] == BASE["N"]:
                asked = setting(access="questions", **{**where, "N": "asked"})
                cells.append(Cell("halfspaces", UNWEAVE, asked, trial, scope.seed))
    return cells


def run(cell: Cell) -> list[Measured]:
    if cell.study == "halfspaces":
        return _halfspaces(cell)
    if cell.study == "learn":
        return _learn(cell)
    return _landscape(cell)


def draw_rows(d: int, rng: np.random.Generator) -> np.ndarray:
    """Four unit rows, well conditioned."""
    left = np.linalg.qr(rng.standard_normal((d, NUM_UNITS)))[0]
    right = np.linalg.qr(rng.standard_normal((NUM_UNITS, NUM_UNITS)))[0]
    rows = (left * rng.uniform(0.7, 1.3, NUM_UNITS) @ right).T
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def answer(x: np.ndarray, rows: np.ndarray, t: float, unit: str) -> np.ndarray:
    """f(x) of the module's docstring."""
    scores = x @ rows.T - t
    if unit == "step":
        return np.any(scores > 0, axis=1).astype(np.float64)
    units = np.maximum(scores, 0.0)
    total = units.sum(axis=1)
    return total + 0.5 * (total**2 - np.sum(units**2, axis=1)) / 2


def direction_errors(rows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Distance of each true direction from the nearest found one; 1 where there is none."""
    if not len(found):
        return np.ones(len(rows))
    found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-300)
    apart = np.linalg.norm(rows[:, None] - found[None], axis=2)
    return np.minimum(np.min(apart, axis=1), 1.0)


def _landscape(cell: Cell) -> list[Measured]:
    """Minima of G(z), and for step units the refinement of the direction nearest to the first unit."""
    x, y, rows, rng, watch = _sampled(cell)
    with watch.running():
        found = landscape_starts([(x, y)], cell.number("d"), "landscape", NUM_UNITS, rng)
    if cell.study == "landscape":
        return [*_errors(rows, found), Measured("seconds", watch.seconds)]
    if not len(found):
        return [Measured("error", 1.0), Measured("seconds", watch.seconds)]
    nearest = found[np.argmax(found @ rows[0])]
    with watch.running():
        rounds = cell.number("rounds") * cell.number("d")
        refined = refine_estimate(x, y > 0, nearest, rng, max_rounds=rounds)
    return [
        Measured("error before", float(direction_errors(rows[:1], nearest[None])[0])),
        Measured("error", float(direction_errors(rows[:1], refined.direction[None])[0])),
        Measured("rounds", refined.num_rounds),
        Measured("seconds", watch.seconds),
    ]


def _learn(cell: Cell) -> list[Measured]:
    from unweave.methods.high_threshold.method import HighThreshold
    from unweave.run import learn

    x, y, rows, _, watch = _sampled(cell)
    with watch.running():
        found = learn(x, y, method=HighThreshold(), seed=cell.seed)
    directions = np.zeros((0, x.shape[1])) if found.network is None else found.network.weights[0]
    return [*_errors(rows, directions), Measured("seconds", watch.seconds)]


def _halfspaces(cell: Cell) -> list[Measured]:
    """The intersection of ``w_i.x <= t``, as stated from samples through its complement; unweave also by questions."""
    from unweave.methods.high_threshold.halfspaces import Halfspaces

    d, t, watch = cell.number("d"), float(cell["t"]), Stopwatch()
    if cell["access"] == "questions":
        rows = draw_rows(d, _rng(cell))
        with watch.running():
            found = Halfspaces.identify(lambda x: answer(x, rows, t, "step") == 0, d, seed=cell.seed)
        queries, normals = found.num_queries, found.normals
    else:
        x, y, rows, rng, _ = _sampled(cell)
        queries = len(x)
        with watch.running():
            if cell.column == AS_STATED:
                normals = landscape_starts([(x, y)], d, "landscape", NUM_UNITS, rng)
            else:
                normals = _learnt_normals(x, y, cell.seed)
    return [*_errors(rows, normals), Measured("queries", queries), Measured("seconds", watch.seconds)]


def _learnt_normals(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    from unweave.methods.high_threshold.halfspaces import Halfspaces

    try:
        return Halfspaces.learn(x, y == 0, seed=seed).normals
    except UnweaveError:
        return np.zeros((0, x.shape[1]))


def _errors(rows: np.ndarray, found: np.ndarray) -> list[Measured]:
    errors = direction_errors(rows, found)
    return [
        Measured("error", float(np.sqrt(np.mean(errors**2)))),
        Measured("worst", float(np.max(errors))),
        Measured("one unit", float(errors[0])),
        Measured("right number", float(len(found) == len(rows))),
    ]


def _sampled(cell: Cell):
    rng = _rng(cell)
    rows = draw_rows(cell.number("d"), rng)
    x = rng.standard_normal((cell.number("N"), cell.number("d")))
    unit = dict(cell.parameters).get("unit", "step")
    return x, answer(x, rows, float(cell["t"]), unit), rows, rng, Stopwatch()


def _rng(cell: Cell) -> np.random.Generator:
    """Of the setting, not of the column or study: all see the same rows."""
    return np.random.default_rng([9000 + cell.seed, cell.trial, cell.number("d"), int(10 * float(cell["t"]))])


EXHIBITS = (
    Exhibit(
        (),
        "Directions by the landscape, against N, t, d",
        ("unit", "d", "t", "N"),
        (
            Entry("error", "error", "landscape", "learn", style="error", statistic="median"),
            Entry("worst unit", "worst", "landscape", "learn", style="error", statistic="median"),
            Entry("right number", "right number", "", "learn"),
            seconds_of("landscape", "learn"),
        ),
        draw=draw_errors,
        note="Root mean square distance of the four directions, a missing one counting 1; medians over trials.",
    ),
    Exhibit(
        (),
        "One direction after the refinement",
        ("unit", "d", "t", "N"),
        (
            Entry("before", "error before", "refinement", "", style="error", statistic="median"),
            Entry("error", "error", "refinement", "", style="error", statistic="median"),
            Entry("error of the unit", "one unit", "", "learn", style="error", statistic="median"),
            Entry("rounds", "rounds", "refinement", "", style="count"),
            seconds_of("refinement", "learn"),
        ),
        only={"unit": ("step",)},
        note="As stated from the landscape's estimate of one unit; unweave's column is its error of the same unit "
        "and its time for all of them.",
    ),
    Exhibit(
        (),
        "Intersections of halfspaces",
        ("access", "d", "t", "N"),
        (
            Entry("error", "error", "halfspaces", "halfspaces", style="error", statistic="median"),
            Entry("right number", "right number", "", "halfspaces"),
            Entry("queries", "queries", "halfspaces", "halfspaces", style="count", statistic="median"),
            seconds_of("halfspaces"),
        ),
        note="Labels of samples, or questions (for which the paper has no algorithm).",
    ),
)

PAPER = Paper(
    name="high-threshold",
    title="The lowest layer under high thresholds",
    reference="Goel, Panigrahy: Recovering the lowest layer of deep networks with high threshold activations (2019)",
    parameters=("unit", "access", "d", "t", "N", "rounds"),
    plan=plan,
    run=run,
    exhibits=EXHIBITS,
    notes=(
        "The paper prints no experiments; its column is empty. Four units with equal thresholds t; queries are the "
        "samples.",
        "As stated: all minima of G(z) on the second and fourth Hermite tensors, inverted; then Algorithms 1 and 2. "
        "unweave: learn(x, y, method=HighThreshold()) and Halfspaces, which are not told the number of units.",
    ),
)
