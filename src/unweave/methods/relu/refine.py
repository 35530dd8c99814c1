"""The last digits of a relu network from questions already asked: no query is spent."""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.solve.gauss_newton import polish_weighted

LARGE = 3000
"""Parameters from which on two answers a parameter must do instead of four: the cost of a step is cubic."""
OUTLIER = 1e3
"""Points that miss by so many times the median say nothing: a unit not known yet, or a window, disturbs them."""


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
