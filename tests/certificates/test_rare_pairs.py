"""Points at which states of two units meet that hardly ever do."""

from __future__ import annotations

import numpy as np

from unweave.certificates.rare_pairs import find_rare_pairs
from unweave.core.domains import Ball, Box
from unweave.core.network import Network

D = 12


def with_weight(value: float) -> Network:
    """A unit of the second layer that is on only where a first-layer unit is, in one corner of the box of 4,096."""
    rng = np.random.default_rng(0)
    corner = np.where(np.arange(D) % 3 == 0, -1.0, 1.0)
    w1, b1 = 0.3 * rng.standard_normal((8, D)), rng.uniform(-0.5, 0.5, 8)
    w2, b2 = rng.standard_normal((6, 8)), rng.uniform(-0.3, 0.3, 6)
    w1, b1 = np.vstack([w1, corner]), np.append(b1, 1.0 - D)
    w2 = np.hstack([w2, np.zeros((6, 1))])
    w2[0, -1], b2[0] = value, -0.5
    return Network([w1, w2, rng.standard_normal((2, 6))], [b1, b2, np.zeros(2)], ["relu", "relu", "identity"])


def test_a_wrong_weight_between_two_units_that_hardly_ever_meet_shows():
    truth, wrong = with_weight(2.0), with_weight(-5.0)
    x = np.random.default_rng(1).uniform(-1, 1, (200_000, D))
    assert np.array_equal(truth(x), wrong(x))
    for seed in range(3):
        points = find_rare_pairs(wrong, 200, Box(-1, 1), np.random.default_rng(seed))
        assert len(points) <= 200
        assert np.all(np.abs(points) <= 1)
        assert np.max(np.abs(truth(points) - wrong(points))) > 1e-3


def test_nothing_is_looked_for_elsewhere():
    rng = np.random.default_rng(0)
    network = with_weight(2.0)
    assert len(find_rare_pairs(network, 100, Ball(1.0), rng)) == 0
    flat = Network(network.weights[1:], network.biases[1:], ["relu", "identity"])
    assert len(find_rare_pairs(flat, 100, Box(-1, 1), rng)) == 0
