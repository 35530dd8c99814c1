"""Single precision: every parameter from all answers, weighted by their rounding, and the questions that tell most.

An answer in single precision is as exact as the units that are on at its point (``solve/propagated``); the answers that
were asked for the skeleton, far out, are weighed like all others. Points that bring the standard errors down are looked
for by climbing (``solve/aim``), first to a low goal for few questions, then to a looser one for more. The residual says
how large the errors are: their level, and whether the most exact answers are less exact than rounding explains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.skeleton.alpha import fit_alpha, has_alpha
from unweave.methods.skeleton.settle import window_points
from unweave.solve.aim import aimed_points
from unweave.solve.alone import points_alone
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.propagated import propagated_rounding

GOALS = ((2.5e-6, 6, 1), (3.5e-6, 20, 2), (4.5e-6, 60, 2))
"""Standard errors, relative to the largest parameter of a unit, that are asked for, questions a parameter up to which
they are, and the effort of looking for them."""
USUAL_LEVEL, LEAST_LEVEL = 0.8, 0.75
"""Errors of answers in propagated roundings: what they are before anything is fitted, and the least taken for true
(residuals of answers that were chosen for what they tell are smaller than their errors)."""
EXACT_SHARE, UNEVEN = 0.25, 1.5
"""Of the answers, those that should be the most exact; times the level of all from which on they are less exact."""
NUM_FITS = 2
"""Fits after new answers; the weights of the second are those of the first's network."""
OUTLIERS = (1e3, 30.0)
"""Answers that miss by so many times the median miss say nothing about small corrections."""
ANSWERS, FEWEST_ANSWERS = 6, 4000
"""Answers a parameter, and at least, that a fit uses; of those asked far out as many as that leaves."""
NEARBY = ("settle", "quiet units", "windows")
"""Stages whose answers are used in any case."""
NUM_WEAK = 3
"""Units with the least output weights, which are looked for alone."""
FAR, WINDOWS = 30.0, (1.0, 100.0)
"""Radii up to which points are drawn near the origin, and between which in windows."""


@dataclass(frozen=True)
class Accuracy:
    """How exact answers are: propagated rounding times ``level``, and ``floor`` that no answer is below."""

    unit: float
    level: float = USUAL_LEVEL
    floor: float = 0.0

    def at(self, network: Network, x: np.ndarray) -> np.ndarray:
        """The standard deviation of each answer, (n, outputs)."""
        return np.hypot(self.level * propagated_rounding(network, x, self.unit), self.floor)

    def calibrated(self, network: Network, x: np.ndarray, y: np.ndarray) -> Accuracy:
        """As the residual of a fitted network has it."""
        told = propagated_rounding(network, x, self.unit).ravel()
        missed = (network(x) - y).ravel()
        free = max(1 - network.num_parameters / len(told), 0.1)
        level = max(float(np.sqrt(np.mean((missed / told) ** 2) / free)), LEAST_LEVEL)
        exact = np.argsort(told)[: max(int(EXACT_SHARE * len(told)), 1)]
        if np.sqrt(np.mean((missed[exact] / told[exact]) ** 2)) <= UNEVEN * level:
            return Accuracy(self.unit, level)
        more = float(np.mean(missed[exact] ** 2 - (level * told[exact]) ** 2))
        return Accuracy(self.unit, level, np.sqrt(max(more, 0.0)))


def sharpen(meter: Meter, network: Network, precision: Precision, rng: np.random.Generator) -> Network:
    """The network fitted to everything asked, and to points that bring its standard errors below the goals."""
    accuracy = Accuracy(precision.unit)
    x, y = known_answers(meter, network, rng)
    network, accuracy = _fit(network, x, y, accuracy)
    asked = 0
    for goal, share, effort in GOALS:
        most = share * network.num_parameters // meter.output_size - asked
        points = _aim(meter, network, x, accuracy, goal, most, rng, effort)
        if len(points):
            with meter.stage("settle"):
                answers = meter.ask(points)
            asked += len(points)
            x, y = np.concatenate([x, points]), np.concatenate([y, answers])
            network, accuracy = _fit(network, x, y, accuracy)
    return network


def known_answers(meter: Meter, network: Network, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The answers that a fit of every parameter uses: those near by, and as many of the others as it needs."""
    x, y = meter.transcript()
    near_x, near_y = meter.transcript(*NEARBY)
    most = max(ANSWERS * network.num_parameters // meter.output_size, FEWEST_ANSWERS)
    if len(x) <= most:
        return x, y
    chosen = np.sort(rng.permutation(len(x))[: max(most - len(near_x), most // 2)])
    x, y = np.concatenate([near_x, x[chosen]]), np.concatenate([near_y, y[chosen]])
    first = np.sort(np.unique(x, axis=0, return_index=True)[1])
    return x[first], y[first]


def _aim(
    meter: Meter,
    network: Network,
    x: np.ndarray,
    accuracy: Accuracy,
    goal: float,
    most: int,
    rng: np.random.Generator,
    effort: int,
) -> np.ndarray:
    d = meter.input_size

    alone = _alone(network, rng)

    def draw(count: int) -> np.ndarray:
        windows = window_points(network, count // (2 * sum(network.hidden)) + 1, WINDOWS, rng)
        near = rng.standard_normal((max(count - len(windows), 1), d))
        near *= FAR ** rng.uniform(-0.3, 1, (len(near), 1)) / np.linalg.norm(near, axis=1, keepdims=True)
        return np.concatenate([near, windows, alone])

    points = aimed_points(
        network,
        x,
        draw,
        error=lambda points: accuracy.at(network, points),
        allowed=meter.domain.contains,
        goal=goal,
        most=most,
        rng=rng,
        effort=effort,
    )
    return meter.snap(points)


def _alone(network: Network, rng: np.random.Generator) -> np.ndarray:
    """Points at which the weakest units of a single hidden layer are heard alone, where the others then add nothing."""
    if len(network.hidden) > 1 or act.get(network.activations[0]).limits[0] != 0:
        return np.zeros((0, network.input_size))
    weakest = np.argsort(np.linalg.norm(network.weights[1], axis=0))[:NUM_WEAK]
    return np.concatenate([points_alone(network, int(unit), rng) for unit in weakest])


def _fit(network: Network, x: np.ndarray, y: np.ndarray, accuracy: Accuracy) -> tuple[Network, Accuracy]:
    """Every parameter, with the alpha of elu, and what the residual says of the answers' errors."""
    if has_alpha(network):
        network = fit_alpha(network, x, y, accuracy.at(network, x), accuracy.unit).network
    for outlier in OUTLIERS:
        errors = accuracy.at(network, x)
        misses = np.max(np.abs(network(x) - y) / errors, axis=1)
        sound = misses <= outlier * max(float(np.median(misses)), 1.0)
        network = polish_weighted(network, x[sound], y[sound], errors[sound], max_steps=4).network
    for _ in range(NUM_FITS):
        accuracy = accuracy.calibrated(network, x, y)
        network = polish_weighted(network, x, y, accuracy.at(network, x), max_steps=4).network
    return network, accuracy
