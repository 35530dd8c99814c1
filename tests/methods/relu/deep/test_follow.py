"""Zero sets followed over known layers: rows, sides and leaks where there are more units than inputs."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.core.network import Network
from unweave.methods.relu.deep.cross import measure_crossings
from unweave.methods.relu.deep.extremes import random_lines
from unweave.methods.relu.deep.follow import begin, follow, follow_box
from unweave.methods.relu.deep.last import read_leak
from unweave.methods.relu.deep.lift import Lifted, tell_sides
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.deep.walk import wander


def leaky(network: Network, slope: float) -> Network:
    names = [f"leaky_relu({slope})"] * len(network.hidden)
    return Network(network.weights, network.biases, [*names, "identity"])


def follow_over(network: Network, features, known, num_lines: int = 8):
    """Traces from the open kinks of the fullest line."""
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, num_lines, network.input_size, pool.rng))
    view = LayerView(pool, known)
    fullest = np.argmax(np.bincount(pool.line[view.open]))
    kinks = view.open[pool.line[view.open] == fullest]
    pool.measure(kinks, known)
    kinks = kinks[np.isfinite(pool.normal_error[kinks])]
    return follow(pool, features, [begin(pool, features, int(m)) for m in kinks])


def test_rows_of_units_over_more_features_than_inputs():
    network = he_network((5, 12, 8, 8, 1), 0)
    known = first_layers(network, 1)
    traces = [trace for trace in follow_over(network, known, known) if not trace.null.shape[1]]
    rows = rows_of(network, 1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = np.array([trace.row / np.linalg.norm(trace.row) for trace in traces])
    cosine = np.max(np.abs(found @ rows.T), axis=1)
    assert np.sum(cosine > 1 - 1e-14) >= 4


def test_a_crossing_is_ten_questions_and_its_share_is_right():
    network = he_network((5, 12, 8, 8, 1), 0)
    known = first_layers(network, 1)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 8, 5, pool.rng))
    view = LayerView(pool, known)
    pool.measure(view.open[:40], known)
    kinks = [m for m in view.open[:40] if np.isfinite(pool.normal_error[m])]
    traces = [begin(pool, known, int(m)) for m in kinks]
    rows = rows_of(network, 1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    low, high = follow_box(pool)
    mine = [t for t in traces if np.any(np.abs(t.system @ rows.T).max(axis=0) < 1e-9)]
    assert len(mine) >= 3
    owner = np.repeat(np.arange(len(mine)), 4)
    x = np.concatenate([np.repeat(t.places, 4, axis=0) for t in mine])
    meetings = wander(known, mine, owner, x, low, high, pool.rng)
    before = pool.num_queries
    crossed = measure_crossings(pool.inquiry, mine, meetings, max_tries=1)
    assert crossed.sum() >= 30
    assert pool.num_queries - before <= 10 * len(meetings)
    for number in np.unique(meetings.trace[crossed]):  # the equations that were learned are those of its unit
        assert len(mine[number].system) > 6
        assert np.abs(mine[number].system @ rows.T).max(axis=0).min() < 1e-8


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_units_above_tell_the_sides_and_the_leak(slope):
    network = he_network((5, 12, 8, 8, 1), 0)
    model = leaky(network, slope) if slope else network
    rows = rows_of(network, 0)
    rows /= np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    signs = np.sign(np.random.default_rng(3).standard_normal(len(rows)))
    below = first_layers(network, 0)
    lifted = Lifted(below, rows * signs[:, None])
    told = tell_sides(lifted, follow_over(model, lifted, first_layers(network, 1)))
    assert told is not None
    np.testing.assert_array_equal(told.signs, signs)
    assert told.leak == pytest.approx(slope, abs=1e-9)


def test_shares_that_do_not_agree_tell_no_leak():
    assert read_leak(np.array([1.0, -1.0, 1.0])) == 0.0
    assert read_leak(np.array([1.1 / 0.9, -1.1 / 0.9])) == pytest.approx(0.1, abs=1e-12)
    assert read_leak(np.array([1.0, -1.1, 1.0])) is None
    assert read_leak(np.array([0.5, 0.5])) is None


@pytest.mark.parametrize(("sizes", "slope"), [((6, 14, 8, 6, 2), 0.0), ((10, 8, 8, 6, 2), 0.01)])
def test_whole_networks_wider_than_their_input_or_leaky(sizes, slope):
    network = he_network(sizes, 1)
    network = leaky(network, slope) if slope else network
    found = unweave.identify(lambda x: network(x), input_size=sizes[0], seed=1)
    assert found.identified, found.reason
    assert unweave.compare(network, found.network).max_relative_error < 1e-8
