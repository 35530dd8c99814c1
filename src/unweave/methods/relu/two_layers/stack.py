"""Second-layer units put together: orientations, output layer, and the network.

With features ``h_i = relu(first layer)`` and pre-activations ``z_l = B_l . h + a_l`` known up to orientation,
``f - sum_l c_l |z_l| / 2`` is affine in h; its coefficients are ``sum_l s_l c_l B_l / 2`` plus whatever units are
always active contribute, and the signs s_l follow as in one hidden layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unweave.core.network import Network
from unweave.methods.base import Finding
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.methods.relu.two_layers.refine import is_large, refine_network, refine_spread, wants_spread
from unweave.methods.relu.two_layers.rest import significant, signs_with_rest, single_row, tolerant_signs
from unweave.probes.inquiry import Inquiry
from unweave.probes.planes import Planes

NOT_TWO = (
    "two hidden layers do not explain some points: a unit is too rare to be traced, or the network is deeper"
)

ALWAYS_ACTIVE = "layer 2 contains units that are always active: only their sum is visible"
SIDES_OPEN = (
    "layer 2: the sides of its units were not found; units that are always active stand for what they leave"
)

MOST_POINTS = 0.8
"""Share of the answers whose misfit says how far off a stack is that was not refined, ..."""
ROUGHEST = 1e3
"""... and how much farther it may be than one that was: beyond, units are missing."""


MOST_TRIMMED, GAIN = 12, 0.9
"""Fits to the points that are right so far, while they lower the median miss to this share."""


@dataclass(frozen=True)
class Stack:
    """A two-layer network and what is left open about it."""

    network: Network
    misfit: float
    """Median misfit on the questions asked so far, in error bars."""
    accuracy: float = 0.0
    """Error to expect of the network's answers, for inputs of unit size."""
    signs: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The side each unit it was made of is active on, ..."""
    rest: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """... and what they leave over that is linear in the first layer's features (planes, outputs)."""
    always_on: int = 0
    open_entries: tuple[tuple[int, int, int], ...] = ()
    """Weights of the network, (layer, unit, feature), that no answer has shown."""
    undetermined: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.network(x)

    def refined(self, inquiry: Inquiry, rng: np.random.Generator) -> Stack:
        """After least squares in every parameter, on the questions asked so far or on fresh ones."""
        if wants_spread(self.network):
            network = refine_spread(self.network, inquiry, rng)
        else:
            x, answers = inquiry.meter.transcript()
            network = refine_network(self.network, x, answers, inquiry.bars(x, answers))
        return replace(self, network=network, accuracy=_least_error(inquiry, network))

    def error(self, x: np.ndarray) -> np.ndarray:
        return self.accuracy * (1 + np.linalg.norm(x, axis=1))

    def finding(self, share_wrong: float) -> Finding:
        """The network, unless more than 2 % of fresh points contradict it; fewer are named as not determined."""
        clean = share_wrong == 0
        rare = (
            () if clean else (f"layer 2: a unit active at {share_wrong:.1%} of the fresh points, not traced",)
        )
        return Finding(
            self.network if share_wrong < 0.02 else None,
            reason="" if clean else NOT_TWO,
            warnings=self.warnings,
            undetermined=self.undetermined + rare,
            details={**self.details, "always_on": self.always_on, "open_entries": self.open_entries},
        )


def orient_first_layer(planes: Planes, units: list[PreActivation]) -> np.ndarray:
    """The side each first-layer unit is active on, from the affine parts of completely known units.

    ``z = sum_i B_i relu(s_i u_i) + a`` has the affine part ``sum_i B_i s_i n_i / 2``.
    """
    rows, rights = [], []
    for unit in units:
        if unit.known.all():
            bends = unit.weights[:, None] * planes.normals / 2
            rows.append(bends.T)
            rights.append(unit.gradient - unit.sides @ bends)
    if not rows:
        return np.zeros(len(planes))
    solution = np.linalg.lstsq(np.concatenate(rows), np.concatenate(rights), rcond=None)[0]
    return np.where(np.abs(np.abs(solution) - 1) < 0.3, np.sign(solution), 0.0)


