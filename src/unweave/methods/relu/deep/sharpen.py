"""Every weight of a whole network from all answers that it explains already, by Gauss-Newton."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.core.network import Network
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top, fit_top
from unweave.probes.inquiry import Inquiry
from unweave.solve.gauss_newton import polish_weighted

NEAR, NEARLY = 1e-6, 1e-4
"""Miss of an answer, relative to its size, from which Gauss-Newton begins; the largest median miss it is tried at."""
WITHIN, SPREAD = 8.0, 30.0
"""Error bars, and medians of all misses, within which an answer is explained."""

ANSWERS = 4
"""Numbers among the answers, for every weight, that a fit takes."""
FEW = 8
"""Answers that a weight has to show in."""

SHARP = 1e-11
"""Median miss of the answers, relative to them, from which a network needs nothing more."""
MOST_WEIGHTS = 2500
"""Weights up to which layers are made sharp before what they leave over is looked at."""


def sharpen_layers(pool: Pool, known: Known, top: Top) -> tuple[Known, Top]:
    """The layers and the output layer, sharp if they are not: what rounding in them leaves over looks like units."""
    if not SHARP <= top.median_miss < NEARLY or sum(w.size for w in known.weights) > MOST_WEIGHTS:
        return known, top
    network = sharpen(pool.inquiry, join(known, top), max(NEAR, 3 * top.median_miss))
    fine = replace(known, weights=tuple(network.weights[:-1]), biases=tuple(network.biases[:-1]))
    fit = fit_top(pool, fine)
    return (fine, fit) if fit.median_miss < top.median_miss else (known, top)


def join(known: Known, top: Top) -> Network:
    return Network(
        [*known.weights, top.coefficients[:-1].T],
        [*known.biases, top.coefficients[-1]],
        [*name_activations(known), "identity"],
    )


def name_activations(known: Known) -> list[str]:
    return ["relu" if not leak else f"leaky_relu({leak:.12g})" for leak in known.leaks]


def cover_weights(network: Network, x: np.ndarray, limit: int) -> np.ndarray:
    """About ``limit`` of the points, and others for weights that show at few of these: else a fit would move them."""
    some = np.unique(np.linspace(0, len(x) - 1, min(limit, len(x))).astype(int))
    chosen = np.zeros(len(x), dtype=bool)
    chosen[some] = True
    h, below = x, np.ones((len(x), 1), dtype=bool)
    for w, b in zip(network.weights[:-1], network.biases, strict=False):
        h = np.maximum(h @ w.T + b, 0)
        on = h > 0
        every, mine = (on[rows].T.astype(float) @ below[rows].astype(float) for rows in (slice(None), some))
        for unit, feature in np.argwhere((mine < FEW) & (every > mine)):
            chosen[np.flatnonzero(on[:, unit] & below[:, feature])[:FEW]] = True
        below = on
    return np.flatnonzero(chosen)


def sharpen(inquiry: Inquiry, network: Network, begin: float = NEAR, max_rounds: int = 3) -> Network:
    """Gauss-Newton on the answers that the network explains already; a unit that is missing spoils the others.

    ``begin``: the miss, relative to an answer's size, that counts as explained at first.
    """
    x, y = inquiry.meter.transcript()
    bars = inquiry.bars(x, y)
    scale = np.max(np.abs(y), axis=1) + inquiry.slope * np.linalg.norm(x, axis=1)
    miss = np.max(np.abs(network(x) - y), axis=1)
    near = np.flatnonzero(miss <= begin * scale)
    limit = max(ANSWERS * network.num_parameters // y.shape[1], 2000)
    for _ in range(max_rounds):
        if len(near) < network.num_parameters + 10:
            break
        some = near[cover_weights(network, x[near], limit)]
        fit = polish_weighted(network, x[some], y[some], bars[some], max_steps=6)
        left = np.max(np.abs(fit.network(x) - y), axis=1)
        if not np.median(left / bars) < np.median(miss / bars):
            break
        network, miss = fit.network, left
        within = np.flatnonzero(miss <= bars * max(WITHIN, SPREAD * np.median(miss / bars)))
        if len(within) == len(near) and np.median(miss / bars) < WITHIN:
            break
        near = within
    return network
