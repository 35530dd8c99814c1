"""The surgeon's inverse: its costs are those of least squares, and host and accelerator agree."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.network import Network
from unweave.solve.layout import Layout
from unweave.students.surgeon import AcceleratedSurgeon, HostSurgeon


def _problem(sizes: tuple[int, ...], seed: int):
    network = random_network(sizes, "tanh", seed)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6 * network.num_parameters, sizes[0]))
    return Layout.of(network), network.flat(), x, network(x)


@pytest.mark.parametrize("sizes", [(4, 7, 1), (4, 6, 5, 2)])
def test_host_and_accelerator_remove_the_same_units_at_the_same_cost(sizes):
    layout, theta, x, y = _problem(sizes, 61)
    host, device = HostSurgeon(layout, theta, x, y), AcceleratedSurgeon(layout, theta, x, y)
    layer = len(layout.hidden) - 1
    for unit, where in ((2, 0), (0, layer), (4, 0)):
        for ours, theirs in zip(host.costs(), device.costs(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(host.remove(where, unit), device.remove(where, unit), rtol=1e-6, atol=1e-8)


def test_the_cost_is_that_of_the_best_compensation_in_the_linear_model():
    layout, theta, x, y = _problem((4, 5, 1), 62)
    surgeon = HostSurgeon(layout, theta, x, y)
    jacobian = layout.linearise(theta, x)[1]
    for unit in (3, 1):
        out = layout.outgoing(0, unit)
        others = np.setdiff1d(np.arange(layout.num_parameters), out)
        shift = -jacobian[:, out] @ theta[out]
        best = np.linalg.lstsq(jacobian[:, others], -shift, rcond=None)[0]
        left = shift + jacobian[:, others] @ best
        assert surgeon.costs()[0][unit] == pytest.approx(left @ left, rel=1e-4)


def test_a_unit_that_does_nothing_costs_less_than_one_that_does_little():
    network = random_network((4, 7, 1), "tanh", 63)
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    weights[0][5] = 0.0  # constant: the bias of the next layer stands in for it
    biases[0][5] = 1.0
    weights[1][0, 2] = 1e-5
    layout, theta = Layout.of(network), Network(weights, biases, network.activations).flat()
    x = np.random.default_rng(63).standard_normal((400, 4))
    y = layout.forward(theta, x)
    for surgeon in (HostSurgeon(layout, theta, x, y), AcceleratedSurgeon(layout, theta, x, y)):
        costs = surgeon.costs()[0]
        assert int(np.argmin(costs)) == 5
        assert costs[5] < 0.01 * costs[2]
