"""A network put together from planes and ridge sums."""

from itertools import pairwise

import numpy as np

from unweave.core.domains import Everywhere
from unweave.core.network import Network
from unweave.methods.relu.lifted.assemble import assemble
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.units import Unit


def test_a_unit_that_was_not_met_is_what_the_others_leave_over():
    """It is on wherever was asked, so that no line meets it: what it adds is linear in the first layer."""
    rng = np.random.default_rng(0)
    sizes = (4, 8, 5, 2)
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairwise(sizes)]
    weights[1][4], biases[1][4] = np.abs(weights[1][4]), 0.5
    network = Network(weights, biases, ["relu", "relu", "identity"])
    lengths = np.linalg.norm(weights[0], axis=1)
    planes = Planes(
        weights[0] / lengths[:, None], biases[0] / lengths, np.zeros((8, 5, 5)), np.ones(8)
    )  # u = length * height, and relu(u) = (u + |u|) / 2
    everything, units = np.ones(8, dtype=bool), []
    for unit in range(4):
        beta = weights[1][unit] * lengths / 2
        gamma = beta @ np.hstack([planes.normals, planes.offsets[:, None]])
        gamma[-1] += biases[1][unit]
        output = weights[2][:, unit]
        size = np.linalg.norm(output)
        units.append(
            Unit(
                beta * size,
                gamma * size,
                everything,
                everything,
                np.ones(8),
                output / size,
                np.zeros(0, dtype=int),
                0.0,
            )
        )
    x = 3 * rng.standard_normal((2000, 4))
    y = network(x)
    found = assemble(planes, units, x, y, np.full(len(x), 1e-9), Everywhere())
    assert found.network.hidden == (8, 5)
    assert found.num_affine == (0, 0)
    assert np.max(np.abs(found.network(x) - y)) < 1e-6 * np.std(y)
