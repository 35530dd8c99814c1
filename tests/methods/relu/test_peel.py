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
from unweave.methods.relu.peel.climb import Climb
from unweave.probes.looks import look
from unweave.methods.relu.peel.order import settle
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


def test_a_look_tells_one_kink_none_and_where() -> None:
    inquiry = ask_in_box(
        Network([np.eye(3), np.ones((1, 3))], [np.zeros(3), np.zeros(1)], ["relu", "identity"])
    )
    x = np.array([[0.0, 0.3, 0.4], [0.2, 0.3, 0.4]])
    seen = look(inquiry, x - [0.001, 0, 0], np.array([[1.0, 0, 0]] * 2), np.full(2, 0.01))
    assert seen.bent.tolist() == [True, False]
    assert seen.straight.tolist() == [False, True]
    assert abs(seen.shift[0] - 0.001) < 1e-12


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
