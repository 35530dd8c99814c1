"""Weights of the last layer for features that are only on where a unit never switches: they show in what is linear."""

from __future__ import annotations

import numpy as np

from methods.relu.deep.test_engine import first_layers, rows_of
from methods.relu.deep.test_last import asked_pool
from unweave.core.network import Network
from unweave.methods.relu.deep.dark import fill_weights, find_states, signs_at
from unweave.methods.relu.deep.last import orient_last
from unweave.methods.relu.deep.top import fit_top


def late_network() -> Network:
    """Feature 1 is on where x_0 > 1; there unit 0 is on throughout, unit 1 off, and unit 2 switches."""
    weights = [
        np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2, 1.0, 0.3], [0.1, -0.4, 1.0]]),
        np.array(
            [[1.0, 0.3, 0.0, 0.1], [-1.0, -0.2, 0.0, 0.0], [0.4, 0.5, -1.0, 0.3], [-0.3, 0.2, 0.4, -1.0]]
        ),
        np.array([[1.0, -2.0, 0.7, 0.4], [0.3, 0.5, -1.1, 0.8]]),
    ]
    biases = [np.array([0.0, -1.0, 0.1, -0.2]), np.array([-0.5, 0.5, 0.2, 0.3]), np.zeros(2)]
    return Network(weights, biases, ["relu", "relu", "identity"])


def test_a_unit_stands_where_a_feature_is_on_as_at_its_border():
    network = late_network()
    pool, known = asked_pool(network), first_layers(network, 1)
    h, rows = known.features(pool.inquiry.meter.transcript()[0]), rows_of(network, 1)
    seen = np.ones(rows[:, :-1].shape, dtype=bool)
    seen[:3, 1] = False
    z = h @ np.where(seen, rows[:, :-1], 0.0).T + rows[:, -1]
    states = find_states(z, h, rows, seen)
    assert states[:, 1].tolist() == [1.0, -1.0, 0.0, 0.0]
    assert not states[:, [0, 2, 3]].any()
    signs, on = signs_at(z, h, seen, states), h[:, 1] > 0
    assert np.array_equal(signs[:, :2], np.where(h @ rows[:2, :-1].T + rows[:2, -1] > 0, 1.0, -1.0))
    assert not signs[on, 2].any()
    assert signs[~on, 2].all()


def test_a_weight_that_no_kink_shows_is_read_off_the_linear_part():
    network = late_network()
    pool, known = asked_pool(network), first_layers(network, 1)
    rows, flips = rows_of(network, 1), np.array([-1.0, 1.0, 1.0, -1.0])
    seen = np.ones(rows.shape, dtype=bool)
    seen[[0, 1], 1] = False
    last = orient_last(pool, known, rows * flips[:, None], seen)
    assert last is not None
    assert np.allclose(last.rows[[0, 2, 3]], rows[[0, 2, 3]], atol=1e-8)
    assert last.seen.sum() == rows.size - 1  # unit 1 is off there: its weight never shows
    closed = np.where(last.seen, last.rows, -2.0)
    assert not fit_top(pool, known.extended(closed)).wrong.any()


def test_of_weights_that_show_in_one_sum_the_shortest_are_taken():
    rows, seen = np.zeros((2, 1)), np.zeros((2, 1), dtype=bool)
    parts = np.array([[[3.0]], [[4.0]]])
    filled, told = fill_weights(rows, seen, parts, np.array([[50.0]]), np.zeros((2, 1)))
    assert told.all()
    assert np.allclose(filled[:, 0], [6.0, 8.0])
