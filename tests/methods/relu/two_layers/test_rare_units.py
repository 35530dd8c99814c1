"""Second-layer units that are rarely on, nearly always on, or hardly ever on together with a unit they read."""

import numpy as np
import pytest

from truth import random_network
from unweave import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.relu.two_layers.beyond import measure_beyond
from unweave.methods.relu.two_layers.oriented import OrientedLayer
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.methods.relu.two_layers.refine import refine_spread
from unweave.methods.relu.two_layers.stack import fit_stack
from unweave.methods.relu.two_layers.steady import find_steady
from unweave.models.resolve import resolve
from unweave.probes.inquiry import Inquiry, open_inquiry
from unweave.probes.planes import Planes

SIZES = (6, 12, 10, 4)


def _layer(truth: Network) -> OrientedLayer:
    lengths = np.linalg.norm(truth.weights[0], axis=1)
    normals, offsets = truth.weights[0] / lengths[:, None], truth.biases[0] / lengths
    count = len(lengths)
    points = -offsets[:, None] * normals
    return OrientedLayer(
        Planes(normals, offsets, np.ones((count, 1)), np.zeros(count), points), np.ones(count)
    )


def _units(truth: Network, layer: OrientedLayer, which: list[int], x: np.ndarray) -> list[PreActivation]:
    """Units of the truth over the layer's features, begun between points of ``x`` where they are on and off."""
    lengths, units = np.linalg.norm(truth.weights[0], axis=1), []
    for i in which:
        column = truth.weights[2][:, i]
        size = np.linalg.norm(column)
        row = size * np.append(truth.weights[1][i] * lengths, truth.biases[1][i])
        on = layer.features(x) @ row[:-1] + row[-1] > 0
        units.append(layer.unit(row, np.ones(len(lengths), dtype=bool), column / size, x[on][0], x[~on][0]))
    return units


def _inquiry(truth: Network, rng: np.random.Generator) -> Inquiry:
    return open_inquiry(Meter(resolve(truth)), Precision(noise=1e-16, scale=1.0, kind="float64"), rng)


def _on(truth: Network, unit: int, x: np.ndarray) -> np.ndarray:
    h = np.maximum(x @ truth.weights[0].T + truth.biases[0], 0)
    return h @ truth.weights[1][unit] + truth.biases[1][unit] > 0


def _shifted(truth: Network, unit: int, quantile: float, x: np.ndarray) -> Network:
    """The network with the bias at which this share of ``x`` finds the unit off."""
    h = np.maximum(x @ truth.weights[0].T + truth.biases[0], 0)
    biases = [b.copy() for b in truth.biases]
    biases[1][unit] = -np.quantile(h @ truth.weights[1][unit], quantile)
    return Network(truth.weights, biases, truth.activations)


def test_a_unit_that_is_nearly_always_on_is_found_where_it_is_off():
    rng = np.random.default_rng(2)
    x = 3 * rng.standard_normal((4000, 6))
    truth = _shifted(random_network(SIZES, "relu", 5), 3, 0.0005, x)
    layer, inquiry = _layer(truth), _inquiry(truth, rng)
    inquiry.meter.ask(x[_on(truth, 3, x)])
    others = [i for i in range(10) if i != 3]
    stack = fit_stack(inquiry, layer.planes, _units(truth, layer, others, x), np.ones(12), refine=False)
    assert stack.always_on
    (unit,) = find_steady(inquiry, layer, stack, rng)
    (expected,) = _units(truth, layer, [3], x)
    np.testing.assert_allclose(unit.output, expected.output, atol=1e-8)
    np.testing.assert_allclose(unit.weights, expected.weights, atol=1e-7)
    assert abs(_argument(truth, 3, unit.point)) < 1e-6


def _argument(truth: Network, unit: int, x: np.ndarray) -> float:
    h = np.maximum(truth.weights[0] @ x + truth.biases[0], 0)
    return float(h @ truth.weights[1][unit] + truth.biases[1][unit])


@pytest.mark.parametrize("mostly_on", [False, True])
def test_an_open_weight_shows_beyond_its_plane(mostly_on):
    rng = np.random.default_rng(3)
    x = 3 * rng.standard_normal((4000, 6))
    truth = _shifted(random_network(SIZES, "relu", 5), 3, 0.1 if mostly_on else 0.9, x)
    layer, inquiry = _layer(truth), _inquiry(truth, rng)
    inquiry.meter.ask(x)
    resting = x[truth.weights[0][7] @ x.T + truth.biases[0][7] < 0]
    units = _units(truth, layer, list(range(10)), resting)
    expected = units[3].weights[7]
    units[3].weights[7], units[3].known[7] = 0.0, False
    stack = fit_stack(inquiry, layer.planes, units, np.ones(12), refine=False)
    assert measure_beyond(inquiry, layer, units, stack, rng) == 1
    np.testing.assert_allclose(units[3].weights[7], expected, rtol=1e-6)


def test_every_digit_of_a_unit_that_is_on_at_one_point_in_two_hundred():
    rng = np.random.default_rng(4)
    x = 3 * rng.standard_normal((20000, 6))
    truth = _shifted(random_network(SIZES, "relu", 5), 3, 0.995, x)
    inquiry = _inquiry(truth, rng)
    inquiry.meter.ask(x[_on(truth, 3, x)][:5])
    theta = truth.flat()
    start = truth.with_flat(theta * (1 + 1e-7 * rng.standard_normal(theta.shape)))
    refined = refine_spread(start, inquiry, rng)
    rare = x[_on(truth, 3, x)]
    assert np.max(np.abs(start(rare) - truth(rare))) > 1e-8
    np.testing.assert_allclose(refined(rare), truth(rare), rtol=0, atol=1e-12)
