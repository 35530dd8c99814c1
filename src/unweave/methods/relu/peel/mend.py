"""A composed network on every answer: those that hardly any weight shows in count like all others.

Least squares for the last layer leave weights that show in a corner only to a few digits, and the usual sample of the
answers does not meet the corner. So answers beyond their error bars are taken into Gauss-Newton until none is.
"""

from __future__ import annotations

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.relu.deep.sharpen import ANSWERS, cover_weights, sharpen
from unweave.probes.inquiry import Inquiry
from unweave.solve.gauss_newton import polish_weighted

TURNS = 6
CLOSE, FAR = 4.0, 8.0
"""Error bars beyond which an answer is taken in, and within which all have to be; ..."""
FINE = 1e-11
"""... these bars are no less than this, relative to the spread of the answers."""
MOST_TOLD = 500
"""Answers that are taken in at a time, the worst first."""


def fit_every(inquiry: Inquiry, network: Network, deadline: float) -> Network:
    """The network that leaves fewest answers beyond their error bars."""
    network = sharpen(inquiry, network)
    x, y = inquiry.meter.transcript()
    bars = inquiry.bars(x, y)
    miss = _misses(inquiry, network, x, y)
    best, told = (int(np.sum(miss > FAR)), float(miss.max()), network), np.zeros(0, dtype=int)
    for _ in range(TURNS):
        if not best[0] or clock.now() > deadline:
            break
        far = np.flatnonzero(miss > CLOSE)
        told = np.union1d(told, far[np.argsort(-miss[far])][:MOST_TOLD])
        near = np.flatnonzero(miss <= CLOSE)
        some = near[cover_weights(network, x[near], max(ANSWERS * network.num_parameters, 2000))]
        some = np.union1d(some, told)
        network = polish_weighted(network, x[some], y[some], bars[some], max_steps=10).network
        miss = _misses(inquiry, network, x, y)
        best = min(best, (int(np.sum(miss > FAR)), float(miss.max()), network), key=lambda one: one[:2])
    return best[2]


def num_beyond(inquiry: Inquiry, network: Network, x: np.ndarray) -> int:
    """How many answers, asked at ``x``, lie beyond their error bars."""
    return int(np.sum(_misses(inquiry, network, x, inquiry.meter.ask(x)) > FAR))


def _misses(inquiry: Inquiry, network: Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """In error bars."""
    bars = np.maximum(inquiry.bars(x, y), FINE * float(np.std(inquiry.meter.transcript()[1])))
    return np.max(np.abs(network(x) - y), axis=1) / bars
