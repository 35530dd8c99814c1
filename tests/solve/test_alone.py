"""Points at which one unit is heard alone."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.solve.alone import LEVELS, points_alone
from unweave.solve.propagated import propagated_rounding


def test_all_other_units_are_off_where_the_hyperplanes_allow_it():
    network = random_network((8, 10, 1), "gelu", 5)
    for unit in range(4):
        x = points_alone(network, unit, np.random.default_rng(0))
        z = x @ network.weights[0].T + network.biases[0]
        others = np.delete(z, unit, axis=1)
        quiet = np.all(others < -6, axis=1)
        assert np.sum(quiet) > 50
        assert min(LEVELS) - 1e-6 <= z[:, unit].min() < 0 < z[:, unit].max() <= max(LEVELS) + 1e-6


def test_a_weak_unit_is_heard_better_than_at_random_points_in_its_window():
    network, rng = random_network((8, 10, 1), "gelu", 5), np.random.default_rng(1)
    near = 3 * rng.standard_normal((500, 8))
    among = propagated_rounding(network, near, 2.0**-23)
    x = points_alone(network, 0, rng)
    z = x @ network.weights[0].T + network.biases[0]
    alone = propagated_rounding(network, x[np.abs(z[:, 0]) < 2], 2.0**-23)
    assert alone.min() < 0.5 * among.min()


def test_where_not_all_can_be_off_few_are_on():
    """Opposite rows cannot both be off."""
    network = random_network((3, 6, 1), "gelu", 1)
    weights = [w.copy() for w in network.weights]
    weights[0][1], weights[0][3] = -weights[0][0], -weights[0][2]
    x = points_alone(type(network)(weights, network.biases, network.activations), 4, np.random.default_rng(0))
    z = x @ weights[0].T + network.biases[0]
    assert np.min(np.sum(np.delete(z, 4, axis=1) > 0, axis=1)) <= 3
