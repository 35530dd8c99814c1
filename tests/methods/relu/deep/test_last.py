"""The last hidden layer of a relu network: always active units, sides settled late, rare units, open weights."""

from __future__ import annotations

import numpy as np

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.core.network import Network
from unweave.methods.relu.any_depth import drop_idle_units
from unweave.methods.relu.deep.candidates import refit, supporters
from unweave.methods.relu.deep.entries import ask_entries
from unweave.methods.relu.deep.extremes import random_lines, spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.last import orient_last
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.residual import add_missing_units
from unweave.methods.relu.deep.sharpen import cover_weights
from unweave.methods.relu.deep.steady import carriers, settle_steady
from unweave.methods.relu.deep.top import fit_top
from unweave.methods.relu.deep.view import LayerView


def shifted(network: Network, biases: dict[int, float]) -> Network:
    """With other biases of units of the last hidden layer."""
    last = network.biases[-2].copy()
    for unit, bias in biases.items():
        last[unit] = bias
    return Network(network.weights, [*network.biases[:-2], last, network.biases[-1]], network.activations)


def always_on(network: Network, units: tuple[int, ...]) -> Network:
    """With rows of these units of the last hidden layer that are never negative."""
    weights = network.weights[-2].copy()
    weights[list(units)] = np.abs(weights[list(units)])
    other = Network(
        [*network.weights[:-2], weights, network.weights[-1]], network.biases, network.activations
    )
    return shifted(other, dict.fromkeys(units, 1.0))


def asked_pool(network: Network, num: int = 1500) -> Pool:
    pool = open_pool(network)
    pool.inquiry.meter.ask(spread_points(pool.inquiry.meter.domain, num, network.input_size, pool.rng))
    return pool


def is_among(row: np.ndarray, rows: np.ndarray) -> bool:
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return bool(np.max(rows @ row) > (1 - 1e-12) * np.linalg.norm(row))


def test_units_that_are_always_on_leave_the_function_right():
    network = always_on(he_network((6, 6, 6, 1), 3), (1, 4))
    pool, known = asked_pool(network), first_layers(network, 1)
    rows = rows_of(network, 1)[[0, 2, 3, 5]]
    last = orient_last(pool, known, rows, np.ones(rows.shape, dtype=bool))
    assert last is not None
    assert last.is_guess
    top = fit_top(pool, known.extended(last.rows))
    assert top.is_output
    assert not top.wrong.any()


def test_several_outputs_tell_the_sides_beside_a_unit_that_is_always_on():
    network = always_on(he_network((6, 12, 16, 3), 5), (7,))
    pool, known = asked_pool(network, 4000), first_layers(network, 1)
    rows = np.delete(rows_of(network, 1), 7, axis=0)
    flips = np.where(np.arange(15) % 2, -1.0, 1.0)
    last = orient_last(pool, known, rows * flips[:, None], np.ones(rows.shape, dtype=bool))
    assert last is not None
    assert np.allclose(last.rows[:15], rows)


def test_sides_are_settled_when_no_unit_has_to_be_always_on():
    network = he_network((6, 6, 5, 1), 5)
    pool, rows = asked_pool(network), rows_of(network, 1)
    turned = rows.copy()
    turned[2] *= -1.0
    left = network.weights[-1][0, 2] * rows[2, :-1, None]
    h = first_layers(network, 1).features(pool.inquiry.meter.transcript()[0])
    known = first_layers(network, 1).extended(np.vstack([turned, carriers(left, h)]))
    top = fit_top(pool, known)
    assert not top.wrong.any()
    settled, top, _ = settle_steady(pool, known, top)
    assert settled.width == 5
    assert not top.wrong.any()
    found = np.hstack([settled.weights[-1], settled.biases[-1][:, None]])
    assert all(is_among(row, rows) for row in found)


def test_a_weight_that_no_answer_has_shown_is_asked_for():
    network = he_network((6, 6, 5, 2), 6)
    pool, rows = asked_pool(network), rows_of(network, 1)
    known, top = first_layers(network, 2), fit_top(pool, first_layers(network, 2))
    other = rows.copy()
    other[3, 1] = -50.0
    trial = first_layers(network, 1).extended(other)
    found, top, still_open = ask_entries(pool, trial, top, ((3, 1),))
    assert not still_open
    assert not top.wrong.any()
    assert np.allclose(found.weights[-1][3], known.weights[-1][3] / np.linalg.norm(known.weights[-1][3]))


def test_contradictions_of_two_units_are_told_apart_by_their_outputs():
    network = shifted(he_network((3, 16, 6, 2), 0), {0: -4.0, 3: -4.0})
    pool, below = asked_pool(network, 4000), first_layers(network, 1)
    rows = rows_of(network, 1)
    known = below.extended(rows[[1, 2, 4, 5]])
    top = fit_top(pool, known)
    assert 0 < top.share_wrong < 0.15
    found, top, _ = add_missing_units(pool, known, top)
    assert not top.wrong.any()
    assert found.width == 6


def test_a_kink_of_another_unit_does_not_spoil_a_row():
    network = he_network((6, 6, 5, 1), 9)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 12, 6, pool.rng))
    known = Known(6)
    pool.measure(np.arange(len(pool.t)), known)
    view = LayerView(pool, known)
    view.load()
    row = rows_of(network, 0)[0]
    row, seen = row / np.linalg.norm(row), np.ones(7, dtype=bool)
    mine = np.flatnonzero(supporters(view, row, seen))
    assert len(mine) >= 4
    pool.x[0] += 1e-6 * row[:-1]  # not where it is thought to be
    stray = np.setdiff1d(np.arange(len(pool.t)), view.kinks[mine])[:1]
    pool.x[stray] -= (pool.x[stray] @ row[:-1] + row[-1] - 1e-7)[:, None] * row[:-1] / (row[:-1] @ row[:-1])
    sharper = refit(view, row, seen, mine, stray)
    assert np.max(np.abs(sharper - row)) < 1e-10


def test_answers_that_show_a_rare_weight_are_among_those_that_are_fitted():
    network = he_network((4, 6, 5, 1), 10)
    x = spread_points(open_pool(network).inquiry.meter.domain, 4000, 4, np.random.default_rng(0))
    on = first_layers(network, 2).features(x)[:, 0] > 0
    x = np.concatenate([x[~on], x[on][:3]])
    some = cover_weights(network, x, 100)
    assert len(some) < 600
    assert np.all(np.isin(np.arange(len(x) - 3, len(x)), some))


def test_a_weak_unit_stays_beside_one_with_a_large_weight():
    weights = [np.eye(3), np.array([[1.0, 1e-3, 1e6]])]
    network = Network(weights, [np.array([0.0, 0.0, -1e3]), np.zeros(1)], ["relu", "identity"])
    x = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 1000.001], [1.0, 1.0, 1.0]])
    left, kept = drop_idle_units(network, x)
    assert left.hidden == (3,)
    assert len(kept[0]) == 3
