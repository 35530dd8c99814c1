"""The search for disagreement meets units that random points do not, and stays quiet where there is nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from truth import random_network
from unweave.certificates.base import FreshQueries
from unweave.certificates.disagreement import check_disagreement, search_disagreement
from unweave.certificates.queries import certify
from unweave.core.domains import Ball, Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.models.python_callable import CallableOracle
from unweave.models.resolve import resolve

EXACT = Precision(1e-16, 1.0, "float64")


def he_network(sizes: tuple[int, ...], seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng([seed, *sizes])
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    return weights, [0.3 * rng.standard_normal(b) for b in sizes[1:]]


def with_a_rare_unit(sizes: tuple[int, ...], share: float, seed: int) -> tuple[Network, Network]:
    """A He network whose first unit of the second layer is active on ``share`` of all directions, and it without."""
    weights, biases = he_network(sizes, seed)
    x = np.random.default_rng(seed).standard_normal((100_000, sizes[0]))
    h = np.maximum(x @ weights[0].T, 0)
    h = h[np.any(h > 0, axis=1)]
    typical = np.mean(h / np.linalg.norm(h, axis=1, keepdims=True), axis=0)
    weights[1][0] -= np.quantile(h @ weights[1][0] / (h @ typical), 1 - share) * typical
    names = ["relu", "relu", "identity"]
    without = [weights[0], weights[1][1:], weights[2][:, 1:]], [biases[0], biases[1][1:], biases[2]]
    return Network(weights, biases, names), Network(*without, names)


def share_of_directions(network: Network, unit: int) -> float:
    x = 1e3 * np.random.default_rng(99).standard_normal((200_000, network.input_size))
    h = np.maximum(x @ network.weights[0].T + network.biases[0], 0)
    return float(np.mean(h @ network.weights[1][unit] + network.biases[1][unit] > 0))


def search(model: Network, network: Network, seed: int = 0, precision: Precision = EXACT, **options):
    meter = Meter(resolve(model), **options)
    return search_disagreement(network, meter, precision, np.random.default_rng(seed)), meter


@pytest.mark.parametrize("share", [1e-4, 5e-4, 2e-3])
@pytest.mark.parametrize("sizes", [(10, 32, 32, 2), (20, 24, 16, 1)])
def test_a_unit_active_on_few_directions_is_not_missed(sizes, share):
    truth, without = with_a_rare_unit(sizes, share, 3)
    assert share / 3 < share_of_directions(truth, 0) < 3 * share
    found, meter = search(truth, without)
    assert found.found
    x = found.worst[None]
    assert np.max(np.abs(truth(x) - without(x))) > 1e-6 * np.max(np.abs(truth(x)))
    assert "rarely active" in found.describe()
    assert len(found.suspects) >= 1
    assert meter.ledger.by_stage == {"certificate": found.num_questions}
    n = sum(without.hidden)
    assert found.num_questions <= 268 + 24 * n + 48


@pytest.mark.parametrize("difference", ["rows and biases", "biases"])
def test_twins_taken_for_one_unit_differ_on_its_plane(difference):
    weights, biases = he_network((6, 8, 1), 1)
    row = weights[0][0] + (1e-4 if difference == "rows and biases" else 0.0)
    names = ["relu", "identity"]
    twins = Network(
        [np.vstack([weights[0], row]), np.hstack([weights[1], weights[1][:, :1]])],
        [np.append(biases[0], biases[0][0] + 1e-4), biases[1]],
        names,
    )
    one = [weights[0].copy(), weights[1].copy()]
    one[0][0], one[1][:, 0] = (weights[0][0] + row) / 2, 2 * weights[1][:, 0]
    middle = biases[0].copy()
    middle[0] += 0.5e-4
    assert search(twins, Network(one, [middle, biases[1]], names))[0].found


def test_a_thin_slab_near_the_origin_is_met():
    weights, biases = he_network((4, 6, 1), 2)
    names = ["relu", "identity"]
    plain = Network(weights, biases, names)
    normal = np.array([0.6, -0.8, 0.0, 0.0])
    slab = Network(
        [np.vstack([weights[0], [normal] * 3]), np.hstack([weights[1], [[1.0, -2.0, 1.0]]])],
        [np.append(biases[0], [0.22, 0.2, 0.18]), biases[1]],
        names,
    )
    found = [search(slab, plain, seed)[0].found for seed in range(10)]
    assert np.mean(found) >= 0.7
    assert search(plain, plain)[0].thinnest_slab < 0.05


@pytest.mark.parametrize("input_size", [4, 12])
def test_a_unit_in_one_corner_of_a_box_is_met(input_size):
    weights, biases = he_network((input_size, 6, 1), 4)
    plain = Network(weights, biases, ["relu", "identity"])
    corner = np.random.default_rng(5).standard_normal(input_size)
    x = np.random.default_rng(6).uniform(-1, 1, size=(100_000, input_size))
    bias = -np.quantile(x @ corner, 1 - 2e-4)
    more = Network(
        [np.vstack([weights[0], corner]), np.hstack([weights[1], [[1.0]]])],
        [np.append(biases[0], bias), biases[1]],
        ["relu", "identity"],
    )
    found = [search(more, plain, seed, domain=Box(-1, 1))[0].found for seed in range(5)]
    assert np.mean(found) >= 0.8


@pytest.mark.parametrize("domain", [None, Ball(3.0), Box(-2, 2)], ids=str)
@pytest.mark.parametrize("sizes", [(5, 7, 2), (5, 6, 4, 1), (4, 5, 4, 3, 1)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_the_true_network_raises_no_alarm(sizes, activation, domain):
    truth = random_network(sizes, activation, 1)
    found, meter = search(truth, truth, domain=domain)
    assert not found.found
    assert meter.ledger.total == found.num_questions
    assert found.num_questions == 0 or "could hide" in found.describe()
    assert len(meter.transcript()[0]) == 0
    assert found.num_questions <= (24 if activation != "relu" else 268 + 24 * sum(truth.hidden)) + 48


@pytest.mark.parametrize("kind", ["float32", "noisy"])
@pytest.mark.parametrize("domain", [None, Box(-2, 2)], ids=str)
def test_rough_answers_raise_no_alarm(kind, domain):
    truth = random_network((6, 10, 6, 1), "relu", 3)
    rng = np.random.default_rng(0)
    single = [w.astype(np.float32) for w in truth.weights], [b.astype(np.float32) for b in truth.biases]

    def answer(x):
        if kind == "noisy":
            return truth(x) + 1e-4 * rng.standard_normal((len(x), 1))
        h = x.astype(np.float32)
        for i, (w, b) in enumerate(zip(*single, strict=True)):
            h = h @ w.T + b
            h = np.maximum(h, 0) if i < 2 else h
        return h.astype(np.float64)

    precision = Precision(1e-4, 1.0, "noisy") if kind == "noisy" else Precision(1e-7, 1.0, "float32")
    meter = Meter(CallableOracle("rough", 6, 1, "float64", answer), domain=domain)
    assert not search_disagreement(truth, meter, precision, rng).found


def test_the_budget_is_kept_and_used():
    truth = random_network((5, 6, 4, 1), "relu", 1)
    assert search(truth, truth, budget=100)[1].ledger.total <= 100
    spent = Meter(resolve(truth), budget=1)
    spent.ask(np.zeros((1, 5)))
    assert search_disagreement(truth, spent, EXACT, np.random.default_rng(0)).num_questions == 0
    plain, plenty = search(truth, truth)[0], search(truth, truth, budget=1_000_000)[0]
    assert plenty.num_questions > 2 * plain.num_questions
    assert plenty.rare_patterns < plain.rare_patterns / 2


def test_without_the_search_nothing_is_claimed_of_kinks():
    truth = random_network((5, 6, 4, 1), "relu", 1)
    meter = Meter(resolve(truth), budget=50)
    (check,), suspects = check_disagreement(truth, FreshQueries(meter, EXACT, np.random.default_rng(0)))
    assert check.passed is None
    assert check.needed
    assert not len(suspects)


def test_the_certificate_does_not_agree_where_a_rare_unit_is_missing():
    truth, without = with_a_rare_unit((10, 32, 32, 2), 1e-3, 3)
    meter = Meter(resolve(truth))
    certificate = certify(without, meter, EXACT, np.random.default_rng(1))
    assert certificate.points_agree
    assert [check.name for check in certificate.failed] == ["search for disagreement"]
    assert len(certificate.fresh["suspects"])
    assert certify(truth, meter, EXACT, np.random.default_rng(1)).agrees


def test_a_network_that_is_wrong_everywhere_is_not_called_rarely_wrong():
    truth, other = random_network((5, 6, 4, 1), "relu", 1), random_network((5, 6, 4, 1), "relu", 2)
    meter = Meter(resolve(truth))
    (check,), _ = check_disagreement(other, FreshQueries(meter, EXACT, np.random.default_rng(0)))
    assert check.passed is False
    assert not check.local


def test_the_climb_begins_at_fresh_points_that_stand_out():
    truth = random_network((3, 4, 1), "tanh", 1)

    def bump(x):
        return truth(x) + 3e-9 * np.exp(-5 * np.sum((x - 1.0) ** 2, axis=1, keepdims=True))

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal((100, 3)), np.ones((1, 3)) + 0.35])
    meter = Meter(CallableOracle("bump", 3, 1, "float64", bump))
    found = search_disagreement(truth, meter, EXACT, rng, (x, bump(x)))
    assert 0 < found.num_questions <= 48
    assert found.found
    assert np.linalg.norm(found.worst - 1.0) < 0.6
