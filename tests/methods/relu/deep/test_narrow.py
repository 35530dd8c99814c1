"""Networks written anew with fewer units that are the same function in a box."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.methods.relu.deep.kinks import read_kinks
from unweave.methods.relu.deep.narrow import unite_parts, write_narrow

BOX = Box(-1.0, 1.0)


def _draw(sizes: tuple[int, ...], seed: int, name: str = "relu") -> Network:
    rng = np.random.default_rng([seed, *sizes])
    weights = [rng.standard_normal((n, m)) * np.sqrt(2 / m) for m, n in pairwise(sizes)]
    biases = [0.2 * rng.standard_normal(n) for n in sizes[1:]]
    return Network(weights, biases, [name] * (len(sizes) - 2) + ["identity"])


def _turn_round(network: Network, layer: int, units: list[int], x: np.ndarray) -> Network:
    """The same in the box with these units on their other side and a unit for each that passes on what that takes."""
    w, b = [m.copy() for m in network.weights], [v.copy() for v in network.biases]
    h = x
    for i in range(layer):
        h = np.maximum(h @ w[i].T + b[i], 0.0)
    high = 1.0 + np.max(np.abs(h @ w[layer][units].T + b[layer][units]), axis=0)
    above = w[layer + 1][:, units]
    w[layer] = np.vstack([w[layer], w[layer][units]])
    b[layer] = np.append(b[layer], b[layer][units] + high)
    w[layer][units] *= -1
    b[layer][units] *= -1
    w[layer + 1] = np.hstack([w[layer + 1], above])
    b[layer + 1] = b[layer + 1] - above @ high
    return Network(w, b, network.activations)


def _narrowed(network: Network, seed: int = 0) -> Network | None:
    rng = np.random.default_rng(seed)
    found = write_narrow(network, BOX, BOX.sample(500, network.input_size, rng), rng, np.inf)
    return None if found is None else found.network


@pytest.mark.parametrize("layer", [0, 1])
def test_units_that_absorb_sides_are_done_without(layer):
    network = _draw((2, 6, 5, 1), 3)
    x = BOX.sample(4000, 2, np.random.default_rng(1))
    wide = _turn_round(network, layer, [0, 2, 3], x)
    assert np.max(np.abs(wide(x) - network(x))) < 1e-12
    found = _narrowed(wide)
    assert found is not None
    assert all(a <= b for a, b in zip(found.hidden, network.hidden, strict=True))
    assert np.max(np.abs(found(x) - network(x))) < 1e-10


def test_a_kink_in_a_lower_layer_than_it_has_to_be_moves_up_where_that_is_narrower():
    """Nine planes, three of them in corners, where nothing bends at them: four layers of widths 9 become narrower."""
    rng = np.random.default_rng(2)
    corners = np.array([[-1.0, -1.2], [1.1, -1.0], [-1.0, 1.3]])
    w1 = np.vstack([rng.standard_normal((6, 2)), corners])
    b1 = np.append(0.2 * rng.standard_normal(6), [-1.9, -1.8, -2.0])
    w2 = np.hstack([rng.standard_normal((4, 6)), np.zeros((4, 3))])
    passed = np.zeros((1, 9))
    passed[0, 6:] = [1.0, -2.0, 0.5]
    network = Network(
        [w1, np.vstack([w2, passed + 0.1 * rng.standard_normal((1, 9))]), rng.standard_normal((1, 5))],
        [b1, np.append(0.2 * rng.standard_normal(4), 5.0), np.zeros(1)],
        ["relu", "relu", "identity"],
    )
    found = _narrowed(network)
    assert found is not None
    assert max(found.hidden) <= 8
    x = BOX.sample(20000, 2, np.random.default_rng(5))
    assert np.max(np.abs(found(x) - network(x))) < 1e-10


def test_leaky_units_are_turned_round_too():
    network = _draw((3, 4, 3, 2), 1, "leaky_relu(0.1)")
    x = BOX.sample(4000, 3, np.random.default_rng(1))
    w, b = network.weights, network.biases
    # phi(-z) = 0.1 z - ..., passed on by one more unit that is always on
    z = x @ w[0][0] + b[0][0]
    high = 1.0 + np.max(np.abs(z))
    # phi(z) = (1 + a) / 2 z + (1 - a) / 2 |z| and phi(-z) = -(1 + a) / 2 z + (1 - a) / 2 |z|
    w1, b1 = np.vstack([w[0], w[0][0]]), np.append(b[0], b[0][0] + high)
    w1[0], b1[0] = -w1[0], -b1[0]
    w2 = np.hstack([w[1], 1.1 * w[1][:, :1]])
    b2 = b[1] - 1.1 * w[1][:, 0] * high
    wide = Network([w1, w2, w[2]], [b1, b2, b[2]], network.activations)
    assert np.max(np.abs(wide(x) - network(x))) < 1e-12
    found = _narrowed(wide)
    assert found is not None
    assert found.hidden == (4, 3)
    assert np.max(np.abs(found(x) - network(x))) < 1e-10


def test_a_network_as_narrow_as_can_be_stays_as_it_is():
    assert _narrowed(_draw((2, 6, 5, 1), 4)) is None


def test_kinks_are_the_function():
    network = _draw((2, 5, 4, 3, 2), 0)
    x = BOX.sample(2000, 2, np.random.default_rng(3))
    kinks = read_kinks(network, x)
    assert kinks is not None
    np.testing.assert_allclose(kinks.features @ kinks.outputs.T, network(x), atol=1e-12)
    np.testing.assert_allclose(kinks.features @ kinks.forms.T, kinks.z, atol=1e-12)


def test_two_corners_that_one_unit_cuts_off_are_one_kink():
    """relu(|x| + 0.3 y - 0.9), written as a plane for each of its two parts; a unit above bends at x = 0."""
    w1 = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.3], [-1.0, 0.3], [0.0, 1.0]])
    b1 = np.array([0.0, 0.0, -0.9, -0.9, 2.0])
    w2 = np.array([[1.0, -0.5, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 1.0]])
    network = Network([w1, w2, np.array([[1.0, 2.0]])], [b1, np.array([-2.1, 0.5]), np.zeros(1)],
                      ["relu", "relu", "identity"])  # fmt: skip
    x = BOX.sample(4000, 2, np.random.default_rng(3))
    kinks = read_kinks(network, x)
    assert kinks is not None
    united = [one for one in unite_parts(kinks, 2) if len(one) < len(kinks)]
    corner = np.maximum(np.abs(x[:, 0]) + 0.3 * x[:, 1] - 0.9, 0.0)
    assert any(
        np.min(
            np.linalg.norm(
                np.maximum(one.z, 0) / np.max(one.z, axis=0) - corner[:, None] / corner.max(), axis=0
            )
        )
        < 1e-9
        for one in united
    )
    for one in united:
        np.testing.assert_allclose(one.features @ one.outputs.T, network(x), atol=1e-11)
