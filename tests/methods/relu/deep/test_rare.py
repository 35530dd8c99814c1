"""Units of deep relu networks that few answers show: of the last layer, of inner layers, and rows known badly."""

from __future__ import annotations

import numpy as np

import unweave
from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.core.network import Network
from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.engine import OPEN, recover, share_open
from unweave.methods.relu.deep.extremes import random_lines, spread_points
from unweave.methods.relu.deep.firm import firm_units
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.layer import Stuck
from unweave.methods.relu.deep.repair import carry_over, find_rare_unit, put_in_last, put_in_place
from unweave.methods.relu.deep.residual import add_missing_units
from unweave.methods.relu.deep.top import count_wrong, features_at, features_below, fit_top
from unweave.methods.relu.deep.view import LayerView
from unweave.probes.lines import Lines


def shifted(network: Network, layer: int, unit: int, share: float) -> Network:
    """The same network with one unit active on this share of points only."""
    x = spread_points_of(network)
    h = first_layers(network, layer).features(x)
    z = h @ network.weights[layer][unit]
    biases = [b.copy() for b in network.biases]
    biases[layer][unit] = -np.quantile(z, 1 - share)
    return Network(network.weights, biases, network.activations)


def spread_points_of(network: Network, num: int = 4000) -> np.ndarray:
    return spread_points(unweave.Ball(1e9), num, network.input_size, np.random.default_rng(3), 0.5)


def without(network: Network, layer: int, unit: int, depth: int) -> Known:
    """The first layers of the network, less one unit of the last of them or of one below."""
    known = Known(network.input_size)
    for number in range(depth):
        rows = rows_of(network, number)
        if number == layer + 1:
            rows = np.delete(rows, unit, axis=1)
        if number == layer:
            rows = np.delete(rows, unit, axis=0)
        known = known.extended(rows)
    return known


def test_what_is_left_over_gives_rare_units_of_the_last_layer():
    network = shifted(shifted(he_network((8, 8, 8, 6, 1), 4), 2, 1, 0.05), 2, 4, 0.03)
    pool = open_pool(network)
    pool.inquiry.meter.ask(spread_points_of(network))
    known = first_layers(network, 2).extended(np.delete(rows_of(network, 2), [1, 4], axis=0))
    before = fit_top(pool, known)
    assert 0.02 < before.share_wrong < 0.15
    known, top, _ = add_missing_units(pool, known, before)
    assert known.width == 6
    assert not top.wrong.any()


def test_a_last_layer_that_lacks_nothing_gets_nothing():
    network = he_network((6, 6, 6, 5, 1), 2)
    pool = open_pool(network)
    pool.inquiry.meter.ask(spread_points_of(network, 800))
    known = first_layers(network, 3)
    wider, top, still_open = add_missing_units(pool, known, fit_top(pool, known))
    assert wider.width == 5
    assert still_open == ()
    assert not top.wrong.any()


def test_contradictions_show_the_layer_of_a_rare_unit():
    network = shifted(he_network((10, 8, 8, 5, 1), 1), 1, 2, 0.03)
    pool = open_pool(network)
    pool.inquiry.meter.ask(spread_points_of(network))
    domain, d = pool.inquiry.meter.domain, network.input_size
    pool.add_lines(random_lines(domain, 6, d, pool.rng))
    known = without(network, 1, 2, 3)
    top = fit_top(pool, known)
    assert top.wrong.any()
    found = find_rare_unit(pool, known, top)
    assert found is not None
    below, unit = found
    assert below == 1
    true = np.where(unit.seen, rows_of(network, 1)[2], 0.0)
    assert unit.oriented
    assert true @ unit.row > (1 - 1e-9) * np.linalg.norm(true) * np.linalg.norm(unit.row)


def test_a_rare_unit_of_an_inner_layer_is_put_in_its_place():
    network = shifted(he_network((10, 8, 8, 5, 1), 1), 1, 2, 0.03)
    pool = open_pool(network)
    pool.inquiry.meter.ask(spread_points_of(network))
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 6, network.input_size, pool.rng))
    known = without(network, 1, 2, 3)
    top = fit_top(pool, known)
    found = find_rare_unit(pool, known, top)
    assert found is not None
    before = pool.num_queries
    better = put_in_place(pool, known, top, *found, lambda text: None)
    assert better is not None
    whole, top, opened = better
    assert pool.num_queries - before < 1000
    assert whole.weights[1].shape == (8, 8)
    assert top.wrong.sum() <= len(opened[3])
    told = [u for u in range(5) if (u, 7) not in opened[3]]
    size = np.linalg.norm(network.weights[1][2])
    np.testing.assert_allclose(whole.weights[2][told, 7], network.weights[2][told, 2] * size, rtol=1e-7)


def test_rare_units_of_two_layers_are_put_in_their_places_one_after_the_other():
    network = shifted(shifted(he_network((10, 8, 8, 5, 1), 1), 1, 2, 0.03), 2, 1, 0.04)
    pool = open_pool(network)
    pool.inquiry.meter.ask(spread_points_of(network))
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 6, network.input_size, pool.rng))
    known = without(network, 1, 2, 2).extended(
        np.delete(np.delete(rows_of(network, 2), 2, axis=1), 1, axis=0)
    )
    top, opened, placed = fit_top(pool, known), (), []
    before = top.wrong.sum()
    for _ in range(3):
        found = find_rare_unit(pool, known, top)
        if found is None:
            break
        if found[0] == 2:
            better = put_in_last(pool, known, top, found[1], opened)
        else:
            better = put_in_place(pool, known, top, *found, lambda text: None)
        if better is None:
            break
        placed.append(found[0])
        known, top = better[:2]
        opened = better[2] if found[0] == 2 else opened
    assert sorted(placed)[-1] == 2
    assert 1 in placed
    assert known.weights[1].shape[0] == 8
    assert known.weights[2].shape[0] >= 5
    assert count_wrong(pool, known, top.coefficients) < 0.05 * before


