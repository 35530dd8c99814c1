"""Soltanolkotabi, Javanmard and Lee (2017): is a global minimum always reached? Figures 2 to 4.

Planted teachers (Figures 2, 3): a teacher is *clean* when every start reaches a global minimum; the paper prints where
a logistic curve through the shares of clean teachers crosses 1/2 (here: half of its plateau). Random labels (Figure
4): the loss against steps.

As stated: descent with constant steps from the paper's starts. The paper prints neither step nor number of steps; what
is used here is in the constants below, and Levenberg-Marquardt then goes to the bottom of the basin that descent chose.
unweave: adaptive descent and Levenberg-Marquardt (``landscape``), and ``fit`` for random labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from unweave.core import activations as act
from unweave.experiments.exhibits import Entry, Exhibit
from unweave.experiments.frame import (
    AS_STATED,
    UNWEAVE,
    Cell,
    Measured,
    Paper,
    Results,
    Scope,
    Stopwatch,
    setting,
)
from unweave.experiments.landscape_figures import clean_shares, draw_losses, draw_probabilities
from unweave.shallow.gradient_descent import DescentSettings, descend_stack
from unweave.shallow.interpolation import check_interpolation
from unweave.shallow.logistic import fit_logistic
from unweave.shallow.loss import ShallowLoss
from unweave.shallow.stacked import StackSettings, minimise_stack
from unweave.shallow.trials import GLOBAL, Recipe, draw_start, draw_teacher
from unweave.shallow.trials import Cell as Grid

NUM_SAMPLES = 100
PANELS = {
    "2a": ("softplus(10)", "k", {"d": 10}, range(8, 17), (8, 10, 12, 14)),
    "2b": ("softplus(10)", "d", {"k": 10}, range(7, 16), (8, 10, 12, 14)),
    "3a": ("quadratic", "k", {"d": 20}, range(2, 13), (3, 5, 7, 9)),
    "3b": ("quadratic", "d", {"k": 5}, range(12, 46, 3), (18, 24, 30, 36)),
}
"""Activation, the axis that varies, what is fixed, the values of a full run, those of a quick one."""
CROSSINGS = {"2a": "11.40", "2b": "10.70", "3a": "5.5", "3b": "25.40"}
STEP = {"softplus(10)": 0.05, "quadratic": 0.005}
"""Constant steps of descent as stated."""
NUM_STEPS = 2000
POLISH = StackSettings(max_steps=125)
RANDOM_LABELS = {"4a": ("softplus(10)", 10, (5, 10, 15, 20)), "4b": ("quadratic", 20, (5, 10, 15, 20))}
RANDOM_STEPS = {"quick": 5_000, "usual": 20_000, "full": 100_000}
KEEP_EVERY = 100


def plan(scope: Scope) -> list[Cell]:
    teachers, starts = scope.num_trials(5, 10, 10), 5 if scope.size == "quick" else 10
    cells = []
    for trial in range(teachers):
        for panel, (_, axis, fixed, values, few) in PANELS.items():
            for value in few if scope.size == "quick" else values:
                where = setting(panel=panel, **{"d": value, "k": value, **fixed, axis: value}, starts=starts)
                cells += [
                    Cell("planted", column, where, trial, scope.seed) for column in (AS_STATED, UNWEAVE)
                ]
    for trial in range(scope.num_trials(2, 3, 10)):
        for panel, (_, d, widths) in RANDOM_LABELS.items():
            for k in widths:
                steps = setting(panel=panel, d=d, k=k, steps=RANDOM_STEPS[scope.size])
                for outputs in ("one", "trained"):
                    where = (*steps, ("outputs", outputs))
                    cells.append(Cell("random labels", AS_STATED, where, trial, scope.seed))
                where = (*setting(panel=panel, d=d, k=k), ("outputs", "trained"))
                cells.append(Cell("random labels", UNWEAVE, where, trial, scope.seed))
    return cells


def run(cell: Cell) -> list[Measured]:
    return _planted(cell) if cell.study == "planted" else _random_labels(cell)


def _planted(cell: Cell) -> list[Measured]:
    """All starts of one teacher as one stack."""
    name = PANELS[cell["panel"]][0]
    recipe = Recipe(activation=name, num_starts=cell.number("starts"), seed=4000 + cell.seed)
    grid, watch = Grid(NUM_SAMPLES, cell.number("d"), cell.number("k")), Stopwatch()
    x, y = draw_teacher(recipe, grid, cell.trial)
    starts = [draw_start(recipe, grid, cell.trial, s) for s in range(recipe.num_starts)]
    weights, output = (np.array(values) for values in zip(*starts, strict=True))
    x, y = (np.repeat(a[None], len(weights), axis=0) for a in (x, y))
    loss = ShallowLoss(x, y, act.get(name), grid.k)
    step = STEP[name] if cell.column == AS_STATED else None
    settings = DescentSettings(max_steps=NUM_STEPS if step else 1000, step=step, target=1e-8)
    with watch.running(), np.errstate(over="ignore", invalid="ignore"):
        descended = descend_stack(loss, loss.join(weights, output), settings)
        fine = np.isfinite(descended.value)
        end = minimise_stack(loss.rows(fine), descended.parameters[fine], POLISH)
        reached = end.value <= GLOBAL * np.mean(loss.y[fine] ** 2, axis=1) / 2
        proved = check_interpolation(loss.rows(fine).at(end.parameters)) if fine.any() else None
    num_proved = 0 if proved is None else int(np.sum(proved.proved & reached))
    return [
        Measured("clean", float(np.sum(reached) == len(weights))),
        Measured("runs that reach it", float(np.sum(reached)) / len(weights)),
        Measured("runs proved", num_proved / len(weights)),
        Measured("steps", float(np.mean(descended.num_steps)) + float(np.sum(end.num_steps)) / len(weights)),
        Measured("seconds", watch.seconds),
    ]


def _random_labels(cell: Cell) -> list[Measured]:
    """``RMSE = sqrt(L)`` of one fit to random labels."""
    name = RANDOM_LABELS[cell["panel"]][0]
    recipe = Recipe(activation=name, labels="random", seed=5000 + cell.seed)
    grid, watch = Grid(NUM_SAMPLES, cell.number("d"), cell.number("k")), Stopwatch()
    x, y = draw_teacher(recipe, grid, cell.trial)
    if cell.column == UNWEAVE:
        from unweave.shallow.fitting import fit

        with watch.running():
            found = fit(x, y, activation=name, width=grid.k, seed=cell.seed)
        history, every = np.array(found.history), 1
        end = [Measured("steps", found.num_steps), Measured("certified", float(found.certified))]
        rmse = float(np.sqrt(max(found.loss, 0.0)))
    else:
        ones = cell["outputs"] == "one"
        recipe = replace(recipe, output_start="ones" if ones else "signs")
        weights, output = draw_start(recipe, grid, cell.trial, 0)
        loss = ShallowLoss(x[None], y[None], act.get(name), grid.k, output[None] if ones else None)
        settings = DescentSettings(max_steps=cell.number("steps"), step=STEP[name], target=1e-20)
        with watch.running(), np.errstate(over="ignore", invalid="ignore"):
            end_of = descend_stack(loss, loss.join(weights, output)[None], settings, every=KEEP_EVERY)
        history, every = end_of.history[:, 0], KEEP_EVERY
        end = [Measured("steps", int(end_of.num_steps[0]))]
        rmse = float(np.sqrt(end_of.value[0])) if np.isfinite(end_of.value[0]) else float("nan")
    places = np.unique(np.linspace(0, len(history) - 1, 60).astype(int))
    curve = [Measured("RMSE along", float(np.sqrt(max(history[i], 0.0))), float(i * every)) for i in places]
    curve = [m for m in curve if np.isfinite(m.value)]
    return [Measured("RMSE", rmse), *curve, *end, Measured("seconds", watch.seconds)]


def find_crossing(results: Results, column: str, where: Mapping[str, str]) -> dict[str, float]:
    """Where the fitted share of clean teachers crosses half of its plateau."""
    panel = where["panel"]
    groups = clean_shares(results, panel, column, PANELS[panel][1])
    at = np.array(sorted(groups))
    fitted = fit_logistic(at, np.array([sum(groups[t]) for t in at]), np.array([len(groups[t]) for t in at]))
    return {} if fitted is None else {"crossing": fitted.crossing}


def _panels(figure: str) -> Exhibit:
    chosen = tuple(panel for panel in PANELS if panel.startswith(figure))
    printed = {(panel,): {"crossing": CROSSINGS[panel]} for panel in chosen}
    name = {"2": "softplus", "3": "quadratic"}[figure]
    return Exhibit(
        (f"Figure {figure}",),
        f"Every start reaches a global minimum, {name} units",
        ("panel",),
        (
            Entry("crossing", "crossing", "planted", "planted"),
            Entry("clean teachers", "clean", "planted", "planted"),
            Entry("runs that reach it", "runs that reach it", "planted", "planted"),
            Entry("steps", "steps", "planted", "planted", style="count"),
            Entry("CPU s a teacher", "seconds", "planted", "planted", style="seconds", statistic="median"),
        ),
        printed,
        {"panel": chosen},
        draw_probabilities,
        "Panel a varies k, panel b varies d. The crossing is that of a logistic curve through the shares of clean "
        "teachers; a trial is a teacher at one point of the axis, with all its starts. "
        + (
            "The paper's caption and text disagree about d and k; the text is followed."
            if figure == "3"
            else ""
        ),
        find_crossing,
    )


EXHIBITS = (
    _panels("2"),
    _panels("3"),
    Exhibit(
        ("Figure 4",),
        "Random labels fitted",
        ("panel", "d", "k", "outputs"),
        (
            Entry("RMSE", "RMSE", "random labels", "random labels", style="error", statistic="median"),
            Entry("steps", "steps", "random labels", "random labels", style="count"),
            Entry("certified", "certified", "", "random labels"),
            Entry("CPU s", "seconds", "random labels", "random labels", style="seconds", statistic="median"),
        ),
        {
            (panel, str(d), str(k), "one"): {"RMSE": "0" if k * d > 1.5 * NUM_SAMPLES else "–"}
            for panel, (_, d, widths) in RANDOM_LABELS.items()
            for k in widths
        },
        draw=draw_losses,
        note="The paper writes the network with output weights 1, which can't fit negative labels by these units; with "
        "trained output weights its statement (zero for k d > 1.5 n) holds.",
    ),
)

PAPER = Paper(
    name="landscape",
    title="The landscape of over-parameterised shallow networks",
    reference="Soltanolkotabi, Javanmard, Lee: Theoretical insights into the optimization landscape of "
    "over-parameterized shallow neural networks (2017)",
    parameters=("panel", "d", "k", "outputs", "starts", "steps"),
    plan=plan,
    run=run,
    exhibits=EXHIBITS,
    notes=(
        f"n = {NUM_SAMPLES} samples. As stated: constant steps ({STEP['softplus(10)']} softplus, {STEP['quadratic']} "
        f"quadratic; the paper prints none), at most {NUM_STEPS} for planted teachers, then Levenberg-Marquardt to the "
        "bottom of the basin so that success does not depend on patience.",
        "unweave: adaptive descent, then Levenberg-Marquardt; for random labels fit() with its default method, whose "
        "global minima are certified.",
    ),
)
