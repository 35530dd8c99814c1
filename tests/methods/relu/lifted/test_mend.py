"""A sum that is nearly right is brought to explain every answer, with the units the answers need and no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unweave
from methods.relu.lifted.test_follow import draw_network, open_search
from truth import random_network
from unweave.core.network import Network
from unweave.methods.relu.lifted.compare import BEYOND
from unweave.methods.relu.lifted.missing import add_unit
from unweave.methods.relu.lifted.regions import telling_places, walk_inside
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.search import Search
from unweave.methods.relu.lifted.unsure import least_certain

BOX = unweave.Box(-2.0, 2.0)


def as_sum(network: Network) -> RidgeSum:
    """The network of two hidden layers as a sum over its planes: ``2 relu(u) = u + |u|``."""
    (w1, w2, w3), (b1, b2, b3) = network.weights, network.biases
    rows = np.hstack([w1, b1[:, None]])
    gamma = w2 @ rows / 2
    gamma[:, -1] += b2
    above = np.zeros((len(rows) + rows.shape[1], len(b3)))
    above[-1] = b3
    return RidgeSum(rows, gamma, w2 / 2, w3.T, above)


@pytest.fixture(scope="module")
def nearly() -> tuple[Network, Search]:
    """Float32 answers from all over a box, and a search whose sum is the network's own."""
    network = random_network((3, 8, 6, 2), "relu", 1)
    return network, search_of(network)


def search_of(network: Network) -> Search:
    search = open_search(network, BOX, dtype="float32")
    search.draw(12)
    search.find_planes()
    search.explain()
    rng = np.random.default_rng(3)
    search.inquiry.meter.ask(np.concatenate([BOX.sample(2500, 3, rng), BOX.edge(500, 3, rng)]))
    search.point = as_sum(network)
    return search


def misses(search: Search, point: RidgeSum) -> np.ndarray:
    x, y, bars = search._answers()
    return np.max(np.abs(point(x) - y), axis=1) / bars


def test_a_sum_with_a_wrong_weight_is_mended(nearly):
    _, search = nearly
    beta = search.point.beta.copy()
    beta[2, 3] += 1e-3
    point, before = search.point, search.inquiry.meter.ledger.total
    search.point = replace(search.point, beta=beta)
    assert np.max(misses(search, search.point)) > BEYOND
    search.mend()
    assert search.wrong == 0
    assert np.max(misses(search, search.point)) <= BEYOND
    assert search.inquiry.meter.ledger.total - before < 1000
    search.point = point


def test_a_unit_that_is_missing_is_found_by_walks_where_answers_are_wrong(nearly):
    _, search = nearly
    own, x = search.point, BOX.sample(20_000, 3, np.random.default_rng(8))
    shares = np.mean(own.on(x), axis=0)
    rarest = int(np.argmin(np.minimum(shares, 1 - shares)))
    search.point = own.take(np.delete(np.arange(6), rarest))
    assert np.max(misses(search, search.point)) > BEYOND
    search.mend()
    assert search.wrong == 0
    assert len(search.point.gamma) == 6
    assert np.max(np.abs(search.point(x) - own(x))) < 1e-4 * np.std(own(x))
    search.point = own


def test_a_search_goes_on_beside_points_where_it_proved_wrong(nearly):
    _, search = nearly
    own, x = search.point, BOX.sample(50_000, 3, np.random.default_rng(9))
    corner = np.append(np.sign(own.gamma[0, :-1]), -5.9)  # on at few of a million points of the box
    search.point = replace(
        own,
        gamma=np.vstack([own.gamma, corner]),
        beta=np.vstack([own.beta, np.zeros(8)]),
        output=np.vstack([own.output, [[0.3, -0.2]]]),
    )
    suspects = 1.99 * np.sign(own.gamma[:1, :-1])
    assert np.max(np.abs(search.point(suspects) - own(suspects))) > 1e-3
    assert search.can_go_on
    search.go_on(np.inf, suspects)
    assert search.wrong == 0
    assert np.max(np.abs(search.point(suspects) - own(suspects))) < 1e-4
    assert np.max(np.abs(search.point(x) - own(x))) < 1e-4 * np.std(own(x))
    search.point = own


def test_what_is_least_certain_lies_where_nobody_asked(nearly):
    _, search = nearly
    rng = np.random.default_rng(10)
    x, pool = BOX.sample(1500, 3, rng), BOX.sample(300, 3, rng)
    x = x[x[:, 0] < 0]
    bars, pool_bars = np.full(len(x), 1e-7), np.full(len(pool), 1e-7)
    chosen, worst = least_certain(search.point, x, bars, pool, pool_bars, 60, enough=0.5)
    assert 5 < len(chosen) <= 60
    assert np.mean(pool[chosen, 0] > -0.1) > 0.8
    told = np.concatenate([x, pool[chosen]])
    _, after = least_certain(search.point, told, np.full(len(told), 1e-7), pool, pool_bars, 60, enough=0.5)
    assert worst > 100
    assert after < 3


