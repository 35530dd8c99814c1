"""Compare two networks up to the symmetries no observer can see.

Both are brought to normal form (``Network.normalised``), then the hidden units of the second are matched to
those of the first layer by layer: an optimal assignment on incoming rows, signs included, applied before the
next layer is looked at. Errors are relative to the unit they belong to: the largest difference in a unit's
incoming weights and bias over the largest of those numbers. When one of the two is an open network, whose upper part
is not known, only the first layers are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.core.visibility import visible_error, wrong_share


@dataclass(frozen=True)
class LayerComparison:
    """One layer after alignment; hidden layers of different widths have unmatched units."""

    max_relative_error: float
    rms_relative_error: float
    num_matched: int
    num_unmatched: int
    unit_errors: tuple[float, ...] = ()
    """The relative error of each matched unit."""


@dataclass(frozen=True)
class Comparison:
    """Parameter errors after alignment, and the functional distance where points were given."""

    per_layer: tuple[LayerComparison, ...]
    reference: Network
    aligned: Network
    functional_error: float | None = None
    visible_error: float | None = None
    """The worst relative error of the output of a relu unit that switches on the points (``visibility``)."""
    wrong_share: float | None = None
    """The share of the points at which the functions of two relu networks differ."""

    @property
    def same_architecture(self) -> bool:
        return _same_sizes(self.reference, self.aligned) and (
            self.reference.activations == self.aligned.activations
        )

    @property
    def max_relative_error(self) -> float:
        """The worst unit of the worst layer; infinite when the architectures differ."""
        return (
            max(layer.max_relative_error for layer in self.per_layer)
            if self.same_architecture
            else float("inf")
        )


def compare(a: Any, b: Any, *, points: np.ndarray | None = None) -> Comparison:
    """Align ``b`` with ``a`` up to symmetry and measure what is left.

    Parameters
    ----------
    a, b
        Networks, or anything that resolves to one: a saved network, an ONNX file, a torch module, a
        scikit-learn model.
    points
        Inputs (n, d) on which the largest difference of outputs, relative to the spread of ``a``'s
        outputs, is measured as well; of relu networks also what is visible there: every parameter that shows,
        and the function.
    """
    from unweave.models.resolve import resolve_network

    original_a, original_b = resolve_network(a), resolve_network(b)
    only_first = original_a.is_open or original_b.is_open
    if only_first:
        original_a, original_b, points = original_a.first_layer(), original_b.first_layer(), None
    reference, aligned = original_a.normalised(), original_b.normalised()
    layers = []
    for layer in range(min(len(reference.hidden), len(aligned.hidden))):
        if reference.weights[layer].shape[1] != aligned.weights[layer].shape[1]:
            break
        order, flips = _match(reference, aligned, layer)
        matched = order[1]
        if flips.any():
            aligned = aligned.flipped(layer, flips)
        rest = np.setdiff1d(np.arange(len(aligned.weights[layer])), matched)
        if len(rest) or len(order[0]) < len(reference.weights[layer]):
            layers.append(
                _layer_errors(reference, aligned, layer, order, _num_unmatched(reference, aligned, layer))
            )
            break
        aligned = aligned.permuted(layer, matched[np.argsort(order[0])])
        layers.append(_layer_errors(reference, aligned, layer, None, 0))
    if _same_sizes(reference, aligned) and not only_first:
        layers.append(_layer_errors(reference, aligned, reference.num_layers - 1, None, 0))
    functional = visible = wrong = None
    if points is not None:
        values = original_a(points)
        spread = max(float(np.std(values)), 1e-300)
        functional = float(np.max(np.abs(values - original_b(points))) / spread)
        if original_a.is_piecewise_linear and original_b.is_piecewise_linear:
            visible = visible_error(original_a, original_b, points)
            wrong = wrong_share(original_a, original_b, points)
    return Comparison(tuple(layers), reference, aligned, functional, visible, wrong)


def _same_sizes(a: Network, b: Network) -> bool:
    return [w.shape for w in a.weights] == [w.shape for w in b.weights]


def _match(
    reference: Network, other: Network, layer: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The best assignment of ``other``'s units to the reference's, and which of them to flip."""
    rows, others = _rows(reference, layer), _rows(other, layer)
    scale = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    straight = cdist(rows, others) / scale
    mirrored = cdist(rows, -others) / scale
    may_flip = act.get(other.activations[layer]).flips and reference.activations == other.activations
    cost = np.minimum(straight, mirrored) if may_flip else straight
    left, right = linear_sum_assignment(np.minimum(cost, 1e6))
    flips = np.zeros(len(others), dtype=bool)
    if may_flip:
        flips[right] = mirrored[left, right] < straight[left, right]
    return (left, right), flips


def _rows(network: Network, layer: int) -> np.ndarray:
    return np.hstack([network.weights[layer], network.biases[layer][:, None]])


def _num_unmatched(a: Network, b: Network, layer: int) -> int:
    return abs(len(a.weights[layer]) - len(b.weights[layer]))


def _layer_errors(a: Network, b: Network, layer: int, pairs, num_unmatched: int) -> LayerComparison:
    rows, others = _rows(a, layer), _rows(b, layer)
    if pairs is not None:
        rows, others = rows[pairs[0]], others[pairs[1]]
    scale = np.maximum(np.max(np.abs(rows), axis=1), 1e-300)
    worst = np.max(np.abs(rows - others), axis=1) / scale
    return LayerComparison(
        float(worst.max(initial=0.0)),
        float(np.sqrt(np.mean(worst**2))) if len(worst) else 0.0,
        len(worst),
        num_unmatched,
        tuple(map(float, worst)),
    )
