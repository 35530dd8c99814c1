"""Students whose first layer begins on known planes find lengths, sides and what stands above."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.comparison import compare
from unweave.students.from_rows import Planes, search_from_rows, standard_rows
from unweave.students.standard import Standard


def test_a_network_of_two_layers_comes_back_from_the_planes_of_its_first():
    truth = random_network((4, 6, 5, 2), "elu", 5)
    rng = np.random.default_rng(0)

    def buy(scale: float, num_points: int) -> tuple[np.ndarray, np.ndarray]:
        x = scale * rng.uniform(-2, 2, (num_points, 4))
        return x, truth(x)

    lengths = np.linalg.norm(truth.weights[0], axis=1)
    sides = np.array([1, -1, 1, -1, 1, -1])  # of which only the lengths' signs tell
    planes = Planes(
        sides[:, None] * truth.weights[0] / lengths[:, None],
        sides * truth.biases[0] / lengths,
        1.2 * sides * lengths,
        np.where(np.arange(6) < 5, 0.01, np.inf),
    )
    found = search_from_rows(buy, ["elu"], planes, rng=np.random.default_rng(1), time_limit=30)
    assert found.minimal
    assert found.network is not None
    assert compare(truth, found.network).max_relative_error < 1e-9


def test_units_whose_side_is_open_are_given_both():
    x = np.random.default_rng(0).standard_normal((100, 2))
    planes = Planes(np.eye(2), np.zeros(2), np.array([-2.0, 0.5]), np.array([0.1, 1.0]))
    rows = standard_rows(Standard.of(x, x), planes, oriented=True)
    assert len(rows) == 3
    assert rows[0, 0] < 0
    assert np.allclose(rows[1], -rows[2])
