"""Relu networks of three hidden layers: the parts of the engine, and whole networks through ``identify``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import unweave
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.relu.deep.corners import Corners
from unweave.methods.relu.deep.engine import recover
from unweave.methods.relu.deep.extremes import random_lines
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.last import orient_last
from unweave.methods.relu.deep.missing import find_border, show_units
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.scan import scan_lines
from unweave.methods.relu.deep.sides import vote_sides
from unweave.methods.relu.deep.top import fit_top
from unweave.methods.relu.deep.view import LayerView, nearest
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry
from unweave.probes.kinks import find_kinks

EXACT = Precision(1e-15, 1.0, "float64")


def he_network(sizes: tuple[int, ...], seed: int) -> Network:
    rng = np.random.default_rng([seed, *sizes])
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    biases = [0.2 * rng.standard_normal(b) for b in sizes[1:]]
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def open_pool(network: Network, seed: int = 0) -> Pool:
    rng = np.random.default_rng(seed)
    meter = Meter(resolve(lambda x: network(x), input_size=network.input_size))
    return Pool(open_inquiry(meter, EXACT, rng), rng)


def first_layers(network: Network, depth: int) -> Known:
    return Known(network.input_size, network.weights[:depth], network.biases[:depth], (0.0,) * depth)


def rows_of(network: Network, layer: int) -> np.ndarray:
    return np.hstack([network.weights[layer], network.biases[layer][:, None]])


def test_breaks_are_where_units_switch():
    network = he_network((6, 5, 4, 1), 1)
    known = first_layers(network, 2)
    lines = random_lines(unweave.Ball(10.0), 3, 6, np.random.default_rng(2))
    for i in range(3):
        t = known.breaks(lines, i)[1:-1]
        x = lines.points(np.full(len(t), i), t)
        least = np.min(np.abs(np.concatenate(known.arguments(x), axis=1)), axis=1)
        assert np.all(least < 1e-9 * (1 + np.linalg.norm(x, axis=1)))


def test_jacobian_agrees_with_differences():
    known = first_layers(he_network((5, 6, 4, 1), 3), 2)
    x = np.random.default_rng(4).standard_normal((7, 5))
    _, jac = known.jacobian(x)
    step = 1e-6
    for i in range(5):
        move = step * np.eye(5)[i]
        assert np.allclose(
            (known.features(x + move) - known.features(x - move)) / (2 * step), jac[:, :, i], atol=1e-6
        )


def test_predicted_crossings_make_a_scan_cheaper_and_lose_no_kink():
    network = he_network((8, 6, 6, 4, 1), 5)
    pool = open_pool(network)
    inquiry, rng = pool.inquiry, np.random.default_rng(6)
    lines = random_lines(inquiry.meter.domain, 4, 8, rng)
    before = inquiry.meter.ledger.total
    cheap = scan_lines(inquiry, lines, first_layers(network, 2))
    asked = inquiry.meter.ledger.total - before
    full = find_kinks(inquiry, lines, num_nodes=9)
    assert asked < inquiry.meter.ledger.total - before - asked
    for i in range(4):
        apart = nearest(np.sort(np.append(cheap[i].positions, cheap[i].unresolved)), full[i].positions)
        assert np.all(apart < 1e-6 * (lines.scale[i] + np.abs(full[i].positions)))


def test_normals_cost_the_rank_that_known_layers_leave():
    network = he_network((12, 5, 5, 1), 7)
    pool = open_pool(network)
    numbers = pool.add_lines(random_lines(pool.inquiry.meter.domain, 3, 12, pool.rng))
    known = first_layers(network, 1)
    view = LayerView(pool, known)
    before = pool.num_queries
    pool.measure(np.intersect1d(numbers, view.open), known)
    num_cells = len(pool.cell_x)
    assert pool.num_queries - before < 8 * num_cells
    view.load()
    z = known.features(view.x) @ network.weights[1].T + network.biases[1]
    unit = np.argmin(np.abs(z), axis=1)
    true = np.einsum("mn,mnd->md", network.weights[1][unit], view.jac)
    true /= np.linalg.norm(true, axis=1, keepdims=True)
    assert np.all(np.abs(np.sum(true * view.g, axis=1)) > 1 - 1e-12)


@pytest.mark.parametrize("layer", [0, 1])
def test_corners_tell_the_sides_of_an_inner_layer(layer: int):
    network = he_network((8, 8, 8, 6, 1), 8)
    pool = open_pool(network)
    flips = np.random.default_rng(9).choice([-1.0, 1.0], size=8)
    rows = rows_of(network, layer) * flips[:, None]
    sides = vote_sides(Corners(pool, first_layers(network, layer)), rows, np.ones(rows.shape, dtype=bool))
    assert sides.settled
    assert not len(sides.failed)
    assert np.array_equal(sides.signs(), flips)


def test_corners_fail_where_a_unit_is_missing():
    network = he_network((8, 8, 6, 4, 1), 10)
    rows = rows_of(network, 1)[1:]
    corners = [Corners(open_pool(network, seed), first_layers(network, 1)) for seed in range(2)]
    failed = [len(vote_sides(one, rows, np.ones(rows.shape, dtype=bool)).failed) for one in corners]
    assert max(failed) > 0


def test_the_last_layer_orients_itself_by_the_answers():
    network = he_network((6, 6, 5, 2), 11)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 8, 6, pool.rng))
    flips = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    rows = rows_of(network, 1) * flips[:, None]
    last = orient_last(pool, first_layers(network, 1), rows, np.ones(rows.shape, dtype=bool))
    assert last is not None
    assert np.allclose(last.rows, rows_of(network, 1))
    inner = orient_last(pool, first_layers(network, 0), rows_of(network, 0), np.ones((6, 7), dtype=bool))
    assert inner is None


def test_output_layer_shows_which_answers_contradict():
    network = he_network((6, 6, 5, 1), 12)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 6, 6, pool.rng))
    top = fit_top(pool, first_layers(network, 2))
    assert not top.wrong.any()
    assert np.allclose(top.coefficients[:-1].T, network.weights[2])


@pytest.mark.parametrize(("sizes", "seed"), [((20, 8, 8, 5, 1), 0), ((12, 10, 8, 6, 2), 3)])
def test_three_hidden_layers_come_back_exactly(sizes: tuple[int, ...], seed: int):
    network = he_network(sizes, seed)
    found = unweave.identify(lambda x: network(x), input_size=sizes[0], seed=seed)
    assert found.method == "relu-layers"
    assert found.network is not None
    points = np.random.default_rng(0).standard_normal((4000, sizes[0]))
    wrong = np.max(np.abs(network(points) - found.network(points)), axis=1) > 1e-8 * np.std(network(points))
    assert np.mean(wrong) < 1e-3
    if found.identified:
        assert unweave.compare(network, found.network).max_relative_error < 1e-8


def test_a_small_budget_leaves_exact_lower_layers():
    network = he_network((10, 8, 8, 6, 1), 3)
    found = unweave.identify(lambda x: network(x), input_size=10, seed=3, budget=3400)
    assert found.outcome == "partly identified"
    assert found.network is not None
    assert found.network.is_open
    lengths = np.linalg.norm(network.weights[0], axis=1)
    truth = rows_of(network, 0) / lengths[:, None]
    rows = rows_of(found.network, 0) / np.linalg.norm(found.network.weights[0], axis=1, keepdims=True)
    cosines = rows[:, :-1] @ truth[:, :-1].T
    pairs = np.argmax(np.abs(cosines), axis=1)
    assert sorted(pairs) == list(range(8))
    sides = np.sign(cosines[np.arange(8), pairs])
    np.testing.assert_allclose(sides[:, None] * rows, truth[pairs], atol=1e-7)
    wrong = [f"layer 1, unit {unit}: the side it is active on" for unit in np.flatnonzero(sides < 0)]
    assert set(wrong) <= set(found.undetermined)


def test_the_same_seed_asks_the_same_questions():
    network = he_network((10, 6, 6, 1), 2)
    asked = []
    for _ in range(2):
        pool = open_pool(network, 5)
        recover(pool, max_seconds=30)
        asked.append(pool.inquiry.meter.transcript()[0])
    assert np.array_equal(asked[0], asked[1])


def test_corners_give_the_row_of_a_unit_that_never_switches():
    plain = he_network((8, 8, 6, 6, 1), 16)
    weights, biases = [w.copy() for w in plain.weights], [b.copy() for b in plain.biases]
    weights[1][0], biases[1][0] = np.abs(weights[1][0]), 1.0
    network = Network(weights, biases, plain.activations)
    flips = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    rows = rows_of(network, 1)[1:] * flips[:, None]
    corners = Corners(open_pool(network), first_layers(network, 1))
    corners.add(30, rows, whole=True)
    shown = show_units(vote_sides(corners, rows, np.ones(rows.shape, dtype=bool)), rows)
    assert len(shown) == 1
    true = weights[1][0] / np.linalg.norm(weights[1][0])
    assert shown[0].weights is not None
    assert abs(shown[0].weights @ true) > 1 - 1e-12


def test_corners_and_the_places_of_kinks_give_a_unit_that_no_normal_was_measured_of():
    network = he_network((8, 8, 6, 4, 1), 10)
    pool, known = open_pool(network), first_layers(network, 1)
    rows = np.delete(rows_of(network, 1), 2, axis=0)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 12, 8, pool.rng))
    corners = Corners(pool, known)
    corners.add(30, rows, whole=True)
    shown = show_units(vote_sides(corners, rows, np.ones(rows.shape, dtype=bool)), rows)
    view = LayerView(pool, known)
    view.load()
    found = find_border(view, shown[0])
    assert found is not None
    true = rows_of(network, 1)[2] / np.linalg.norm(rows_of(network, 1)[2])
    assert abs(found.row @ true) > 1 - 1e-12