def test_a_unit_that_no_answer_needs_is_left_out_and_no_other(nearly):
    _, search = nearly
    own = search.point
    # one unit as two beside each other, and one that adds nothing
    search.point = RidgeSum(
        own.rows,
        np.vstack([own.gamma, own.gamma[:1], own.gamma[1:2]]),
        np.vstack([own.beta, own.beta[:1], own.beta[1:2]]),
        np.vstack([0.5 * own.output[:1], own.output[1:], 0.5 * own.output[:1], 1e-9 * own.output[1:2]]),
        own.above,
    )
    search.drop_needless(max_needed=8)
    assert len(search.point.gamma) == len(own.gamma)
    assert np.max(misses(search, search.point)) <= BEYOND
    search.point = own


def test_walks_stay_inside_and_go_all_over():
    rng = np.random.default_rng(5)

    def inside(x):
        return np.sum(x, axis=1) > 5.4  # a corner, 0.02 % of the box

    low, high = np.full(3, -2.0), np.full(3, 2.0)
    x = walk_inside(inside, np.full((1, 3), 1.99), low, high, rng)
    assert inside(x).all()
    assert BOX.contains(x).all()
    assert np.all(np.ptp(x, axis=0) > 0.3)
    assert np.min(np.sum(x, axis=1)) < 5.45


def test_places_of_a_rare_unit_tell_all_its_weights(nearly):
    _, search = nearly
    own, rng = search.point, np.random.default_rng(6)
    x = BOX.sample(20_000, 3, rng)
    z = own.forward(np.hstack([x, np.ones((len(x), 1))]))[2][:, 0]
    gamma = own.gamma.copy()
    gamma[0, -1] -= np.quantile(z, 0.998)  # now on at two of a thousand points
    point = replace(own, gamma=gamma)
    starts = x[point.on(x)[:, 0]]
    low, high = np.full(3, -2.0), np.full(3, 2.0)
    places = telling_places(point, 0, True, starts, low, high, rng)
    on = point.on(places)[:, 0]
    assert on.any()
    assert not on.all()
    features = np.hstack([places, np.ones((len(places), 1))])
    features = np.hstack([features, np.abs(features @ point.rows.T)])
    ranks = [np.linalg.matrix_rank(features[rows], tol=1e-6) for rows in (on, np.ones(len(on), dtype=bool))]
    many = np.hstack([starts, np.ones((len(starts), 1))])
    many = np.hstack([many, np.abs(many @ point.rows.T)])
    assert ranks[0] >= np.linalg.matrix_rank(many, tol=1e-6)


def test_exact_answers_are_polished_to_their_rounding():
    search = open_search(draw_network((3, 12, 8, 2), 0), BOX)
    search.draw(12)
    search.find_planes()
    search.explain()
    search.fit()
    search.inquiry.meter.ask(BOX.sample(1000, 3, np.random.default_rng(3)))
    turned = 1 + 1e-11 * np.random.default_rng(7).standard_normal(search.point.gamma.shape)
    search.point = replace(search.point, gamma=search.point.gamma * turned)
    search._recompose()
    assert np.max(search._misses(search.network, *search._answers())) > 100
    search.polish()
    assert np.max(search._misses(search.network, *search._answers())) < 1


def test_a_unit_of_a_corner_is_told_by_the_few_answers_that_are_wrong():
    rest, rng = as_sum(random_network((3, 8, 6, 2), "relu", 1)), np.random.default_rng(4)
    corner = np.array([1.0, 1.0, 1.0, -5.7])  # on at 1e-5 of the box
    whole = replace(
        rest,
        gamma=np.vstack([rest.gamma, corner]),
        beta=np.vstack([rest.beta, np.zeros(8)]),
        output=np.vstack([rest.output, [[0.3, -0.2]]]),
    )
    x = np.concatenate([BOX.sample(3000, 3, rng), rng.uniform(1.8, 2.0, (120, 3))])
    y, bars = whole(x), np.full(len(x), 1e-6)
    assert 0.01 < np.mean(np.abs(rest(x) - y) > BEYOND * 1e-6) < 0.04
    for seed in range(3):
        grown, left = add_unit(rest, x, y, bars, np.random.default_rng(seed))
        assert left < 1e-6
        assert np.max(np.abs(grown(x) - y)) < 1e-4 * np.max(np.abs(rest(x) - y))


def test_a_sum_is_the_same_over_more_planes_in_another_order():
    point, rng = as_sum(random_network((3, 8, 6, 2), "relu", 1)), np.random.default_rng(4)
    rows = np.vstack([-2.0 * point.rows[::-1] * (1 + 1e-6), [[0.6, 0.0, 0.8, 0.1]]])
    x, wider = BOX.sample(200, 3, rng), point.over(rows)
    assert wider is not None
    np.testing.assert_allclose(wider(x), point(x), rtol=1e-12)
    assert wider.beta.shape == (6, 9)
    assert point.over(rows[1:]) is None
