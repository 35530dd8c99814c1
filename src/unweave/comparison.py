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
from unweave.core.arguments import numbers
from unweave.core.network import Network
from unweave.core.visibility import visible_error, wrong_share

NEAR = 1e-2
"""Parameters of activations that are farther apart make other units of them."""


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
    num_points: int = 0
    """On how many points the outputs were compared."""

    @property
    def same_architecture(self) -> bool:
        return _same_sizes(self.reference, self.aligned) and self.activation_error <= NEAR

    @property
    def activation_error(self) -> float:
        """How far apart slopes of leaky_relu, alphas of elu, bounds of clamps are; infinite for other activations."""
        names, others = self.reference.activations, self.aligned.activations
        if len(names) != len(others):
            return float("inf")
        return max((_apart(a, b) for a, b in zip(names, others, strict=True)), default=0.0)

    @property
    def max_relative_error(self) -> float:
        """The worst unit of the worst layer, or activation; infinite when the architectures differ."""
        return (
            max(self.activation_error, *(layer.max_relative_error for layer in self.per_layer))
            if self.same_architecture
            else float("inf")
        )

    def table(self) -> str:
        """A line a layer, then what was measured on points."""
        lines = [f"{'layer':>5}  {'matched':>7}  {'unmatched':>9}  {'max rel. error':>14}  {'rms':>8}"]
        lines += [
            f"{i + 1:>5}  {layer.num_matched:>7}  {layer.num_unmatched:>9}  "
            f"{layer.max_relative_error:>14.1e}  {layer.rms_relative_error:>8.1e}"
            for i, layer in enumerate(self.per_layer)
        ]
        if self.functional_error is not None:
            where = f"on {self.num_points:,} points: {self.functional_error:.1e} of their spread"
            lines.append(f"largest difference of outputs {where}")
        if self.visible_error is not None and self.wrong_share is not None:
            strict, visible = self.max_relative_error, self.visible_error
            lines.append(
                f"every parameter: {strict:.1e}, every visible parameter: {visible:.1e} (worst relative errors)"
            )
            lines.append(f"the function: it differs on {self.wrong_share:.2%} of the points")
        return "\n".join(lines)

    def __str__(self) -> str:
        """What ``unweave compare`` prints."""
        head = f"a: {self.reference.describe()}\nb: {self.aligned.describe()}"
        return f"{head}\n{self.table()}\nworst relative parameter error {self.max_relative_error:.1e}"


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

    Returns
    -------
    Comparison
        Errors by layer after alignment; ``max_relative_error`` is infinite where the architectures differ.

    Raises
    ------
    UnweaveError
        ``InputError`` for what holds no network of dense layers, or points of another number of inputs.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> a = unweave.Network([np.eye(2), [[1.0, 2.0]]], [None, None], ["tanh", "identity"])
    >>> b = unweave.Network([-np.eye(2)[::-1], [[-2.0, -1.0]]], [None, None], ["tanh", "identity"])
    >>> unweave.compare(a, b).max_relative_error
    0.0
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
        points = numbers("points", points)
        values = original_a(points)
        spread = max(float(np.std(values)), 1e-300)
        functional = float(np.max(np.abs(values - original_b(points))) / spread)
        if original_a.is_piecewise_linear and original_b.is_piecewise_linear:
            visible = visible_error(original_a, original_b, points)
            wrong = wrong_share(original_a, original_b, points)
    count = 0 if points is None else len(points)
    return Comparison(tuple(layers), reference, aligned, functional, visible, wrong, count)


def _apart(a: str, b: str) -> float:
    """The difference of the parameters of two activations, relative where they are above one."""
    (kind, _, given), (other, _, found) = a.partition("("), b.partition("(")
    if a == b:
        return 0.0
    values, others = ([float(v) for v in text.rstrip(")").split(",") if v] for text in (given, found))
    if kind != other or len(values) != len(others):
        return float("inf")
    return max(0.0 if v == w else abs(v - w) / max(1.0, abs(v)) for v, w in zip(values, others, strict=True))


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
