"""Relu networks from noisy or rounded answers, where there is no bound on the questions: their weights from afar.

The error of such answers does not grow with them. Seen from a distance at which it is no larger than float64 rounding
(``FarView``) the network is exact, with planes through the origin, and the methods for exact answers find its weights
and sides. There every answer is the same plus a sum of biases, those of the units that are active: biases are linear
least squares at points far beyond them. Near points, chosen by information, and one fit of everything asked then reach
what the error of the answers allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from unweave.core.network import Network
from unweave.evidence.far_view import FarView
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision, measure_precision
from unweave.methods.base import Finding, Problem
from unweave.solve.design import telling_points
from unweave.solve.layout import Layout
from unweave.solve.weighted import answer_accuracy, weighted_polish

VIEW = 3e-15
"""Error of an answer in the view, relative to the spread: what float64 rounding leaves anyway."""
BEYOND = 1e5
"""Radius at which biases are read: so far beyond all but the largest of them."""
A_BIAS = 12
"""Answers for each bias far out."""
GOALS = ((1e-3, 8, 30), (6e-3, 250, 4))
"""Standard errors, relative to a unit's largest parameter, the most near answers a parameter to reach each, and points
looked at for each answer. A good fit costs little, but a unit that adds no more than the error of an answer should
still be determined: there numbers count, not places."""
MOST = 30_000
"""Near answers in all."""
SMOOTH = 4.0
"""Level of what is left of near answers, in expected errors, at which the units are not those of a relu network."""
RESERVE = 2000
"""Questions of a budget that are left to the certificate."""
OUTLIER = 6.0
"""Deviations beyond which an answer lies on the other side of a plane than its direction says."""


def is_afar(meter: Meter, precision: Precision) -> bool:
    """Whether the answers have an error of one size and may be asked for from any distance."""
    endless = np.isinf(meter.domain.reach(meter.input_size)) and not meter.is_squashed
    return endless and precision.kind in ("noisy", "rounded") and precision.relative > 0


def recover_from_afar(
    meter: Meter, problem: Problem, recover: Callable[[Meter, Problem], Finding]
) -> Finding:
    """The network that ``recover`` finds in the view from afar, with its biases."""
    precision, rng = problem.precision, problem.rng("from afar")
    view = cast(Meter, FarView(meter, precision.noise / (VIEW * precision.scale)))
    there = measure_precision(view, rng)
    if there.kind in ("noisy", "rounded"):
        return Finding(None, reason="the error of the answers grows with them: give a bounded domain")
    finding = recover(view, replace(problem, precision=there))
    if finding.network is None or finding.network.is_open:
        return finding
    network = _read_biases(finding.network, meter, precision, there.unit, rng)
    network, level = _settle(network, meter, precision, there.unit, rng)
    if level > SMOOTH:
        return Finding(
            None, reason=f"near their hyperplanes the units bend smoothly ({level:.1g} error bars)"
        )
    noise = level * precision.noise if precision.kind == "noisy" else None
    return replace(finding, network=network, noise=noise, conclusive=True, kept=None)


def _read_biases(
    network: Network, meter: Meter, precision: Precision, unit: float, rng: np.random.Generator
) -> Network:
    """Biases from answers far out, each the answer without biases and the sum of those that count there."""
    bare = Network(network.weights, [0 * b for b in network.biases], network.activations)
    layout, theta = Layout.of(bare), bare.flat()
    columns = np.flatnonzero(np.concatenate([_is_bias(*w.shape) for w in bare.weights]))
    x = rng.standard_normal((A_BIAS * len(columns), meter.input_size))
    x *= BEYOND / np.linalg.norm(x, axis=1, keepdims=True)
    with meter.stage("biases"):
        y = meter.ask(x)
    x = meter.snap(x)
    outputs, jacobian = layout.linearise(theta, x)
    sigma = answer_accuracy(bare, x, precision.noise, unit).ravel()
    design, rest = jacobian[:, columns] / sigma[:, None], (y - outputs).ravel() / sigma
    kept = np.ones(len(rest), dtype=bool)
    for _ in range(10):
        found = np.linalg.lstsq(design[kept], rest[kept], rcond=1e-9)[0]
        misses = np.abs(rest - design @ found)
        level = 1.5 * float(np.median(misses))
        again = misses <= OUTLIER * max(level, 1e-300)
        if np.array_equal(again, kept):
            break
        kept = again
    theta[columns] = found
    return layout.network(theta)


def _settle(
    network: Network, meter: Meter, precision: Precision, unit: float, rng: np.random.Generator
) -> tuple[Network, float]:
    """The network after telling near answers and a fit of all; also the level of what is left, in expected errors."""

    def draw(count: int) -> np.ndarray:
        radii = 10 ** rng.uniform(-0.5, 1.5, size=(count, 1))
        return radii * rng.standard_normal((count, meter.input_size)) * size

    size = _typical_distance(network)
    x, _ = meter.transcript("biases")
    for goal, share, choice in GOALS:
        most = int(max(min(share * network.num_parameters, MOST, meter.ledger.left - RESERVE), 0))
        points = telling_points(network, x, draw, noise=precision.noise, goal=goal, most=most, choice=choice)
        x = np.concatenate([x, points])
        with meter.stage("points"):
            meter.ask(points)
    x, y = meter.transcript()
    network = weighted_polish(network, x, y, precision.noise, unit=unit, max_steps=6)
    x, y = meter.transcript("biases", "points")
    misses = (network(x) - y) / answer_accuracy(network, x, precision.noise, unit)
    free = max(misses.size - network.num_parameters + sum(network.hidden), 1)
    return network, float(np.sqrt(np.sum(misses**2) / free))


def _typical_distance(network: Network) -> float:
    """How far from the origin the planes of the first layer typically are, for each input."""
    lengths = np.maximum(np.linalg.norm(network.weights[0], axis=1), 1e-300)
    distances = np.abs(network.biases[0]) / lengths
    return max(float(np.median(distances)), 1e-6 * float(np.max(distances)), 1e-300)


def _is_bias(rows: int, inputs: int) -> np.ndarray:
    """Which entries of a layer's block of the parameters are biases."""
    return np.tile(np.append(np.zeros(inputs, dtype=bool), True), rows)
