"""Steep second layers on top of a first layer that is known from afar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.far_field import middle
from unweave.methods.far_field.middle import Middle
from unweave.methods.far_field.sight import Sight
from unweave.models.resolve import resolve

ROWS = None
"""Stands for a first layer: its units are placed by hand."""


def steep_network(sizes: tuple[int, ...], seed: int, gain: float) -> Network:
    """A random network whose second layer is ``gain`` times as steep."""
    plain = random_network(sizes, "tanh", seed)
    first, second, last = plain.weights
    return Network([first, gain * second, last], plain.biases, plain.activations)


def look_at(network: Network, monkeypatch, rng: np.random.Generator) -> Sight:
    """A sight whose first layer is known to a per cent, its biases to a tenth."""
    rows = network.weights[0] * (1 + 0.01 * rng.standard_normal(network.weights[0].shape))
    biases = network.biases[0] + 0.1 * rng.standard_normal(len(rows))
    monkeypatch.setattr(middle, "place_units", lambda sight, layer: (rows, biases))
    precision = Precision(1e-17, 1.0, "float64")
    return Sight(Meter(resolve(network)), precision, act.get("tanh"), rng, float("inf"))


def test_a_steep_layer_on_more_units_than_inputs(monkeypatch):
    network, rng = steep_network((4, 8, 6, 2), 3, 2.5), np.random.default_rng(1)
    sight = look_at(network, monkeypatch, rng)
    found = Middle(sight, ROWS, None).go_on(clock.now() + 60)
    assert found.network is not None, found.reason
    assert found.whole
    assert unweave.compare(network, found.network).max_relative_error < 1e-9
    assert sight.meter.ledger.total < 20 * network.num_parameters


def test_as_many_units_on_top_as_below(monkeypatch):
    network, rng = steep_network((5, 12, 12, 2), 4, 2.0), np.random.default_rng(2)
    sight = look_at(network, monkeypatch, rng)
    found = Middle(sight, ROWS, None).go_on(clock.now() + 60)
    assert found.network is not None, found.reason
    assert found.network.hidden == (12, 12)
    assert unweave.compare(network, found.network).max_relative_error < 1e-9
    assert sight.meter.ledger.total < 4 * network.num_parameters


def test_the_budget_keeps_a_share_for_the_certificate(monkeypatch):
    network, rng = steep_network((4, 8, 6, 2), 3, 2.5), np.random.default_rng(1)
    sight = look_at(network, monkeypatch, rng)
    sight.meter.ledger.budget = middle.CERTIFICATE_SHARE + 10
    found = Middle(sight, ROWS, None).go_on(clock.now() + 60)
    assert found.network is None
    assert "budget" in found.reason
    assert sight.meter.ledger.total == 0


def test_a_second_go_takes_wider_students_and_asks_for_what_is_missing_only(monkeypatch):
    network, rng = steep_network((4, 8, 6, 2), 3, 2.5), np.random.default_rng(1)
    sight = look_at(network, monkeypatch, rng)
    monkeypatch.setattr(middle, "SEARCH", replace(middle.SEARCH, num_steps=1))  # no student ends
    search = Middle(sight, ROWS, None)
    first = search.go_on(clock.now() + 60, num_students=1)
    second = search.go_on(clock.now() + 60, num_students=1)
    widths = [top.attempts[0][1][1] for top in (first, second)]
    assert widths[0] < widths[1]
    assert sight.meter.ledger.total == second.num_vertices


def test_every_second_point_of_exact_answers_lies_further_out(monkeypatch):
    network, rng = steep_network((4, 8, 6, 2), 3, 2.5), np.random.default_rng(1)
    monkeypatch.setattr(middle, "SEARCH", replace(middle.SEARCH, num_steps=1))
    spreads = {}
    for kind in ("float64", "float32"):
        sight = replace(look_at(network, monkeypatch, rng), precision=Precision(1e-17, 1.0, kind))
        Middle(sight, ROWS, None).go_on(clock.now() + 60, num_students=1)
        sizes = np.linalg.norm(sight.meter.transcript()[0], axis=1)
        spreads[kind] = np.sqrt(np.mean(sizes[1::2] ** 2) / np.mean(sizes[::2] ** 2))
    assert spreads["float64"] > 4
    assert spreads["float32"] < 1.2


def test_two_units_that_are_alike_are_told_apart(monkeypatch):
    plain, rng = steep_network((4, 8, 6, 2), 3, 2.5), np.random.default_rng(1)
    second = plain.weights[1].copy()
    second[1] = second[0] + 0.3 * rng.standard_normal(8)
    network = Network([plain.weights[0], second, plain.weights[2]], plain.biases, plain.activations)
    found = Middle(look_at(network, monkeypatch, rng), ROWS, None).go_on(clock.now() + 60)
    assert found.network is not None, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 1e-9
