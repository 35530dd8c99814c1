"""One hidden relu layer in float32: every unit, its side, few queries; deeper networks end the search early."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network, relu_in_float32
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.relu.one_layer.ridge_fit import Ridges, fit_ridges
from unweave.methods.relu.one_layer.shallow import ShallowSearch
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry


def single(network: Network):
    """The network computed in float32, and its parameters as they are then."""
    weights, biases = ([a.astype(np.float32) for a in part] for part in (network.weights, network.biases))
    answer = relu_in_float32(network)
    return Network(weights, biases, network.activations), lambda x: answer(x).astype(np.float32)


@pytest.mark.parametrize("sizes", [(6, 8, 2), (10, 16, 1), (20, 12, 3)])
@pytest.mark.parametrize("box", [None, 2.0])
def test_float32_networks_of_one_layer(sizes, box):
    truth, answer = single(random_network(sizes, "relu", seed=3))
    domain = None if box is None else unweave.Box(-box, box)
    found = unweave.identify(answer, input_size=sizes[0], domain=domain, method="relu-lines")
    assert found.identified
    assert found.hidden == truth.hidden
    assert unweave.compare(truth, found).max_relative_error < 1e-4
    assert found.ledger.total < 18 * max(truth.num_parameters, 150)


def test_a_fit_forgives_starts_that_are_off_by_a_tenth():
    truth = random_network((8, 6, 2), "relu", seed=1)
    rows = np.hstack([truth.weights[0], truth.biases[0][:, None]])
    exact = Ridges(rows, truth.weights[1].T, np.hstack([np.zeros((2, 8)), truth.biases[1][:, None]]))
    rng = np.random.default_rng(2)
    x = 2 * rng.standard_normal((300, 8))
    start = Ridges(rows + 0.05 * rng.standard_normal(rows.shape), 1.1 * exact.columns, exact.affine)
    fitted = fit_ridges(start, x, truth(x), np.full(300, 1e-9))
    assert np.max(np.abs(fitted.ridges.rows - exact.balanced().rows)) < 1e-8
    assert np.max(fitted.unit_errors()) < 1e-6


def test_two_layers_are_left_to_other_methods_early():
    truth, answer = single(random_network((10, 12, 12, 2), "relu", seed=1))
    found = unweave.identify(answer, input_size=10, method="relu-lines")
    assert not found.identified
    assert found.ledger.total < 20 * truth.num_parameters


@pytest.mark.parametrize("rare", [0, 3])
def test_units_that_are_rarely_on_and_planes_that_meet_in_the_middle_of_a_box(rare):
    rng = np.random.default_rng(4)
    rows, columns = rng.standard_normal((12, 32)), rng.standard_normal((8, 12))
    box = unweave.Box(0.0, 1.0)
    spread = np.std(box.sample(4000, 32, rng) @ rows.T, axis=0)
    biases = -rows.sum(axis=1) / 2 - np.where(np.arange(12) < rare, 1.7, 0.0) * spread
    truth, answer = single(Network([rows, columns], [biases, rng.standard_normal(8)], ["relu", "identity"]))
    found = unweave.identify(answer, input_size=32, domain=box, method="relu-lines")
    assert found.identified
    assert found.network is not None
    x = box.sample(2000, 32, rng)
    assert np.max(np.abs(found.network(x) - truth(x))) < 1e-5 * np.std(truth(x))


def test_standard_errors_are_those_of_all_parameters_together():
    truth = random_network((4, 3, 2), "relu", seed=2)
    rows = np.hstack([truth.weights[0], truth.biases[0][:, None]])
    affine = np.hstack([np.zeros((2, 4)), truth.biases[1][:, None]])
    exact = Ridges(rows, truth.weights[1].T, affine).balanced()
    rng = np.random.default_rng(3)
    x = 2 * rng.standard_normal((400, 4))
    off = []
    for _ in range(20):
        y = truth(x) + 1e-4 * rng.standard_normal((400, 2))
        fitted = fit_ridges(exact, x, y, np.full(400, 1e-4))
        off.append(np.abs(fitted.ridges.rows - exact.rows).max(axis=1) / np.abs(exact.rows).max(axis=1))
    typical = np.sqrt(np.mean(np.square(off), axis=0))
    assert np.all(typical < 1.5 * fitted.unit_errors())
    assert np.all(fitted.unit_errors() < 10 * typical)


def test_a_search_that_ended_goes_on_from_places_where_it_was_wrong():
    rng = np.random.default_rng(7)
    rows, columns = rng.standard_normal((9, 24)), rng.standard_normal((4, 9))
    biases = -rows.sum(axis=1) / 2
    corner = (rng.uniform(size=24) < 0.5).astype(float)
    rows[8] = np.where(corner > 0, 1.0, -1.0) * rng.uniform(0.8, 1.2, 24)
    biases[8] = 1.5 - rows[8] @ corner  # on in this corner only
    _, answer = single(Network([rows, columns], [biases, np.zeros(4)], ["relu", "identity"]))
    box = unweave.Box(0.0, 1.0)
    meter = Meter(resolve(answer, input_size=24), domain=box)
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng)
    search = ShallowSearch(inquiry, rng, float("inf"))
    assert search.run()
    assert search.ridges is not None
    assert search.ridges.num_units == 8
    near = np.where(rng.uniform(size=(30, 24)) < 0.03, rng.uniform(size=(30, 24)), np.abs(corner - 0.01))
    assert search.go_on(near)
    found = search.ridges.balanced().rows
    wanted = np.append(rows[8], biases[8]) / np.linalg.norm(rows[8])
    assert len(found) == 9
    assert np.min(np.max(np.abs(found - wanted), axis=1)) < 1e-5


def test_a_unit_that_drowns_on_every_line_is_met_where_no_other_changes():
    rng = np.random.default_rng(3)
    rows, columns, biases = rng.standard_normal((8, 20)), rng.standard_normal((3, 8)), rng.standard_normal(8)
    columns[:, 5] *= 1e-3
    truth, answer = single(Network([rows, columns], [biases, np.zeros(3)], ["relu", "identity"]))
    whole = np.hstack([truth.weights[0], truth.biases[0][:, None]])
    meter = Meter(resolve(answer, input_size=20))
    search = ShallowSearch(open_inquiry(meter, measure_precision(meter, rng), rng), rng, float("inf"))
    meter.ask(2 * rng.standard_normal((600, 20)))
    others = np.arange(8) != 5
    search.ridges = Ridges(whole[others], truth.weights[1].T[others], np.zeros((3, 21)))
    search.find_level_unit()
    found, wanted = search.ridges.balanced(), Ridges(whole, truth.weights[1].T, np.zeros((3, 21))).balanced()
    assert found.num_units == 8
    side = np.sign(found.rows[-1] @ wanted.rows[5])
    assert np.max(np.abs(side * found.rows[-1] - wanted.rows[5])) < 1e-3
    assert np.max(np.abs(found.columns[-1] / wanted.columns[5] - 1)) < 0.1