def test_where_a_weight_is_open_that_decides_whether_a_unit_is_on_nothing_is_sure():
    network = he_network((5, 6, 4, 1), 0)
    known = first_layers(network, 2)
    x = spread_points_of(network, 500)
    assert not known.is_unsure(x).any()
    rows = rows_of(network, 1).copy()
    rows[1, 3] = -50.0
    known = first_layers(network, 1).extended(rows, 0.0, ((1, 3),))
    h = first_layers(network, 1).features(x)
    rest = h @ rows[1, :-1] + rows[1, -1] + 50.0 * h[:, 3]
    np.testing.assert_array_equal(known.is_unsure(x), (h[:, 3] > 0) & (rest > 0))
    assert known.first(1).extended(rows).open_entries == ((), ())
    assert known.extended(np.ones((2, 5))).open_entries == ((), ((1, 3),), ())


def test_a_last_layer_that_hardly_ever_switches_leaves_kinks():
    network = shifted(he_network((6, 6, 5, 4, 2), 2), 2, 0, 0.04)
    for unit in (1, 2, 3):
        network = shifted(network, 2, unit, 0.97)
    pool = open_pool(network)
    found = recover(pool, max_seconds=20)
    assert share_open(pool, first_layers(network, 2)) > OPEN
    assert found.known.depth == 3
    assert found.top is not None
    assert share_open(pool, found.known) < OPEN
    x = spread_points_of(network)
    answers = found.known.features(x) @ found.top.coefficients[:-1] + found.top.coefficients[-1]
    miss = np.max(np.abs(answers - network(x)), axis=1) / np.linalg.norm(x, axis=1)
    assert np.mean(miss > 1e-8) < 1e-3


def test_units_of_a_layer_that_could_not_be_finished_are_kept():
    rows, none = rows_of(he_network((4, 3, 1), 0), 0), np.zeros(0, dtype=int)
    every, some = np.ones(5, dtype=bool), np.array([True, True, False, True, True])
    stuck = Stuck("layer 1", [Candidate(rows[0], every, np.arange(3)), Candidate(rows[1], some, none)])
    assert stuck.found == (2, 9)
    assert [unit.row is rows[0] or np.array_equal(unit.row, rows[0]) for unit in stuck.kept] == [True]
    assert len(stuck.kept[0].members) == 0  # they number kinks of a view that is gone


def test_features_at_all_points_are_kept_until_a_layer_changes():
    network = he_network((8, 6, 6, 5, 1), 3)
    pool = open_pool(network)
    for depth in (2, 2, 1):
        pool.inquiry.meter.ask(pool.rng.standard_normal((20, 8)))
        x, known = pool.inquiry.meter.transcript()[0], first_layers(network, depth)
        np.testing.assert_array_equal(features_below(pool, known, x), known.features(x))
        whole = first_layers(network, depth + 1)
        np.testing.assert_allclose(features_at(pool, whole, x), whole.features(x), rtol=0, atol=1e-12)


def test_units_above_are_carried_over_to_a_layer_found_again():
    network = he_network((8, 6, 6, 5, 1), 3)
    former = without(network, 1, 2, 3)
    rows = rows_of(network, 1)[[4, 0, 2, 5, 1, 3]]
    known = first_layers(network, 1).extended(rows)
    units = carry_over(former, known, ((0, 0),), spread_points_of(network, 200))
    assert len(units) == 5
    true = rows_of(network, 2)[:, [4, 0, 2, 5, 1, 3, 6]]
    for number, unit in enumerate(units):
        assert not unit.seen[2]
        assert unit.seen.sum() == (5 if number == 0 else 6)
        shown = np.where(unit.seen, true[number], 0.0)
        got = np.where(unit.seen, unit.row, 0.0)
        assert abs(shown @ got) > (1 - 1e-12) * np.linalg.norm(shown) * np.linalg.norm(got)


def test_rows_known_badly_are_made_sharp():
    network = he_network((8, 6, 6, 1), 5)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 4, 8, pool.rng))
    known = first_layers(network, 1)
    view = LayerView(pool, known)
    view.load()
    row = rows_of(network, 1)[0] / np.linalg.norm(rows_of(network, 1)[0])
    bad = row + 3e-9 * np.random.default_rng(1).standard_normal(len(row))
    unit = Candidate(bad, np.ones(len(row), dtype=bool), np.zeros(0, dtype=int), shown=True)
    sharp = firm_units(view, [unit])[0].row
    assert np.linalg.norm(sharp / np.linalg.norm(sharp) - row) < 1e-11


def test_points_far_along_a_line_are_known_as_far_as_rounding_allows():
    lines = Lines(np.full((1, 4), 5e5), np.full((1, 4), -0.5), np.zeros(1), np.full(1, 1e6), np.ones(1))
    at = np.array([1e6 - 100.0])
    assert lines.rounding(np.zeros(1, dtype=int), at)[0] > 1e-10
    assert np.linalg.norm(lines.points(np.zeros(1, dtype=int), at)) < 200
