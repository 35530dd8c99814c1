"""A run ends in time: what is large but simple at once, what is hopeless within its limit."""

from __future__ import annotations

import time

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave import Network, compare, identify
from unweave.core.domains import Ball, Box
from unweave.core.errors import Outcome


@pytest.fixture(scope="module", autouse=True)
def warm():
    """What is imported on the way to a result is no part of the time a method takes."""
    identify(random_network((3, 2, 1)))
    identify(random_network((3, 2, 1), "relu"), domain=Ball(2))


def timed(model, **options) -> tuple[unweave.Identification, float]:
    began = time.process_time()
    found = identify(model, **options)
    return found, time.process_time() - began


def default_network(sizes: tuple[int, ...], seed: int) -> Network:
    """Weights and biases uniform in +-1/sqrt(inputs), as frameworks draw them."""
    rng = np.random.default_rng(seed)
    bounds = [1 / np.sqrt(size) for size in sizes[:-1]]
    weights = [rng.uniform(-b, b, size=(sizes[i + 1], sizes[i])) for i, b in enumerate(bounds)]
    biases = [rng.uniform(-b, b, size=sizes[i + 1]) for i, b in enumerate(bounds)]
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def test_five_hundred_relu_units_end_at_once():
    """Their sides are more than can be searched through, which is said, and the function is right."""
    truth = default_network((8, 500, 2), 3)
    found, seconds = timed(truth, time_limit=60)
    assert seconds < 10
    assert found.outcome is Outcome.PARTLY
    assert "the sides of the 500 units were not found" in found.reason
    assert "linear term" not in found.verdict()
    assert found.ledger.total < 6 * truth.num_parameters
    x = np.random.default_rng(0).standard_normal((200, 8))
    assert np.max(np.abs(found(x) - truth(x))) < 1e-9 * np.max(np.abs(truth(x)))


def test_a_thousand_outputs_in_a_ball_are_as_many_as_move():
    truth = random_network((4, 6, 1000), "tanh", 3)
    found, seconds = timed(truth, domain=Ball(2), time_limit=30)
    assert seconds < 8
    assert found.identified, found.verdict()
    assert found.ledger.total < 1000
    assert compare(truth, found.network).max_relative_error < 1e-8


def test_a_thousand_outputs_that_are_no_network_end_in_time():
    """One Jacobian of all of them would take more memory than there is."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 40)), rng.standard_normal((40, 1000))
    found, seconds = timed(
        lambda x: np.sin(3 * np.abs(x @ a)) @ b, input_size=4, domain=Ball(2), time_limit=3
    )
    assert seconds < 3.3
    assert not found.identified
    assert found.reason


@pytest.mark.parametrize(
    ("model", "limit", "domain"),
    [
        (default_network((8, 64, 64, 4), 3), 2.0, None),
        (random_network((10, 16, 16, 16, 3), "relu", 3), 1.5, None),
        (random_network((6, 30, 30, 2), "relu", 3), 1.5, Box(-1.0, 1.0)),
        (random_network((10, 40, 40, 2), "tanh", 3), 1.5, None),
        (random_network((20, 100, 3), "sigmoid", 3), 1.0, None),
        (random_network((6, 300, 40), "tanh", 3), 1.5, Ball(1)),
    ],
    ids=["two-wide", "three-relu", "relu-box", "two-tanh", "one-sigmoid", "wide-ball"],
)
def test_a_limit_is_kept_where_the_method_cannot_finish(model, limit, domain):
    found, seconds = timed(model, time_limit=limit, domain=domain)
    assert seconds <= 1.1 * limit
    assert not found.identified
    assert "allow more with time_limit=" in found.verdict()