def fit_stack(
    inquiry: Inquiry,
    planes: Planes,
    units: list[PreActivation],
    orientation: np.ndarray,
    max_points: int = 4000,
    refine: bool = True,
) -> Stack:
    """The network with these planes and units whose output layer fits the questions asked so far."""
    units = [u for u in units if np.any(u.known & (np.abs(u.weights) > 1e-9 * np.linalg.norm(u.gradient)))]
    orientation = np.where(orientation == 0, 1.0, orientation)
    rows, offsets = orientation[:, None] * planes.normals, orientation * planes.offsets
    second = np.array([np.where(u.known, u.weights, 0.0) for u in units]).reshape(len(units), len(planes))
    outputs = np.array([u.output for u in units]).reshape(len(units), inquiry.output_size)
    points = np.array([u.point for u in units]).reshape(len(units), inquiry.input_size)
    biases = -np.einsum("lm,lm->l", second, np.maximum(points @ rows.T + offsets, 0.0))
    x, answers = inquiry.meter.transcript()
    everything = x, answers, inquiry.bars(x, answers)
    if len(x) > max_points:
        chosen = np.linspace(0, len(x) - 1, max_points).astype(int)
        x, answers = x[chosen], answers[chosen]
    bars = inquiry.bars(x, answers)
    features = np.maximum(x @ rows.T + offsets, 0.0)
    bent = np.abs(features @ second.T + biases) @ (outputs / 2)
    solution, misfit, spread = _robust_fit(np.hstack([features, np.ones((len(x), 1))]), answers - bent, bars)
    tilt, constant = solution[:-1], solution[-1]
    vectors = (second[:, :, None] * outputs[:, None, :] / 2).reshape(len(units), tilt.size)
    # an open weight leaves its unit's output direction over in its own row, where the unit mostly is on
    shown = np.all([u.known for u in units], axis=0) if units else np.ones(len(planes), dtype=bool)
    found, error = tolerant_signs(
        vectors[:, np.repeat(shown, inquiry.output_size)], tilt[shown].ravel(), spread
    )
    warnings: tuple[str, ...] = ()
    open_signs: tuple[str, ...] = ()
    if found.signs is not None:
        signs = found.signs
        rest = significant(tilt - (signs @ vectors).reshape(tilt.shape), error) * ~shown[:, None]
        open_signs = tuple(
            f"layer 2, unit {i}: the side it is active on" for i in np.flatnonzero(~found.determined)
        )
    else:
        signs, rest = signs_with_rest(vectors, tilt, error, shown)
        warnings = (ALWAYS_ACTIVE if found.complete else SIDES_OPEN,)
    size = np.max(np.abs(second), axis=1, initial=0.0)[:, None] + 1e-300
    used = np.any(np.abs(second) > 1e-7 * size, axis=0) | np.any(rest != 0, axis=1)
    network = _assemble(
        rows[used], offsets[used], signs, second[:, used], biases, outputs, constant, rest[used]
    )
    hidden = [
        (i, j) for i, u in enumerate(units) for j in sorted({*np.flatnonzero(~u.known).tolist(), *u.assumed})
    ]
    open_weights = tuple(f"layer 2, unit {i}: weight of first-layer unit {j}" for i, j in hidden)
    place = np.cumsum(used) - 1
    accuracy = _least_error(inquiry, network)
    if refine and not is_large(network):
        network = refine_network(network, *everything)
    else:
        misses = np.max(np.abs(network(x) - answers), axis=1) / (1 + np.linalg.norm(x, axis=1))
        accuracy = float(np.clip(np.quantile(misses, MOST_POINTS), accuracy, ROUGHEST * accuracy))
    num_rest = len(network.weights[1]) - len(units)
    open_rest = tuple(
        f"layer 2, unit {len(units) + i}: always active, so its bias and its share of the sum"
        for i in range(num_rest)
    )
    return Stack(
        network,
        misfit,
        accuracy=accuracy,
        signs=signs,
        rest=rest,
        always_on=num_rest,
        open_entries=tuple((1, i, int(place[j])) for i, j in hidden if used[j]),
        undetermined=open_signs + open_weights + open_rest,
        warnings=warnings,
    )


def _least_error(inquiry: Inquiry, network: Network) -> float:
    return 1e-10 * (inquiry.slope + float(np.max(np.abs(network.biases[-1]))))


def _robust_fit(design: np.ndarray, right: np.ndarray, bars: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Least absolute deviations by reweighting: a minority of points that something unknown disturbs does no harm."""
    weights = 1 / bars
    solution = np.zeros((design.shape[1], right.shape[1]))
    sizes = np.ones(len(design))
    for _ in range(30):
        scaled = weights / np.sqrt(sizes)
        solution = np.linalg.lstsq(design * scaled[:, None], right * scaled[:, None], rcond=1e-13)[0]
        misses = np.max(np.abs(design @ solution - right), axis=1) * weights
        sizes = np.maximum(misses, 1.0)
    misfit = float(np.median(misses))
    for _ in range(MOST_TRIMMED):  # exactly, by the points that are not disturbed
        good = misses <= 10 * max(misfit, 1.0)
        scaled = weights[good, None]
        trimmed = np.linalg.lstsq(design[good] * scaled, right[good] * scaled, rcond=1e-13)[0]
        left = np.max(np.abs(design @ trimmed - right), axis=1) * weights
        if np.median(left) > GAIN * misfit:
            break
        solution, misses, misfit = trimmed, left, float(np.median(left))
    good = misses <= 10 * max(misfit, 1.0)
    spread = float(np.sqrt(np.linalg.norm(np.linalg.pinv(design[good] * weights[good, None]), 2) ** 2)) * max(
        misfit, 1.0
    )
    return solution, misfit, spread


def _assemble(rows, offsets, signs, second, biases, outputs, constant, rest) -> Network:
    """Units oriented by their signs; a rest linear in the first layer's features as always-active units or pairs."""
    weights2, biases2, columns = [signs[:, None] * second], [signs * biases], [outputs.T]
    # c |z|/2 + s c z/2 = c relu(s z), and the fitted affine part already contains s c (z - a)/2
    constant = constant - (signs * biases / 2) @ outputs
    for column, output in _rows_of(rest):
        if np.all(column >= 0) or np.all(column <= 0):
            sign = 1.0 if np.all(column >= 0) else -1.0
            weights2.append(sign * column[None])
            biases2.append(np.zeros(1))
            columns.append(sign * output[:, None])
        else:
            weights2.append(np.stack([column, -column]))
            biases2.append(np.zeros(2))
            columns.append(np.stack([output, -output], axis=1))
    return Network(
        [rows, np.concatenate(weights2), np.hstack(columns)],
        [offsets, np.concatenate(biases2), constant],
        ["relu", "relu", "identity"],
    )


def _rows_of(rest: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows over the first layer, each with its output weights, whose sum is ``rest``."""
    single = single_row(rest)
    if single is not None:
        return [single]
    return [(rest[:, k], np.eye(rest.shape[1])[k]) for k in range(rest.shape[1]) if rest[:, k].any()]
