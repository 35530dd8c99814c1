"""A second-layer unit from what all others leave over."""

import numpy as np
import pytest

from truth import random_network
from unweave import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.relu.two_layers.left_over import find_left_over
from unweave.methods.relu.two_layers.oriented import OrientedLayer
from unweave.methods.relu.two_layers.stack import Stack
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry
from unweave.probes.planes import Planes


def _planes(truth: Network) -> tuple[Planes, np.ndarray]:
    lengths = np.linalg.norm(truth.weights[0], axis=1)
    normals, offsets = truth.weights[0] / lengths[:, None], truth.biases[0] / lengths
    count = len(lengths)
    points = -offsets[:, None] * normals
    return Planes(normals, offsets, np.ones((count, 1)), np.zeros(count), points), lengths


@pytest.mark.parametrize("missing", [[0], [2, 7]])
def test_units_missing_from_a_stack_are_found(missing):
    truth = random_network((6, 12, 10, 3), "relu", 5)
    kept = np.setdiff1d(np.arange(10), missing)
    short = Network(
        [truth.weights[0], truth.weights[1][kept], truth.weights[2][:, kept]],
        [truth.biases[0], truth.biases[1][kept], truth.biases[2]],
        truth.activations,
    )
    rng = np.random.default_rng(1)
    meter = Meter(resolve(truth))
    inquiry = open_inquiry(meter, Precision(noise=1e-16, scale=1.0, kind="float64"), rng)
    # mostly where the missing units rest, as after a search that has missed them
    x = 3 * rng.standard_normal((8000, 6))
    on = np.any(
        np.maximum(x @ truth.weights[0].T + truth.biases[0], 0) @ truth.weights[1][missing].T
        + truth.biases[1][missing]
        > 0,
        axis=1,
    )
    meter.ask(np.concatenate([x[~on], x[on][: int(0.4 * np.sum(~on))]]))
    planes, lengths = _planes(truth)
    found = find_left_over(inquiry, OrientedLayer(planes, np.ones(12)), Stack(short, 0.0, 1e-12), rng)
    assert len(found) == len(missing)
    for unit in found:
        rows = truth.weights[1][missing] * lengths
        cosines = rows @ unit.weights / np.linalg.norm(rows, axis=1) / np.linalg.norm(unit.weights)
        assert np.max(cosines) > 1 - 1e-10
        best = missing[int(np.argmax(cosines))]
        column = truth.weights[2][:, best]
        np.testing.assert_allclose(unit.output, column / np.linalg.norm(column), atol=1e-7)
        heights = np.maximum(truth.weights[0] @ unit.point + truth.biases[0], 0)
        assert abs(heights @ truth.weights[1][best] + truth.biases[1][best]) < 1e-7


def test_a_whole_stack_leaves_nothing_over():
    truth = random_network((6, 12, 10, 3), "relu", 5)
    rng = np.random.default_rng(1)
    meter = Meter(resolve(truth))
    inquiry = open_inquiry(meter, Precision(noise=1e-16, scale=1.0, kind="float64"), rng)
    meter.ask(3 * rng.standard_normal((500, 6)))
    planes, _ = _planes(truth)
    assert find_left_over(inquiry, OrientedLayer(planes, np.ones(12)), Stack(truth, 0.0, 1e-12), rng) == []
