"""Which answers the standard errors are computed from."""

import numpy as np
import pytest

from truth import random_network
from unweave.certificates import queries
from unweave.core.network import Network
from unweave.solve import weighted
from unweave.solve.weighted import weighted_system


@pytest.fixture
def rare():
    """A network with a unit that is saturated at all but 60 of 20,000 answers."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 5))
    shifts = np.array([0.2, -0.1, 30.0])
    network = Network([rows, rng.standard_normal((2, 3))], [shifts, np.zeros(2)], ["tanh", "identity"])
    x = rng.uniform(-1, 1, (20_000, 5))
    switching = rng.choice(len(x), 60, replace=False)
    missing = rng.uniform(-2, 2, 60) - (x[switching] @ rows[2] + 30.0)
    x[switching] += (missing / np.sum(rows[2] ** 2))[:, None] * rows[2]
    return network, x


def test_answers_that_show_a_saturated_unit_are_chosen(rare, monkeypatch):
    """Few answers of many: enough of them have the rare unit move for all parameters to be determined."""
    network, x = rare
    most = 150 * network.num_parameters * 2
    monkeypatch.setattr(queries, "MOST_ENTRIES", most)
    monkeypatch.setattr(weighted, "MOST_ENTRIES", most)
    y = network(x)
    rows = queries.choose_answers(network, x, y, np.random.default_rng(1))
    assert len(rows) == len(np.unique(rows)) <= 150
    system = weighted_system(network, x[rows], y[rows], 1e-15)
    assert system is not None
    assert np.max(system.unit_errors(network)) < 1e-6


def test_all_answers_are_taken_where_they_are_few(rare):
    network, x = rare
    rows = queries.choose_answers(network, x, network(x), np.random.default_rng(1))
    assert len(rows) == len(x)


def test_answers_that_show_a_unit_of_the_second_layer_which_is_rarely_on_are_chosen(monkeypatch):
    truth, rng = random_network((6, 5, 4, 2), "relu", 1), np.random.default_rng(3)
    x = rng.standard_normal((20_000, 6))
    z = np.maximum(x @ truth.weights[0].T + truth.biases[0], 0) @ truth.weights[1].T
    biases = [b.copy() for b in truth.biases]
    biases[1][0] = -np.quantile(z[:, 0], 0.998)
    network = Network(truth.weights, biases, truth.activations)
    monkeypatch.setattr(queries, "MOST_ENTRIES", 120 * network.num_parameters * 2)
    rows = queries.choose_answers(network, x, network(x), np.random.default_rng(1))
    assert len(rows) == len(np.unique(rows)) <= 120
    on = z[:, 0] + biases[1][0] > 0
    assert np.sum(on) < 50
    assert np.sum(on[rows]) >= 2 * (5 + 2)
