"""Deep saturating networks: what stands above the first layer, from vertices or from points near the origin."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.far_field.peel import peel
from unweave.students.overwide import Pool


def pool_of(network: Network, num_points: int, rng: np.random.Generator, vertices: bool = True) -> Pool:
    def buy(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((n, network.input_size))
        x = np.sign(x) if vertices else 2 * x
        return x, network(x)

    return Pool(*buy(num_points), buy)


def test_two_hidden_layers_above_come_from_vertices():
    top = random_network((10, 5, 3, 1), "tanh", seed=3)
    rng = np.random.default_rng(1)
    found = peel(
        pool_of(top, 200, rng),
        act.get("tanh"),
        hidden=None,
        max_depth=2,
        noise=0.0,
        rng=rng,
        deadline=clock.now() + 60,
    )
    assert found.network is not None, found.reason
    assert unweave.compare(top, found.network).max_relative_error < 1e-9


def test_known_rows_lead_to_the_whole_network_inside():
    truth = random_network((5, 6, 4, 3, 1), "tanh", seed=5)
    rng = np.random.default_rng(2)
    rows = truth.weights[0] * (1 + 0.005 * rng.standard_normal(truth.weights[0].shape))
    found = peel(
        pool_of(truth, 500, rng, vertices=False),
        act.get("tanh"),
        hidden=(4, 3),
        max_depth=2,
        noise=0.0,
        rng=rng,
        deadline=clock.now() + 60,
        first=(rows, np.zeros(6)),
    )
    assert found.network is not None, found.reason
    assert unweave.compare(truth, found.network).max_relative_error < 1e-8


def test_a_passed_deadline_is_told():
    top = random_network((6, 4, 3, 1), "tanh")
    rng = np.random.default_rng(0)
    found = peel(
        pool_of(top, 50, rng), act.get("tanh"), hidden=None, max_depth=2, noise=0.0, rng=rng, deadline=0.0
    )
    assert found.network is None
    assert "time limit" in found.reason


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_three_hidden_layers_end_to_end(activation):
    truth = random_network((8, 10, 5, 3, 1), activation, seed=1)
    found = unweave.identify(truth, method="far-field", seed=1)
    assert found.identified, found.reason
    assert found.network is not None
    assert found.network.hidden == (10, 5, 3)
    assert unweave.compare(truth, found.network).max_relative_error < 1e-7
