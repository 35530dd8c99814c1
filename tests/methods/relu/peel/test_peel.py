"""Deep networks in boxes of three inputs: first layers without facets of deeper ones, whole functions, sides."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import unweave
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.maps.board import Board
from unweave.methods.relu.maps.parity import fit_last, keep_more_sides
from unweave.methods.relu.peel.climb import Climb
from unweave.methods.relu.peel.mend import fit_every, num_beyond
from unweave.methods.relu.peel.order import settle
from unweave.methods.relu.peel.planes import find_planes
from unweave.methods.relu.peel.sides import break_up
from unweave.methods.relu.peel.trails import Region
from unweave.models.resolve import resolve
from unweave.probes.inquiry import Inquiry, open_inquiry
from unweave.probes.lines import draw_lines

SIZES = (3, 6, 6, 4, 2)


def he(seed: int, name: str = "relu") -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(SIZES))
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairs]
    biases = [0.2 * rng.standard_normal(b) for _, b in pairs]
    return Network(weights, biases, [name] * 3 + ["identity"])


def ask_in_box(network: Network) -> Inquiry:
    meter = Meter(resolve(network), domain=Box(-1.0, 1.0))
    precision = Precision(noise=1e-16, scale=1.0, kind="float64")
    return open_inquiry(meter, precision, np.random.default_rng(0))


def climb_over(network: Network, lines: int = 30) -> Climb:
    inquiry, rng = ask_in_box(network), np.random.default_rng(1)
    region = Region(inquiry, -np.ones(3), np.ones(3), rng)
    climb = Climb(region, Pool(inquiry, rng), np.inf)
    climb.pool.add_lines(draw_lines(inquiry.meter.domain, lines, 3, rng))
    return climb


def errors(rows: np.ndarray, network: Network) -> np.ndarray:
    """Of every row, how far it is from the nearest unit of the first layer, up to scale."""
    true = np.hstack([network.weights[0], network.biases[0][:, None]])
    true, rows = (part / np.linalg.norm(part[:, :-1], axis=1, keepdims=True) for part in (true, rows))
    apart = np.minimum(*(np.max(np.abs(rows[:, None] - s * true), axis=2) for s in (1, -1)))
    return apart.min(axis=1)


def test_the_first_layer_holds_no_facet_of_a_deeper_one() -> None:
    for seed, name in ((3, "relu"), (4, "leaky_relu(0.01)")):
        network = he(seed, name)
        climb = climb_over(network)
        sure, _ = climb.settle_generation(climb.find_generation())
        rows = np.array([trace.row for trace in sure])
        assert len(rows) >= 4
        assert errors(rows, network).max() < 1e-10


def test_a_deep_leaky_network_comes_back_as_a_function_of_its_box() -> None:
    network = he(1, "leaky_relu(0.1)")
    found = unweave.identify(
        lambda x: network(x), input_size=3, domain=Box(-1.0, 1.0), method="relu-layers", seed=0, time_limit=60
    )
    assert found.network is not None
    assert not found.network.is_open
    x = np.random.default_rng(5).uniform(-1, 1, (4000, 3))
    miss = np.max(np.abs(found.network(x) - network(x)), axis=1)
    assert np.mean(miss > 1e-8) < 1e-3


def test_one_that_goes_straight_over_nothing_sure_stays_loose() -> None:
    nan = np.nan
    bends = np.array([[nan, 0, nan, nan], [0, nan, nan, nan], [0.3, 0, nan, nan], [nan, nan, 0, nan]])
    sure, above = settle(bends)
    assert sure.tolist() == [True, True, False, False]
    assert above.tolist() == [False, False, True, False]


def test_ways_are_cut_where_units_bend() -> None:
    rng = np.random.default_rng(2)
    features = Lifted(Lifted(Known(3), rng.standard_normal((4, 4))), rng.standard_normal((3, 8)))
    starts, ends = rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, (5, 3))
    owner, t, h = break_up(features, starts, ends)
    x = starts[owner] + t[:, None] * (ends - starts)[owner]
    np.testing.assert_allclose(h, features.features(x), atol=1e-12)
    middle = (owner[:-1] == owner[1:])[:, None]
    halfway = features.features((x[:-1] + x[1:]) / 2)
    np.testing.assert_allclose(np.where(middle, halfway - (h[:-1] + h[1:]) / 2, 0.0), 0.0, atol=1e-12)


def test_planes_that_lines_see_on_both_sides_of_others_are_of_the_first_layer() -> None:
    network = he(3)
    found, others = find_planes(climb_over(network, 60).pool, 2.0)
    assert len(found) >= 4
    assert errors(np.array([trace.row for trace in found]), network).max() < 1e-9
    assert len(np.intersect1d([trace.seed for trace in found], others)) == 0


def test_every_answer_is_fitted_to_its_error_bars() -> None:
    network = he(5)
    inquiry = ask_in_box(network)
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (3000, 3))
    inquiry.meter.ask(x)
    start = Network(
        network.weights, [network.biases[0] + 1e-7, *network.biases[1:]], network.activations, network.upper
    )
    assert num_beyond(inquiry, start, x) > 100
    fitted = fit_every(inquiry, start, np.inf)
    assert num_beyond(inquiry, fitted, x) == 0


def test_open_rows_keep_the_sides_that_are_counted_where_nothing_was_asked() -> None:
    """The third feature is off wherever answers are: only sides tell its weight."""
    rng = np.random.default_rng(0)
    row = np.array([1.0, -0.5, 2.0, 0.1])
    low, more = (np.hstack([rng.uniform(-1, 1, (200, 3)), np.ones((200, 1))]) for _ in range(2))
    low[:, 2] = 0.0
    more[:, 2] = np.abs(more[:, 2])
    zero = low[:12].copy()
    zero[:, 1] = 2 * (zero[:, 0] + 0.1)
    board = Board(
        low,
        np.abs(low @ row)[:, None],
        np.sign(low @ row)[:, None],
        np.ones((1, 1)),
        [zero],
        np.zeros((0, 4)),
        [],
    )
    last = fit_last(board)
    assert last is not None
    board.keep_at(more, np.sign(more @ row)[:, None], np.zeros((200, 0)))
    kept = keep_more_sides(board, last)
    assert np.mean((more @ kept.rows[0]) * (more @ row) < -1e-6) == 0
    assert np.max(np.abs(kept(low)[:, 0] - np.abs(low @ row))) < 1e-9
