"""Directions of the parameters that answers do not show, where what they show differs by many powers of ten."""

import numpy as np
import scipy.linalg

import unweave
from truth import random_network
from unweave.certificates.sight import Sight, _orthonormal
from unweave.core.network import Network

BOX = unweave.Box(-1.0, 1.0)
NOISE, UNIT = 1e-16, 2.0**-52


def _hardly_on():
    """A network with units that are on at one of the points only, by next to nothing, and the points."""
    network, x = random_network((2, 14, 12, 1), "relu", 3), BOX.sample(6000, 2, np.random.default_rng(4))
    weights, biases = list(network.weights), [b.copy() for b in network.biases]
    for unit, least in enumerate((1e-16, 1e-13, 1e-10, 1e-7)):
        biases[0][unit] = least - np.max(x @ weights[0][unit])
    hidden = np.maximum(x @ weights[0].T + biases[0], 0.0)
    for unit in range(4):
        biases[1][unit] = 1e-12 * 10.0**unit - np.max(hidden @ weights[1][unit])
    return Network(weights, biases, network.activations), x


def test_a_basis_keeps_the_last_digits_of_every_row():
    rng = np.random.default_rng(0)
    matrix, scales = rng.standard_normal((30, 50)), 10.0 ** rng.uniform(0, 19, 50)
    columns = scipy.linalg.null_space(matrix) / scales[:, None]
    basis = _orthonormal(columns)
    np.testing.assert_allclose(basis.T @ basis, np.eye(20), atol=1e-6)
    sizes = np.linalg.norm(scales[:, None] * basis, axis=0)
    assert np.max(np.abs(matrix @ (scales[:, None] * basis)) / sizes) < 1e-12


def test_what_no_answer_shows_moves_none():
    network, x = _hardly_on()
    sight = Sight(network, NOISE, UNIT, alone=False)
    sight.look(x)
    dead = sight.blocks[0].vectors[:, sight.dead] / sight.sizes[sight.dead]
    assert dead.shape[1] > 20
    assert np.max(np.abs(sight._rows(x) @ dead)) < 1e4  # of 1e16 and more that parameters move
