"""Which units of a student the others can stand in for."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.core.network import Network
from unweave.solve.layout import Layout
from unweave.students.redundant import plan_cuts, plan_lower_cuts


def widened(network: Network) -> Network:
    """The same function with three units more: a copy that shares an effect, a constant, one that does nothing."""
    rows, outgoing = network.weights[0], network.weights[1]
    surplus = np.vstack([rows[1], 0 * rows[1], rows[2] + rows[3]])
    shares = np.column_stack([0.3 * outgoing[:, 1], outgoing[:, 0], 0 * outgoing[:, 0]])
    kept = outgoing * np.where(np.arange(outgoing.shape[1]) == 1, 0.7, 1.0)
    biases = np.append(network.biases[0], [network.biases[0][1], 0.4, 0.1])
    return Network(
        [np.vstack([rows, surplus]), np.hstack([kept, shares])],
        [biases, network.biases[1] - np.tanh(0.4) * outgoing[:, 0]],
        network.activations,
    )


def test_copies_and_idle_units_go_first_and_cost_nothing():
    network = random_network((6, 5, 2), "tanh", 4)
    x = np.random.default_rng(3).standard_normal((400, 6))
    wide = widened(network)
    cuts = plan_cuts(Layout.of(wide), wide.flat(), x, 0.0)
    assert cuts[2].predicted < 1e-5 < 1e-2 < cuts[3].predicted
    assert cuts[2].kept.sum() == 5
    assert not cuts[2].kept[6:].any()
    narrow = Layout.of(network).network(cuts[2].parameters)
    np.testing.assert_allclose(narrow(x), network(x), atol=1e-5)


def test_the_predicted_residual_is_what_the_outputs_lose():
    network = random_network((6, 5, 2), "tanh", 4)
    x = np.random.default_rng(3).standard_normal((400, 6))
    cut = plan_cuts(Layout.of(network), network.flat(), x, 0.0)[0]
    after = Layout.of(random_network((6, 4, 2), "tanh", 0)).network(cut.parameters)
    lost = np.sqrt(np.mean((after(x) - network(x)) ** 2))
    np.testing.assert_allclose(cut.predicted, lost, rtol=1e-6)


def test_of_the_layer_below_those_go_that_the_others_stand_in_for():
    network = random_network((6, 5, 4, 2), "tanh", 4)
    x = np.random.default_rng(3).standard_normal((400, 6))
    lower = widened(Network(network.weights[:2], network.biases[:2], network.activations[:2]))
    weights, biases = [*lower.weights, network.weights[2]], [*lower.biases, network.biases[2]]
    wide = Network(weights, biases, network.activations)
    cuts = plan_lower_cuts(Layout.of(wide), wide.flat(), x, 0.0)
    assert cuts[2].predicted < 1e-5 < 1e-2 < cuts[3].predicted
    parameters = np.concatenate([cuts[2].parameters, wide.flat()[Layout.of(wide).starts[2] :]])
    np.testing.assert_allclose(Layout.of(network).network(parameters)(x), network(x), atol=1e-5)
