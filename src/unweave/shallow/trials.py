"""One cell of the landscape: teachers, starts, a solver, and a label for where every run ended.

The experiments of Soltanolkotabi, Javanmard and Lee 2017, section 3: inputs N(0, I), planted labels ``sum_l
phi(w*_l . x)`` with ``w*`` entries N(0, 1/d), or random labels N(0, 1); starts with entries of W N(0, 1/d) and output
weights +1 or -1 by coin. All runs of a piece form one stack.

Labels: *global*, loss below 1e-20 of that of the zero network (a loss can't be negative), ``proved`` when a test of
Newton and Kantorovich finds an exact interpolant next to it; *spurious*, second-order stationary in the relative metric
of the trust region; *escaping*, descends a valley to infinity towards a loss above 0 (a numerical judgement: the loss
over two windows, continued along 1/|weights|); *diverged*, left the numbers under constant steps; *undecided*.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.arguments import flag, number, one_of, whole
from unweave.shallow import gradient_descent, stacked, trust_region
from unweave.shallow.interpolation import check_interpolation
from unweave.shallow.loss import ShallowLoss

SOLVERS = ("descent", "levenberg-marquardt", "plain")
GLOBAL = 1e-20
"""Loss relative to that of the zero network."""
STATIONARY = 1e-6
"""Decrease promised within a relative unit ball, as a fraction of the loss."""
ESCAPE = 0.25
"""A run escapes when the loss at infinity, continued from its last window, keeps this fraction of the loss."""
NUM_WINDOWS = 12
MORE_STEPS = stacked.StackSettings(max_steps=100)
WINDOW = trust_region.TrustSettings(max_steps=150)


@dataclass(frozen=True)
class Recipe:
    """What is run in every cell. ``plain`` is constant-step descent as the paper describes it, then a polish."""

    activation: str = "softplus(10)"
    labels: str = "planted"
    solver: str = "descent"
    output_start: str = "signs"
    """``"signs"``: +1 or -1 by coin; ``"ones"``."""
    train_output: bool = True
    num_starts: int = 10
    seed: int = 0
    descent_steps: int = 1000
    step: float = 0.01
    """Of plain descent."""
    polish_steps: int = 400
    """Steps of Levenberg-Marquardt a run has to reach the global minimum; later ones only name its fate."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", act.get(self.activation).name)
        for name, known in (
            ("labels", ("planted", "random")),
            ("solver", SOLVERS),
            ("output_start", ("signs", "ones")),
        ):
            one_of(name, getattr(self, name), known)
        for name in ("num_starts", "descent_steps", "polish_steps"):
            whole(name, getattr(self, name), 1)
        whole("seed", self.seed)
        number("step", self.step, above=0)
        flag("train_output", self.train_output)


@dataclass(frozen=True, order=True)
class Cell:
    """n samples, d inputs, k hidden units."""

    n: int
    d: int
    k: int


@dataclass(frozen=True)
class Run:
    """How one run ended: one row of the table."""

    n: int
    d: int
    k: int
    teacher: int
    start: int
    num_negative: int
    """Negative output weights at the start."""
    label: str
    reached: bool
    """Whether a global minimum was found within the recipe's steps; a later one is *global* but not reached."""
    proved: bool
    loss: float
    """Relative to that of the zero network."""
    descent_loss: float
    """The same where descent handed over."""
    gradient: float
    curvature: float
    num_steps: int
    num_negative_end: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def draw_teacher(recipe: Recipe, cell: Cell, teacher: int) -> tuple[np.ndarray, np.ndarray]:
    """x (n, d) and y (n,) of one teacher."""
    rng = np.random.default_rng([recipe.seed, cell.n, cell.d, cell.k, teacher])
    x = rng.standard_normal((cell.n, cell.d))
    if recipe.labels == "random":
        return x, rng.standard_normal(cell.n)
    weights = rng.standard_normal((cell.k, cell.d)) / np.sqrt(cell.d)
    return x, np.sum(act.get(recipe.activation).value(x @ weights.T, np), axis=1)


