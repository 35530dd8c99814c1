"""What may be claimed: a wrong or incomplete network is never identified, whatever its method says of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.certificates.answers import ANSWERS
from unweave.certificates.base import Check
from unweave.certificates.certificate import Certificate
from unweave.certificates.claim import judge
from unweave.certificates.disagreement import SEARCH
from unweave.core.errors import Outcome
from unweave.core.network import UNKNOWN, Network
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Finding, Serves

GOOD = Certificate(1e-12, 1e-13, 200, 1e-9, 0.03)
NETWORK = random_network((3, 2, 1))


@dataclass(frozen=True)
class Told:
    """A method that returns what it was told to."""

    finding: Finding
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    name: str = "told"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES)

    def suits(self, traits):
        return None

    def recover(self, meter, problem):
        if len(self.points):
            with meter.stage("points"):
                meter.ask(self.points)
        return self.finding


@pytest.mark.parametrize("evidence", Evidence)
@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({}, Outcome.IDENTIFIED, ""),
        ({"max_relative_error": 1e-5}, Outcome.PARTLY, "differ by up to 1.0e-05"),
        ({"max_relative_error": 1e-2}, Outcome.NOT_IDENTIFIED, "differ by up to 1.0e-02"),
        ({"num_points": 5}, Outcome.PARTLY, "only 5"),
        ({"undetermined": ("unit 3",)}, Outcome.PARTLY, "not determined"),
        ({"checks": (Check("a", True),)}, Outcome.IDENTIFIED, ""),
        ({"checks": (Check("a", None),)}, Outcome.IDENTIFIED, ""),
        ({"checks": (Check("a", None, needed=True),)}, Outcome.PARTLY, "could not be made: a"),
        ({"checks": (Check("a", False, reason="it fails"),)}, Outcome.PARTLY, "it fails"),
        (
            {"checks": (Check("a", False, reason="it fails"),), "max_relative_error": 0.1, "tolerance": 1.0},
            Outcome.NOT_IDENTIFIED,
            "it fails",
        ),
        (
            {"checks": (Check("a", False, reason="a unit is missing", local=True),)},
            Outcome.PARTLY,
            "a unit is missing",
        ),
    ],
)
def test_the_outcome_follows_from_the_certificate(evidence, changes, outcome, words):
    found, reason = judge(NETWORK, replace(GOOD, **changes), evidence)
    assert found is outcome
    assert words in reason
    more = {Evidence.QUERIES: "rows", Evidence.ROWS: "queries"}[evidence]
    assert more not in reason
    assert "budget" not in reason


@pytest.mark.parametrize("changes", [{"max_relative_error": 1e-5}, {"num_points": 5}])
def test_a_larger_budget_is_advised_where_there_is_one(changes):
    certificate = replace(GOOD, **changes)
    assert "budget" in judge(NETWORK, certificate, Evidence.QUERIES, has_budget=True)[1]
    assert "more rows" in judge(NETWORK, certificate, Evidence.ROWS)[1]


@pytest.mark.parametrize("evidence", Evidence)
def test_a_layer_that_is_refused_is_not_called_known(evidence):
    layer = Network([np.eye(3)], [np.zeros(3)], ["relu"], upper=UNKNOWN)
    refused = replace(GOOD, max_relative_error=0.5, checks=(Check("a", False, reason="it fails"),))
    outcome, reason = judge(layer, refused, evidence, reason="the first hidden layer is known")
    assert outcome is Outcome.NOT_IDENTIFIED
    assert "known" not in reason


def test_an_answer_beyond_its_error_bars_is_not_explained_away():
    truth = random_network((4, 25, 1), "tanh", 0)  # too large for standard errors from these few answers
    spike = np.full((1, 4), 0.3)

    def model(x: np.ndarray) -> np.ndarray:
        return truth(x) + 1e-3 * np.all(x == spike, axis=1)[:, None]

    def identify(bars) -> unweave.Identification:
        told = Told(Finding(truth, error_bars=bars), np.concatenate([spike, np.eye(4)]))
        return unweave.identify(model, input_size=4, method=told)

    for bars in (None, lambda x, answers: np.full(len(x), 1e-9)):  # the measured ones, and a method's own
        found = identify(bars)
        assert found.outcome is Outcome.PARTLY
        assert "1 of" in found.reason
        assert "beyond 8 error bars" in found.reason
        assert found.certificate is not None
        assert found.certificate.check(ANSWERS).figures["num_far"] == 1
    assert identify(lambda x, answers: np.full(len(x), 1e-2)).identified


def with_a_rare_unit(share: float, seed: int) -> tuple[Network, Network]:
    """A network whose first unit of the second layer is active on ``share`` of all directions, and it without."""
    rng = np.random.default_rng(seed)
    sizes = (10, 32, 32, 2)
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    biases = [0.3 * rng.standard_normal(b) for b in sizes[1:]]
    h = np.maximum(rng.standard_normal((50_000, 10)) @ weights[0].T, 0)
    typical = np.mean(h / np.linalg.norm(h, axis=1, keepdims=True), axis=0)
    weights[1][0] -= np.quantile(h @ weights[1][0] / (h @ typical), 1 - share) * typical
    names = ["relu", "relu", "identity"]
    without = [weights[0], weights[1][1:], weights[2][:, 1:]], [biases[0], biases[1][1:], biases[2]]
    return Network(weights, biases, names), Network(*without, names)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_a_unit_that_is_rarely_active_is_not_missed_quietly(seed):
    truth, without = with_a_rare_unit(5e-4, seed)
    found = unweave.identify(truth, method=Told(Finding(without)))
    assert found.outcome is Outcome.PARTLY
    whole = unweave.identify(truth, method=Told(Finding(truth)))
    assert whole.certificate is not None
    check = whole.certificate.check(SEARCH)
    assert check is not None
    assert check.passed
    assert "could hide" in check.words


def test_noise_is_not_measured_by_how_far_the_domain_lies():
    """A bend of twelve times the noise, in a box far from the origin, is no linear function."""
    rng = np.random.default_rng(0)
    bent = Network([[[0.036, -0.188]], [[0.651]]], [[0.093], [0.21]], ["tanh", "identity"])
    found = unweave.identify(
        lambda x: bent(x) + 1e-5 * rng.standard_normal((len(x), 1)),
        input_size=2,
        domain=unweave.Box([-5.3, 14.9], [-2.3, 17.9]),
        time_limit=3.0,
    )
    assert not (found.identified and not found.network.hidden)


def test_a_check_that_answers_in_numpy_fails_all_the_same():
    refused = replace(GOOD, checks=(Check("made by hand", np.bool_(False), reason="it is not so"),))  # type: ignore[arg-type]
    assert not refused.agrees
    assert judge(NETWORK, refused, Evidence.QUERIES)[0] is not Outcome.IDENTIFIED
