"""One hidden layer on top of independent rows, from second differences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.far_field import curvature
from unweave.methods.far_field.curvature import read_rows
from unweave.methods.far_field.sight import Sight
from unweave.models.resolve import resolve


def plain_network(sizes: tuple[int, ...], seed: int) -> Network:
    """As torch initialises layers: uniform weights and biases up to one over the root of the inputs."""
    rng = np.random.default_rng(seed)
    bounds = [1 / np.sqrt(n) for n in sizes[:-1]]
    weights = [rng.uniform(-b, b, (m, n)) for b, m, n in zip(bounds, sizes[1:], sizes, strict=False)]
    biases = [rng.uniform(-b, b, m) for b, m in zip(bounds, sizes[1:], strict=True)]
    return Network(weights, biases, ["tanh"] * (len(sizes) - 2) + ["identity"])


def layer_of(network: Network) -> Any:
    """The places of the units' readings, far out on their hyperplanes."""
    rng, readings = np.random.default_rng(5), []
    for row, bias in zip(network.weights[0], network.biases[0], strict=True):
        base = 1e5 * rng.standard_normal(len(row))
        readings.append(SimpleNamespace(base=base - (row @ base + bias) / (row @ row) * row))
    return SimpleNamespace(readings=readings)


@pytest.mark.parametrize("sizes", [(40, 40, 15, 1), (50, 36, 12, 3)])
def test_rows_are_read_with_the_first_layer_known_up_to_shifts(sizes, monkeypatch):
    network, rng = plain_network(sizes, 1), np.random.default_rng(2)
    biases = network.biases[0] + 0.1 * rng.standard_normal(sizes[1])
    monkeypatch.setattr(curvature, "place_units", lambda sight, layer: (network.weights[0], biases))
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    rows = read_rows(sight, layer_of(network))
    assert rows is not None
    assert rows.shape == (sizes[2], sizes[1])
    truth = network.weights[1] / np.linalg.norm(network.weights[1], axis=1, keepdims=True)
    assert np.min(np.max(np.abs(truth @ rows.T), axis=1)) > 0.995


def test_a_layer_as_wide_as_the_first_does_not_show(monkeypatch):
    network = random_network((20, 20, 30, 1), "tanh", 1)
    monkeypatch.setattr(
        curvature, "place_units", lambda sight, layer: (network.weights[0], network.biases[0])
    )
    rng = np.random.default_rng(2)
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    assert read_rows(sight, layer_of(network)) is None


def with_a_weak_direction(size: float) -> Network:
    """Forty rows on forty inputs that hardly point in one direction."""
    network = plain_network((40, 40, 15, 1), 1)
    left, values, right = np.linalg.svd(network.weights[0])
    values[-1] = size * values[0]
    rows = (left * values) @ right
    return Network([rows, *network.weights[1:]], list(network.biases), list(network.activations))


def test_rows_are_read_where_the_first_layer_hardly_points_somewhere(monkeypatch):
    network, rng = with_a_weak_direction(3e-5), np.random.default_rng(2)
    weak = np.linalg.svd(network.weights[0])[2][-1]
    off = network.weights[0] + 1e-8 * rng.standard_normal((40, 1)) * weak
    monkeypatch.setattr(curvature, "place_units", lambda sight, layer: (off, network.biases[0]))
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    rows = read_rows(sight, layer_of(network))
    assert rows is not None
    assert rows.shape == (15, 40)
    truth = network.weights[1] / np.linalg.norm(network.weights[1], axis=1, keepdims=True)
    assert np.min(np.max(np.abs(truth @ rows.T), axis=1)) > 0.99


def test_many_units_under_few():
    network = plain_network((80, 64, 20, 2), 3)
    found = unweave.identify(network, method="far-field", time_limit=60)
    assert found.identified, found.reason
    assert found.ledger.by_stage["curvature"] > 0
    assert found.ledger.total < 3 * network.num_parameters
    assert unweave.compare(network, found.network).max_relative_error < 1e-7


def test_units_whose_curvatures_change_alike_take_a_third_place():
    rng = np.random.default_rng(1)
    span = np.linalg.qr(rng.standard_normal((20, 8)))[0]
    columns = span @ rng.standard_normal((8, 8))
    curvatures = rng.standard_normal((3, 8))
    curvatures[1, 1] = curvatures[0, 1] * curvatures[1, 0] / curvatures[0, 0]
    hessians = np.einsum("ij,oj,kj->oik", columns, curvatures, columns)
    assert curvature._diagonalise(span, hessians[:2], rng)[1] < curvature.APART
    found, apart = curvature._diagonalise(span, hessians, rng)
    assert apart > curvature.APART
    cosines = (columns / np.linalg.norm(columns, axis=0)).T @ (found / np.linalg.norm(found, axis=0))
    assert np.min(np.max(np.abs(cosines), axis=1)) > 1 - 1e-9


def test_units_of_little_effect_count():
    rng = np.random.default_rng(1)
    values = np.geomspace(1.0, 1e-3, 6)
    values[-1] = 2e-5  # a fall of two hundred before the last unit, of twenty-four behind it
    firsts = rng.standard_normal((30, 6)) * values @ np.linalg.qr(rng.standard_normal((20, 6)))[0].T
    span = curvature._span(firsts + 5e-7 * rng.standard_normal(firsts.shape))
    assert span is not None
    assert span.shape == (20, 6)


def test_the_common_part_of_few_differences_is_no_unit():
    rng = np.random.default_rng(1)
    firsts = rng.standard_normal(20) + 0.02 * rng.standard_normal((18, 20))
    assert curvature._span(firsts) is None