def draw_start(recipe: Recipe, cell: Cell, teacher: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """W (k, d) and v (k,) of one start."""
    rng = np.random.default_rng([recipe.seed, cell.n, cell.d, cell.k, teacher, 1 + start])
    weights = rng.standard_normal((cell.k, cell.d)) / np.sqrt(cell.d)
    signs = rng.choice([-1.0, 1.0], cell.k)
    return weights, signs if recipe.output_start == "signs" else np.ones(cell.k)


def run_piece(recipe: Recipe, cell: Cell, teachers: tuple[int, ...]) -> list[Run]:
    """Every start of some teachers of a cell, as one stack."""
    began = time.process_time()
    data = [draw_teacher(recipe, cell, t) for t in teachers]
    starts = [draw_start(recipe, cell, t, s) for t in teachers for s in range(recipe.num_starts)]
    x, y = (np.repeat(np.array(values), recipe.num_starts, axis=0) for values in zip(*data, strict=True))
    weights, output = (np.array(values) for values in zip(*starts, strict=True))
    loss = ShallowLoss(x, y, act.get(recipe.activation), cell.k, None if recipe.train_output else output)
    theta, num_steps = _descend(recipe, loss, loss.join(weights, output))
    scale = np.mean(y**2, axis=1) / 2
    handed = loss.value(theta) / scale
    end = _settle(loss, theta, recipe.polish_steps)
    relative = end.value / scale
    proved = _prove(loss, end.parameters, end.label == "global")
    seconds = (time.process_time() - began) / len(starts)
    negative_end = np.sum(loss.split(end.parameters)[1] < 0, axis=1)
    return [
        Run(
            **asdict(cell),
            teacher=teachers[i // recipe.num_starts],
            start=i % recipe.num_starts,
            num_negative=int(np.sum(output[i] < 0)),
            label=str(end.label[i]),
            reached=bool(end.reached[i]),
            proved=bool(proved[i]),
            loss=float(relative[i]),
            descent_loss=float(handed[i]),
            gradient=float(end.gradient[i]),
            curvature=float(end.curvature[i]),
            num_steps=int(num_steps[i] + end.num_steps[i]),
            num_negative_end=int(negative_end[i]),
            seconds=round(seconds, 4),
        )
        for i in range(len(starts))
    ]


def _descend(recipe: Recipe, loss: ShallowLoss, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first phase, which decides the basin; single precision is enough for it."""
    if recipe.solver == "levenberg-marquardt":
        return theta, np.zeros(len(theta), dtype=int)
    output = None if loss.output is None else loss.output.astype(np.float32)
    single = ShallowLoss(
        loss.x.astype(np.float32), loss.y.astype(np.float32), loss.activation, loss.width, output
    )
    settings = gradient_descent.DescentSettings(
        max_steps=recipe.descent_steps,
        step=recipe.step if recipe.solver == "plain" else None,
        target=1e-8,
    )
    end = gradient_descent.descend_stack(single, theta.astype(np.float32), settings)
    parameters = end.parameters.astype(np.float64)
    parameters[~np.isfinite(end.value)] = np.nan
    return parameters, end.num_steps


class _Settling:
    """Where the runs of a stack stand; ``open`` are those whose fate is not known yet."""

    def __init__(self, loss: ShallowLoss, theta: np.ndarray):
        self.loss, self.parameters = loss, theta
        self.scale = np.mean(loss.y**2, axis=1) / 2
        self.value = loss.value(theta)
        self.gradient, self.curvature = np.full(len(theta), np.inf), np.full(len(theta), -np.inf)
        self.num_steps = np.zeros(len(theta), dtype=int)
        self.label = np.full(len(theta), "undecided")
        self.reached = np.zeros(len(theta), dtype=bool)

    @property
    def open(self) -> np.ndarray:
        return np.flatnonzero(self.label == "undecided")

    def take(self, runs: np.ndarray, parameters: np.ndarray, value: np.ndarray, steps: np.ndarray) -> None:
        """Record a window of steps; runs at loss zero are done, those that escape are named."""
        sizes = np.linalg.norm(self.parameters[runs], axis=1), np.linalg.norm(parameters, axis=1)
        limit = _loss_at_infinity(self.value[runs], value, *sizes)
        escaping = limit > ESCAPE * value
        self.parameters[runs], self.value[runs] = parameters, value
        self.num_steps[runs] += steps
        found = value <= GLOBAL * self.scale[runs]
        self.label[runs] = np.where(found, "global", np.where(escaping, "escaping", "undecided"))


def _loss_at_infinity(
    before: np.ndarray, after: np.ndarray, small: np.ndarray, large: np.ndarray
) -> np.ndarray:
    """The loss continued along ``1 / |theta|`` to 0; minus infinity where the weights hardly grew."""
    grew = large > 1.02 * small
    inverse = np.where(grew, 1 / np.maximum(large, 1e-300), 0.0)
    drop = (before - after) / np.where(grew, 1 / np.maximum(small, 1e-300) - inverse, 1.0)
    return np.where(grew, after - drop * inverse, -np.inf)


def _settle(loss: ShallowLoss, theta: np.ndarray, polish_steps: int) -> _Settling:
    """Levenberg-Marquardt to the bottom; windows of trust-region steps for runs that do not reach loss zero."""
    fine = np.all(np.isfinite(theta), axis=1)
    state = _Settling(loss, np.where(fine[:, None], theta, 0.0))
    state.label[~fine] = "diverged"
    runs = state.open
    settings = stacked.StackSettings(max_steps=polish_steps)
    end = stacked.minimise_stack(loss.rows(runs), state.parameters[runs], settings)
    state.take(runs, end.parameters, end.value, end.num_steps)
    state.label[state.label == "escaping"] = "undecided"
    state.reached = state.label == "global"
    if len(state.open):
        runs = state.open
        end = stacked.minimise_stack(loss.rows(runs), state.parameters[runs], MORE_STEPS)
        state.take(runs, end.parameters, end.value, end.num_steps)
        state.label[state.label == "escaping"] = "undecided"
    for _ in range(NUM_WINDOWS):
        runs = state.open
        if not len(runs):
            break
        rest = trust_region.descend_stack(loss.rows(runs), state.parameters[runs], WINDOW)
        state.take(runs, rest.parameters, rest.value, rest.num_steps)
        state.gradient[runs], state.curvature[runs] = rest.gradient, rest.curvature
        still = trust_region.promised_decrease(rest.gradient, rest.curvature) <= STATIONARY * rest.value
        state.label[runs] = np.where((state.label[runs] != "global") & still, "spurious", state.label[runs])
    return state


def _prove(loss: ShallowLoss, theta: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    proved = np.zeros(len(theta), dtype=bool)
    if chosen.any():
        found = check_interpolation(loss.rows(chosen).at(theta[chosen]))
        if found is not None:
            proved[chosen] = found.proved
    return proved
