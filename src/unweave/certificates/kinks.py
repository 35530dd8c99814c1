"""Further checks for piecewise-linear networks, where a few hundred points are too weak a certificate.

A missing unit may bend the function only in a rare corner. So: fresh points at several scales, as many as a quarter
of the parameters (up to 50 a unit, and 3000); points just beside every unit's zero set, on both sides; and kinks on
fresh lines that the recovered network does not explain, of which there must be none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.probes.inquiry import open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines

NUM_LINES = 2
NUM_PLANE_LINES = 4
PLANE_ERROR = 1e-6
"""How far a kink may lie from where a plane of the first layer predicts it, relative to the line."""


@dataclass(frozen=True)
class _Believed:
    """The recovered network with the accuracy that counts as agreement, relative to the growth of the outputs."""

    network: Network
    slope: float
    tolerance: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.network(x)

    def error(self, x: np.ndarray) -> np.ndarray:
        return self.tolerance * self.slope * (1 + np.linalg.norm(x, axis=1))


def piecewise_linear_checks(
    network: Network, meter: Meter, rng: np.random.Generator, precision: Precision | None = None
) -> dict[str, float]:
    """Figures of the further checks, charged to the stage ``certificate``; skipped as far as the budget forbids."""
    precision = Precision(0.0, 1.0, meter.oracle.dtype) if precision is None else precision
    figures: dict[str, float] = {}
    with meter.stage(CERTIFICATE):
        if meter.ledger.left < 40 + 24 * NUM_LINES:
            return figures
        inquiry = open_inquiry(meter, precision, rng)
        rough = max(1e-9, 30 * inquiry.relative)
        beside = _beside_zero_sets(network, meter, rng)
        scattered = _at_several_scales(network, meter, rng)
        for name, x in (("points_beside_kinks", beside), ("points_at_scales", scattered)):
            x = x[: int(max(0, min(len(x), meter.ledger.left - 24 * NUM_LINES)))]
            if not len(x):
                continue
            answers = meter.ask(x)
            x = meter.snap(x)
            size = inquiry.slope * (1 + np.linalg.norm(x, axis=1)) + np.max(np.abs(answers), axis=1)
            errors = np.max(np.abs(network(x) - answers), axis=1) / np.maximum(size, 1e-300)
            figures[f"num_{name}"] = float(len(x))
            figures[f"max_error_{name}"] = float(np.max(errors))
        lines = draw_lines(meter.domain, NUM_LINES, meter.input_size, rng)
        kinks = find_kinks(inquiry.against(_Believed(network, inquiry.slope, rough)), lines, num_nodes=6)
        figures["num_fresh_lines"] = float(NUM_LINES)
        figures["num_unexplained_kinks"] = float(sum(len(k.positions) + len(k.unresolved) for k in kinks))
    return figures


def first_layer_checks(
    network: Network, meter: Meter, rng: np.random.Generator, precision: Precision
) -> tuple[np.ndarray, np.ndarray]:
    """An open network's planes against kinks on fresh lines: relative errors of kinks, and which planes were confirmed.

    A unit far below the outputs may be cut off on part of a line, so a plane counts as confirmed by half of the
    lines it crosses.
    """
    with meter.stage(CERTIFICATE):
        inquiry = open_inquiry(meter, precision, rng)
        lines = draw_lines(meter.domain, NUM_PLANE_LINES, meter.input_size, rng)
        kinks = find_kinks(inquiry, lines)
    lengths = np.linalg.norm(network.weights[0], axis=1)
    rates = (network.weights[0] @ lines.directions.T) / lengths[:, None]
    heights = (network.weights[0] @ lines.origins.T + network.biases[0][:, None]) / lengths[:, None]
    places = -heights / np.where(rates == 0, np.inf, rates)
    within = (places > lines.low) & (places < lines.high)
    errors = np.full(places.shape, np.inf)
    for line, found in enumerate(kinks):
        seen = np.concatenate([found.positions, found.unresolved])
        if len(seen):
            apart = np.min(np.abs(seen[None] - places[:, line, None]), axis=1)
            errors[:, line] = apart / (np.abs(places[:, line]) + lines.scale[line])
    shown = within & (errors <= PLANE_ERROR)
    return errors[shown], (2 * shown.sum(axis=1) >= within.sum(axis=1)) & within.any(axis=1)


def _at_several_scales(network: Network, meter: Meter, rng: np.random.Generator) -> np.ndarray:
    """Fresh points, most of them from the domain; in an unbounded one at radii from a tenth to a hundred."""
    count = int(np.clip(min(network.num_parameters / 4 - 200, 50 * sum(network.hidden)), 0, 3000))
    d = meter.input_size
    x = meter.domain.sample(count, d, rng)
    if np.isinf(meter.domain.reach(d)):
        third = count // 3
        x[:third] = 10 ** rng.uniform(-1, 2, size=(third, 1)) * rng.standard_normal((third, d))
    return x


def _beside_zero_sets(
    network: Network, meter: Meter, rng: np.random.Generator, max_units: int = 100
) -> np.ndarray:
    """Two points close to the zero set of every hidden unit, one on either side, where a random segment crosses it."""
    d, points = meter.input_size, []
    start, end = meter.domain.sample(64, d, rng), meter.domain.sample(64, d, rng)
    for layer in range(network.num_layers - 1):
        low, high = start, end
        before, after = _arguments(network, start, layer), _arguments(network, end, layer)
        for unit in range(min(network.weights[layer].shape[0], max_units)):
            crossing = np.flatnonzero(before[:, unit] * after[:, unit] < 0)
            if not len(crossing):
                continue
            a, b = low[crossing[0]], high[crossing[0]]
            sign = np.sign(before[crossing[0], unit])
            for _ in range(40):
                middle = (a + b) / 2
                same = np.sign(_arguments(network, middle[None], layer)[0, unit]) == sign
                a, b = (middle, b) if same else (a, middle)
            step = 1e-4 * (end[crossing[0]] - start[crossing[0]])
            points += [a - step, b + step]
    x = np.array(points).reshape(-1, d)
    return x[meter.domain.contains(x)]


def _arguments(network: Network, x: np.ndarray, layer: int) -> np.ndarray:
    """What the units of hidden ``layer`` are applied to."""
    if layer == 0:
        return x @ network.weights[0].T + network.biases[0]
    below = Network(network.weights[:layer], network.biases[:layer], network.activations[:layer])
    return below(x) @ network.weights[layer].T + network.biases[layer]
