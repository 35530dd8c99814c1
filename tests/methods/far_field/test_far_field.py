"""Far field: whole networks from far-out queries, and honest ends where it does not apply."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Problem
from unweave.methods.far_field.method import FarField
from unweave.models.resolve import resolve


def recover(network: Network, activations=("tanh", "erf"), hidden=None, domain=None, seed: int = 3):
    meter = Meter(resolve(network), domain=domain)
    scale = float(np.std(network(np.random.default_rng(0).standard_normal((64, network.input_size)))))
    problem = Problem(activations, hidden, Precision(2e-16 * scale, scale, "float64"), seed)
    return FarField().recover(meter, problem), meter


@pytest.mark.parametrize(
    ("sizes", "activation"),
    [
        ((10, 16, 1), "tanh"),
        ((10, 16, 1), "sigmoid"),
        ((4, 24, 2), "erf"),
        ((12, 10, 3, 1), "tanh"),
        ((8, 12, 5, 3), "sigmoid"),
        ((9, 10, 4, 2), "erf"),
    ],
)
def test_widths_activation_and_every_parameter_are_found(sizes, activation):
    truth = random_network(sizes, activation, seed=11)
    finding, meter = recover(truth)
    assert finding.network is not None, finding.reason
    assert unweave.compare(truth, finding.network).max_relative_error < 1e-9
    assert meter.ledger.total < 5 * truth.num_parameters


def test_sigmoid_is_written_as_sigmoid_when_asked_for():
    truth = random_network((6, 5, 1), "sigmoid", seed=2)
    finding, _ = recover(truth, activations=("sigmoid",))
    assert finding.network is not None
    assert finding.network.activations == ("sigmoid", "identity")
    assert unweave.compare(truth, finding.network).max_relative_error < 1e-9


def test_units_that_switch_together_are_told_apart():
    truth = random_network((8, 6, 1), "tanh", seed=5)
    rows = truth.weights[0].copy()
    rows[1] = rows[0] + 1e-3 * np.random.default_rng(0).standard_normal(8)
    close = Network([rows, *truth.weights[1:]], truth.biases, truth.activations)
    finding, _ = recover(close)
    assert finding.network is not None, finding.reason
    assert unweave.compare(close, finding.network).max_relative_error < 1e-6


def test_large_biases_and_unequal_norms():
    truth = random_network((7, 9, 1), "tanh", seed=8)
    factors = np.geomspace(0.05, 30, 9)
    biases = np.linspace(-12, 12, 9)
    wild = Network(
        [truth.weights[0] * factors[:, None], truth.weights[1]], [biases, truth.biases[1]], truth.activations
    )
    finding, _ = recover(wild)
    assert finding.network is not None, finding.reason
    assert unweave.compare(wild, finding.network).max_relative_error < 1e-8


def test_a_given_second_width_is_used():
    truth = random_network((10, 8, 3, 1), "tanh", seed=4)
    finding, _ = recover(truth, hidden=(8, 3))
    assert finding.network is not None
    assert finding.network.hidden == (8, 3)


def test_steps_are_not_taken_for_smooth_units():
    truth = random_network((5, 4, 1), "tanh", seed=1)
    stepped = Network(truth.weights, truth.biases, ["step", "identity"])
    finding, meter = recover(stepped)
    assert finding.network is None
    assert finding.conclusive
    assert "jump" in finding.reason
    assert meter.ledger.total < 1000


@pytest.mark.parametrize("domain", [unweave.Ball(10.0), unweave.Box(-3.0, 3.0)])
def test_small_domains_are_refused_without_a_question(domain):
    finding, meter = recover(random_network((5, 4, 1), "tanh"), domain=domain)
    assert finding.network is None
    assert "in-domain" in finding.reason
    assert meter.ledger.total == 0


def test_no_question_leaves_a_large_ball():
    truth = random_network((6, 8, 1), "tanh", seed=6)
    finding, meter = recover(truth, domain=unweave.Ball(3e5))
    assert finding.network is not None, finding.reason
    assert unweave.compare(truth, finding.network).max_relative_error < 1e-8
    assert np.max(np.linalg.norm(meter.transcript()[0], axis=1)) <= 3e5 * (1 + 1e-9)


def test_an_unknown_saturating_activation_is_not_passed_off_as_tanh():
    truth = random_network((6, 6, 1), "tanh", seed=9)

    def softsign_cubed(x):
        z = x @ truth.weights[0].T + truth.biases[0]
        return np.tanh(z + 0.3 * np.tanh(z) ** 3) @ truth.weights[1].T

    found = unweave.identify(softsign_cubed, input_size=6, surrogate=False)
    assert not found.identified
    assert "one hidden layer whose activation is none of tanh, erf" in found.reason


def test_nearly_parallel_rows_do_not_double_the_price():
    rng = np.random.default_rng([7022, 30, 3, len("sphere")])
    rows, tops = (
        a / np.linalg.norm(a, axis=1, keepdims=True)
        for a in (rng.standard_normal((30, 30)), rng.standard_normal((3, 30)))
    )
    theta, tau = 0.1 * rng.standard_normal(30), 0.1 * rng.standard_normal(3)
    network = Network(
        [rows, tops, np.ones((1, 3))],
        [theta, tau - 0.5 * tops.sum(axis=1), [-1.5]],
        ["sigmoid", "sigmoid", "identity"],
    )
    found = unweave.identify(network, activation="sigmoid", seed=7022)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8
    assert found.ledger.total < 2.9 * network.num_parameters
