"""The last digits of a relu network: from questions already asked, or, of a large one, from points all over.

Questions along lines and around kinks determine a small network well enough for a factor of all its parameters. Beyond
that size steps are conjugate gradients, which need points that show every parameter alike; with several outputs these
are few beside what the network has cost.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.two_layers.spread import spread_points
from unweave.probes.inquiry import Inquiry
from unweave.solve.gauss_newton import MOST_COUPLED, polish_weighted

LARGE = 3000
"""Parameters from which on two answers a parameter must do instead of four: the cost of a step is cubic."""
OUTLIER = 1e3
"""Points that miss by so many times the median say nothing: a unit not known yet, or a window, disturbs them."""
FAR_OFF = 1e5
"""The same where all units are known; some may have rows with fewer digits."""


EACH = 2.0
"""Answers a parameter, from all over the domain, for a large network."""
MANY_OUTPUTS = 4
"""Outputs from which on these are half a question a parameter or less."""


def is_large(network: Network) -> bool:
    """Whether no factor of all parameters is to be had."""
    return network.num_parameters > MOST_COUPLED


def wants_spread(network: Network) -> bool:
    """Whether points all over are needed, or few beside what the network has cost."""
    return is_large(network) or network.output_size >= MANY_OUTPUTS


def refine_spread(network: Network, inquiry: Inquiry, rng: np.random.Generator) -> Network:
    """The network after Gauss-Newton steps on fresh answers that show every parameter."""
    num_points = int(EACH * network.num_parameters / network.output_size)
    with inquiry.meter.stage("polish"):
        x = spread_points(network, inquiry, num_points, rng)
        answers = inquiry.meter.ask(x)
    bars = inquiry.bars(x, answers)
    misses = np.max(np.abs(network(x) - answers), axis=1) / bars
    sound = misses <= FAR_OFF * max(float(np.median(misses)), 1.0)
    return polish_weighted(network, x[sound], answers[sound], bars[sound], max_steps=3, patience=1).network


def refine_network(
    network: Network, x: np.ndarray, answers: np.ndarray, bars: np.ndarray, *, num_steps: int = 4
) -> Network:
    """The network after Gauss-Newton steps on the points it already explains roughly."""
    scale = np.median(np.abs(answers)) + 1e-300
    misses = np.max(np.abs(network(x) - answers), axis=1)
    near = np.flatnonzero(misses <= 1e-5 * (scale + np.max(np.abs(answers), axis=1)))
    num_unknowns = network.num_parameters
    each = 4 if num_unknowns <= LARGE else 2
    limit = max(each * num_unknowns // network.output_size, 4000 * each // 4)
    if len(near) < num_unknowns + 10:
        return network
    if len(near) > limit:
        near = near[np.linspace(0, len(near) - 1, limit).astype(int)]
    x, answers, bars = x[near], answers[near], bars[near]
    for _ in range(2):
        sizes = np.max(np.abs(network(x) - answers), axis=1) / bars
        sound = sizes <= OUTLIER * max(float(np.median(sizes)), 1.0)
        network = polish_weighted(
            network, x[sound], answers[sound], bars[sound], max_steps=num_steps, patience=2
        ).network
        if sound.all():
            break
    return network
