"""Units of a first layer recognised on another circle."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.core.network import Network
from unweave.methods.far_field.reread import turn_inputs


def test_the_top_follows_the_order_and_signs_of_the_other_circle():
    rng = np.random.default_rng(1)
    network = random_network((5, 7, 3, 2), "tanh", 2)
    rows, order, signs = (
        network.weights[0],
        rng.permutation(7),
        np.where(rng.uniform(size=7) > 0.5, 1.0, -1.0),
    )
    others = signs[:, None] * rows[order] * rng.uniform(0.5, 2, (7, 1)) + 1e-3 * rng.standard_normal((7, 5))
    top = Network(network.weights[1:], network.biases[1:], network.activations[1:])
    turned = turn_inputs(top, rows, others)
    assert turned is not None
    h = rng.standard_normal((20, 7))
    np.testing.assert_allclose(turned(signs * h[:, order]), top(h), rtol=1e-12)


def test_another_circle_must_show_every_unit():
    network = random_network((5, 7, 3, 2), "tanh", 2)
    top = Network(network.weights[1:], network.biases[1:], network.activations[1:])
    assert turn_inputs(top, network.weights[0], network.weights[0][:6]) is None
    assert turn_inputs(top, network.weights[0], random_network((5, 7, 2), "tanh", 3).weights[0]) is None
