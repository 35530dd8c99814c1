"""How far a category shifts the first layer: the biases of one combination, everything else known.

A category reaches a network as inputs that are 0 or 1, so another combination of categories adds a constant to each
first-layer unit and changes nothing else. With the network of one combination in hand, that constant is a small
least-squares problem: as many unknowns as units, from a few answers each.

It is not convex in the constants. Below a linear output it is convex in *how much of a unit stands at each constant of
a grid*, shares that are not negative and sum to one; the mean of the shares is where descent starts, after the grid was
narrowed around it. Under further layers the best constant of one unit after the other is looked for instead.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from unweave.core.network import Network
from unweave.solve.descend import Settings, minimise
from unweave.solve.fit import spread_of
from unweave.solve.layout import Layout

NUM_STARTS = 8
GRID = np.linspace(-5.0, 5.0, 31)
"""Shifts tried for a unit, in standard deviations of its argument."""
NARROW = np.linspace(-1.5, 1.5, 7)
"""The grid around a shift, in steps of the one before, ..."""
NUM_ROUNDS = 3
"""... so many times, each with steps of half the size."""
NUM_SWEEPS = 3
FEW = 200
"""Answers the search unit by unit looks at."""


def fit_shift(
    network: Network, x: np.ndarray, y: np.ndarray, rng: np.random.Generator, *, target: float
) -> tuple[np.ndarray, float]:
    """The shift (units,) of the first layer that explains ``y`` (n, outputs) at ``x``, and its relative residual."""
    layout = Layout.of(network)
    whole = network.flat()
    first = layout.starts[0] + np.arange(layout.sizes[1]) * (layout.sizes[0] + 1) + layout.sizes[0]
    scale = spread_of(y)

    def moved(shift: np.ndarray) -> np.ndarray:
        theta = whole.copy()
        theta[first] += shift
        return theta

    def residual(shift: np.ndarray) -> np.ndarray:
        return (layout.forward(moved(shift), x) - y).ravel()

    def linearise(shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outputs, jacobian = layout.linearise(moved(shift), x)
        return (outputs - y).ravel(), jacobian[:, first]

    spread = np.std(x @ network.weights[0].T, axis=0)
    shallow = network.num_layers == 2 and network.activations[1] == "identity"
    best, least = np.zeros(len(first)), np.inf
    for number in range(NUM_STARTS):
        start = 2.0 * number / NUM_STARTS * spread * rng.standard_normal(len(first))
        if number < NUM_STARTS // 2 and shallow:
            start = _by_shares(network, x, y, spread * (1 + 0.2 * number))
        elif number < NUM_STARTS // 2:
            start = _unit_by_unit(network, x[:FEW], y[:FEW], start, spread, rng)
        found = minimise(
            residual, linearise, start, scale=scale, settings=Settings(target=target, max_steps=100)
        )
        if found.rms < least:
            best, least = found.parameters, found.rms
        if found.converged:
            break
    return best, least


def _by_shares(network: Network, x: np.ndarray, y: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Where each unit stands on average, from shares on a grid, in units of ``spread``, that is narrowed around it."""
    below = x @ network.weights[0].T + network.biases[0]
    units = Network([np.eye(len(spread))], [None], [network.activations[0]])
    target = (y - network.biases[1]).ravel()
    places = GRID * spread[:, None]
    step = (GRID[1] - GRID[0]) * spread
    shift = np.zeros(len(spread))
    for _ in range(NUM_ROUNDS):
        values = np.stack([units(below + at) for at in places.T])  # (places, n, units)
        columns = np.einsum("knu,ou->nouk", values, network.weights[1]).reshape(len(target), -1)
        owners = np.repeat(np.arange(len(spread)), places.shape[1])
        weight = 10 * float(np.max(np.abs(columns)))
        whole = weight * (owners[None] == np.arange(len(spread))[:, None])
        goal = np.concatenate([target, np.full(len(spread), weight)])
        try:
            shares, _ = nnls(np.concatenate([columns, whole]), goal, maxiter=30 * columns.shape[1])
        except RuntimeError:  # too many exchanges: what is known so far has to do
            break
        shares = shares.reshape(places.shape)
        shift = np.sum(shares * places, axis=1) / np.maximum(shares.sum(axis=1), 1e-300)
        places = shift[:, None] + NARROW * step[:, None]
        step = step / 2
    return shift


def _unit_by_unit(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    shift: np.ndarray,
    spread: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """The best shift of one unit after the other, all others held, a few times over."""
    upper = Network(
        [np.eye(len(shift)), *network.weights[1:]], [None, *network.biases[1:]], network.activations
    )
    below = x @ network.weights[0].T + network.biases[0]
    shift = shift.copy()
    for _ in range(NUM_SWEEPS):
        before = shift.copy()
        for unit in rng.permutation(len(shift)):
            tried = np.append(GRID * spread[unit], shift[unit])
            z = np.repeat((below + shift)[None], len(tried), axis=0)
            z[:, :, unit] = below[:, unit] + tried[:, None]
            outputs = upper(z.reshape(-1, len(shift))).reshape(len(tried), len(x), -1)
            shift[unit] = tried[np.argmin(np.sum((outputs - y) ** 2, axis=(1, 2)))]
        if np.array_equal(before, shift):
            break
    return shift
