"""Points that climb to where they tell most, against as many drawn ones."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.network import Network
from unweave.solve.aim import aimed_points
from unweave.solve.design import covariance_of, telling_points, unit_sizes
from unweave.solve.information import gauge_rows
from unweave.solve.layout import Layout
from unweave.solve.propagated import propagated_rounding


def with_a_weak_unit() -> Network:
    network = random_network((5, 6, 1), "silu", 4)
    weights = [w.copy() for w in network.weights]
    weights[1][0, 2] *= 0.01
    return Network(weights, network.biases, network.activations)


def error(network: Network):
    return lambda x: propagated_rounding(network, x, 2.0**-23)


def draw(rng):
    return lambda count: 3 * rng.standard_normal((count, 5))


def worst(network: Network, x: np.ndarray) -> float:
    """The largest standard error that answers at ``x`` leave."""
    layout = Layout.of(network)
    rows = layout.linearise(network.flat(), x)[1] * unit_sizes(network) / error(network)(x).reshape(-1, 1)
    gauge = gauge_rows(layout, network.flat()).toarray()
    return float(np.sqrt(np.max(np.diag(covariance_of(rows.T @ rows, gauge)))))


def everywhere(x: np.ndarray) -> np.ndarray:
    return np.ones(len(x), dtype=bool)


def test_climbing_finds_points_that_tell_more_than_drawn_ones():
    network, x = with_a_weak_unit(), draw(np.random.default_rng(0))(100)
    options = {"goal": 0.0, "most": 120}
    aimed = aimed_points(
        network,
        x,
        draw(np.random.default_rng(1)),
        error=error(network),
        allowed=everywhere,
        rng=np.random.default_rng(2),
        **options,
    )
    drawn = telling_points(network, x, draw(np.random.default_rng(1)), noise=error(network), **options)
    assert len(aimed) == len(drawn) == 120
    assert worst(network, np.concatenate([x, aimed])) < 0.7 * worst(network, np.concatenate([x, drawn]))


def test_it_stops_at_the_goal_and_never_leaves_what_is_allowed():
    network, x = with_a_weak_unit(), draw(np.random.default_rng(0))(100)
    goal = 0.5 * worst(network, x)
    asked = aimed_points(
        network,
        x,
        draw(np.random.default_rng(1)),
        error=error(network),
        allowed=lambda points: np.linalg.norm(points, axis=1) < 8,
        goal=goal,
        most=5000,
        rng=np.random.default_rng(2),
    )
    assert len(asked) < 5000
    assert np.linalg.norm(asked, axis=1).max() < 8
    assert worst(network, np.concatenate([x, asked])) <= goal


@pytest.mark.parametrize("name", ["gelu", "relu"])
def test_several_outputs(name):
    network, rng = random_network((4, 5, 3), name, 1), np.random.default_rng(0)
    x = 3 * rng.standard_normal((60, 4))
    asked = aimed_points(
        network,
        x,
        lambda count: 3 * rng.standard_normal((count, 4)),
        error=error(network),
        allowed=everywhere,
        goal=0.0,
        most=50,
        rng=rng,
    )
    others = 3 * rng.standard_normal((50, 4))
    assert worst(network, np.concatenate([x, asked])) < worst(network, np.concatenate([x, others]))
