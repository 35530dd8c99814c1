"""Networks found in a part of the domain in front of a squashing: what the part does not show is looked for beyond."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.certificates.squashed import check_squashed
from unweave.core.domains import Ball, Everywhere
from unweave.core.network import Network
from unweave.core.outputs import Squashing
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.models.resolve import resolve

EXACT, RADIUS = Precision(1e-16, 0.3, "float64"), 2.0


def hidden_beyond(head: str, seed: int) -> tuple[Network, Network]:
    """Two layers behind ``head``, and the same without the unit of the second that is on in no point of the ball."""
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in ((8, 12), (12, 9), (9, 2))]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in ((8, 12), (12, 9), (9, 2))]
    lower = Network(weights[:2], biases[:2], ["relu", "identity"])
    x = Ball(RADIUS).sample(20_000, 8, rng)
    biases[1][0] -= 1.3 * np.max(lower(x)[:, 0])
    names = ["relu", "relu", head]
    less = [weights[0], weights[1][1:], weights[2][:, 1:]], [biases[0], biases[1][1:], biases[2]]
    return Network(weights, biases, names), Network(*less, ["relu", "relu", "identity"])


def look(truth: Network, network: Network, head: str, seed: int, **options):
    meter = Meter(resolve(truth), **options)
    meter.domain = Ball(RADIUS)
    meter.look_through(Squashing(head), 0.0, 2.0**-53)
    rng = np.random.default_rng(seed)
    return check_squashed(network, Squashing(head), meter, Everywhere(), EXACT, rng), meter


@pytest.mark.parametrize("head", ["clamp(-1.0, 2.0)", "sigmoid", "tanh", "exp"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_unit_that_is_on_only_beyond_the_part_is_missed_and_named(head, seed):
    truth, without = hidden_beyond(head, seed)
    check, meter = look(truth, without, head, seed)
    assert check.passed is False
    assert check.local
    assert check.figures["num_wrong"] >= 10
    assert "Ball" in check.reason
    assert meter.ledger.total < 400
    whole = Network(truth.weights, truth.biases, [*truth.activations[:-1], "identity"])
    check, _ = look(truth, whole, head, seed)
    assert check.passed, check.reason
    assert "whole domain" in check.words


def test_nothing_is_claimed_where_the_budget_does_not_reach_beyond_the_part():
    truth, without = hidden_beyond("sigmoid", 1)
    check, _ = look(truth, without, "sigmoid", 1, budget=50)
    assert check.passed is None
    assert check.needed
