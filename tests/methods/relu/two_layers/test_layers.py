"""Two hidden layers of relu units: every weight, few queries, and no claim where something is missing."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.certificates.base import FreshQueries
from unweave.certificates.kinks import LINES, check_kinks
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Problem
from unweave.methods.relu.two_layers.layers import ReluLayers
from unweave.methods.relu.two_layers.open_weights import complete_from_answers
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry
from unweave.probes.planes import Planes

EXACT = Precision(1e-16, 1.0, "float64")


def _recover(network, seed):
    meter = Meter(resolve(network))
    return ReluLayers().recover(meter, Problem(("relu",), None, EXACT, seed)), meter


@pytest.mark.parametrize(
    ("sizes", "seeds", "limit"),
    [
        ((20, 10, 10, 1), (0, 1, 2), 14),
        ((10, 10, 10, 1), (1, 2), 19),
        ((10, 10, 5, 1), (0, 2), 19),
        ((10, 15, 15, 1), (0, 5), 19),
        ((30, 20, 10, 1), (0,), 8),
    ],
)
def test_random_networks_come_back_exactly(sizes, seeds, limit):
    for seed in seeds:
        network = random_network(sizes, "relu", seed)
        finding, meter = _recover(network, seed)
        assert finding.network is not None, finding.reason
        assert finding.network.hidden == sizes[1:-1]
        assert unweave.compare(network, finding.network).max_relative_error <= 1e-8
        assert meter.ledger.total <= limit * network.num_parameters


def test_several_outputs_are_used_jointly():
    network = random_network((12, 8, 6, 3), "relu", 2)
    finding, _ = _recover(network, 2)
    assert finding.network is not None, finding.reason
    assert unweave.compare(network, finding.network).max_relative_error <= 1e-8


def test_identify_finds_the_depth_by_itself():
    network = random_network((10, 8, 5, 1), "relu", 4)
    found = unweave.identify(network, seed=4)
    assert found.identified, found.reason
    assert found.method == "relu-layers"
    assert unweave.compare(network, found.network).max_relative_error <= 1e-8


def test_an_always_active_unit_is_named():
    network = random_network((12, 6, 5, 1), "relu", 3)
    second, biases = network.weights[1].copy(), network.biases[1].copy()
    second[0], biases[0] = np.abs(second[0]), 1.0
    truth = Network(
        [network.weights[0], second, network.weights[2]],
        [network.biases[0], biases, network.biases[2]],
        network.activations,
    )
    finding, _ = _recover(truth, 3)
    assert finding.network is not None, finding.reason
    assert any("always active" in part for part in finding.undetermined)
    x = 1.5 * np.random.default_rng(0).standard_normal((2000, 12))
    np.testing.assert_allclose(finding.network(x), truth(x), atol=1e-8)


def test_of_a_network_that_does_not_close_the_first_layer_is_found_and_it_stays_open():
    sizes = (6, 6, 6, 6, 6, 2)
    network = random_network(sizes, "relu", 2)
    found = unweave.identify(network, seed=1, surrogate=False)
    assert found.outcome == "partly identified"
    assert found.network is not None
    assert found.network.is_open
    assert any(part.startswith("everything above layer") for part in found.undetermined)
    _assert_first_layers_agree(found.network, network)
    assert found.certificate is not None
    assert [check.figures["num_unconfirmed"] for check in found.certificate.checks] == [0]


def _assert_first_layers_agree(found: Network, truth: Network, *, sides: bool = True) -> None:
    """Unit by unit, each up to a positive scale; or of any sign, where the sides may be open."""
    ours, theirs = (
        np.hstack([n.weights[0], n.biases[0][:, None]]) / np.linalg.norm(n.weights[0], axis=1, keepdims=True)
        for n in (found, truth)
    )
    cosines = ours @ theirs.T
    if not sides:
        ours = ours * np.sign(cosines[np.arange(len(ours)), np.argmax(np.abs(cosines), axis=1)])[:, None]
    pairs = np.argmax(ours @ theirs.T, axis=1)
    assert sorted(pairs) == list(range(len(theirs)))
    np.testing.assert_allclose(ours, theirs[pairs], atol=1e-8)


def test_three_hidden_layers_come_back_exactly():
    network = random_network((8, 6, 5, 4, 1), "relu", 1)
    found = unweave.identify(network, seed=1)
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 1e-10


@pytest.mark.parametrize("budget", [4000, 5000])
def test_a_spent_budget_does_not_lose_the_first_layer(budget):
    network = random_network((14, 9, 7, 6, 2), "relu", 4)
    found = unweave.identify(network, seed=1, budget=budget)
    assert found.ledger.total <= budget
    assert found.outcome == "partly identified"
    assert "budget" in found.reason
    assert found.network is not None, found.reason
    _assert_first_layers_agree(found.network, network, sides=False)


def test_the_checks_see_a_missing_unit():
    network = random_network((10, 12, 1), "relu", 5)
    rng = np.random.default_rng(0)
    whole = {c.name: c for c in check_kinks(network, FreshQueries(Meter(resolve(network)), EXACT, rng))}
    assert all(check.passed for check in whole.values())
    assert whole[LINES].figures["num_unexplained"] == 0
    short = Network(
        [network.weights[0][1:], network.weights[1][:, 1:]],
        [network.biases[0][1:], network.biases[1]],
        network.activations,
    )
    checks = {c.name: c for c in check_kinks(short, FreshQueries(Meter(resolve(network)), EXACT, rng))}
    assert checks[LINES].passed is False
    assert checks[LINES].figures["num_unexplained"] > 0


@pytest.mark.parametrize(("bias", "weight"), [(2.0, 0.7), (-0.4, -40.0)], ids=["on", "off"])
def test_a_weight_no_crossing_shows_comes_from_the_answers(bias, weight):
    network = random_network((8, 5, 3, 1), "relu", 11)
    second, biases = network.weights[1].copy(), network.biases[1].copy()
    second[0, 2], biases[0] = weight, bias
    lengths = np.linalg.norm(network.weights[0], axis=1)
    truth = Network(
        [network.weights[0] / lengths[:, None], second, network.weights[2]],
        [network.biases[0] / lengths, biases, network.biases[2]],
        network.activations,
    )
    meter = Meter(resolve(truth))
    rng = np.random.default_rng(0)
    meter.ask(3 * rng.standard_normal((3000, 8)))
    inquiry = open_inquiry(meter, EXACT, rng)
    rows, offsets = truth.weights[0], truth.biases[0]
    none = np.zeros(5)
    planes = Planes(rows, offsets, np.zeros((5, 1)), none, -offsets[:, None] * rows)
    units = []
    for i in range(3):
        size = abs(truth.weights[2][0, i])
        x = 3 * rng.standard_normal((20000, 8))
        h = np.maximum(x @ rows.T + offsets, 0.0)
        x = x[h[:, 2] == 0]
        z = np.maximum(x @ rows.T + offsets, 0.0) @ second[i] + biases[i]
        low, high = x[np.argmin(z)], x[np.argmax(z)]
        for _ in range(200):
            middle = (low + high) / 2
            value = np.maximum(rows @ middle + offsets, 0.0) @ second[i] + biases[i]
            low, high = (middle, high) if value < 0 else (low, middle)
        heights = rows @ high + offsets
        gradient = size * (second[i] * (heights > 0)) @ rows
        known = np.ones(5, dtype=bool)
        known[2] = i != 0
        output = np.sign(truth.weights[2][:, i])
        units.append(
            PreActivation(high, gradient, np.sign(heights), size * second[i] * known, known, output, 0.0)
        )
    assert units[0].sides[2] < 0
    assert complete_from_answers(inquiry, planes, units, np.ones(5))
    assert units[0].known.all()
    if weight > 0:
        size = abs(truth.weights[2][0, 0])
        np.testing.assert_allclose(units[0].weights[2], size * weight, rtol=1e-7)
        assert not units[0].assumed
    else:
        assert units[0].assumed == {2}
