"""The last digits of a network of two hidden layers that is close, without a second-layer unit too many.

A surplus unit shows for sure only once all digits are there: then its removal leaves next to nothing.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.wide import Task
from unweave.solve.descend import End, Minimum
from unweave.solve.fit import spread_of
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.layout import Layout
from unweave.students.redundant import plan_cuts

DETERMINED = 2.0
"""Answers a parameter."""
SURPLUS = 1e-3
"""A unit may be surplus whose removal is predicted to leave less than this, relative to the residual of the best affine
function of the first layer's values."""


def sharpen(
    sight: Sight, network: Network, x: np.ndarray, y: np.ndarray, deadline: float
) -> tuple[Network, float] | None:
    """From close to the last digits, without second-layer units that are then seen to be too many; None where these
    digits are not reached.
    """
    network, rms = _polish(sight, network, x, y, deadline)
    if rms > sight.accept:
        return None
    features, above = _split(network, x)
    task = Task(features, y, sight.noise if sight.coarse else 0.0, deadline)
    above = task.standard.apply(above)
    start = Minimum(above.flat(), rms, 0, End.TARGET)
    cheapest = plan_cuts(Layout.of(above), start.parameters, task.u, rms)[0]
    if cheapest.predicted > SURPLUS * task.bend:
        return network, rms
    layout, fit = task.minimise(Layout.of(above), start, max(sight.accept, rms))
    if layout.hidden == above.hidden:
        return network, rms
    network = _joined(network, task.standard.undo(layout.network(fit.parameters)))
    network, rms = _polish(sight, network, x, y, deadline)
    return None if rms > sight.accept else (network, rms)


def _polish(
    sight: Sight, network: Network, x: np.ndarray, y: np.ndarray, deadline: float
) -> tuple[Network, float]:
    """The last digits and the residual relative to the spread; exact answers give them from some of the points."""
    noise = sight.noise if sight.coarse else 0.0
    sigma = max(sight.accept / 3, noise / spread_of(y)) * spread_of(y)
    few = len(x) if noise else min(int(np.ceil(DETERMINED * network.num_parameters / y.shape[1])), len(x))
    found = polish_weighted(
        network,
        x[:few],
        y[:few],
        sigma,
        max_steps=25,
        damping=1e-9,
        patience=5,
        geodesic=True,
        deadline=deadline,
    )
    return found.network, float(np.sqrt(np.mean((found.network(x) - y) ** 2)) / spread_of(y))


def _joined(network: Network, top: Network) -> Network:
    """The first layer of ``network`` with another one above it."""
    return Network(
        [network.weights[0], *top.weights],
        [network.biases[0], *top.biases],
        [network.activations[0], *top.activations],
    )


def _split(network: Network, x: np.ndarray) -> tuple[np.ndarray, Network]:
    """The first layer's values at the points, and the network above it."""
    first = Network(network.weights[:1], network.biases[:1], network.activations[:1])
    return first(x), Network(network.weights[1:], network.biases[1:], network.activations[1:])
