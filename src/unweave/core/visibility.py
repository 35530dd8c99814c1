"""How much of a relu network another one reproduces: the function, and every unit whose output shows.

What no query shows does not count against it: units that never switch (only sums of them show), entries that are never
active together with their unit. A unit's output on points contains the rest: it is right if it is the same up to a
factor. Where a feature is on, the weights with which several units read it may show in one sum only, because these
units are on together wherever it is: such a unit counts where that feature is off, and the sum in the function.

In a bounded domain some sides do not show either. ``relu(z) = z + relu(-z)``, and z, being linear in the features
below, passes through units that are on in all of the domain. So a unit can be turned round, and the network has the
same widths and gives the same answers there, if its layer has room for that: a unit that is never on, or units that are
always on and already pass on what this needs. Of such a unit the kink counts, which is its output up to what is linear
in the features below: where it bends, and by how much at every place.

A unit that is never on could pass on what is linear further below, so where a layer has one the next counts up to that,
too; and a layer none of whose units ever switch does not show at all.

More than these rules say is shown by example: another network of no greater widths that gives the same answers in the
domain is a network of the same widths, but for units that nothing reads, and layers that only pass on what is below.
Whatever the two differ in shows nowhere. Then what counts is how far its parameters have to be moved until it gives
exactly these answers.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network

SHARE = 1e-3
"""Share of the points below which nothing is visible, and on which a function may differ and be called right."""
RANK = 1e-9
"""What is left over of a column, relative to it, that is a combination of others."""
MOST_POINTS = 6000
"""Points at which parameters are moved until two networks agree."""
MOVED = 1e-10
"""Moves of parameters that change answers by less than this share of what others do change none."""
SHOWN = 1e-12
"""Shares of squares that answers have to show of a combination of weights: rounding leaves 1e-15."""


def spread_points(num: int, d: int, seed: int, spread: float = 1.2) -> np.ndarray:
    """Points at all scales around the origin."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((num, d)) * np.exp(spread * rng.standard_normal((num, 1)))


def wrong_share(reference: Network, other: Network, x: np.ndarray, tolerance: float = 1e-8) -> float:
    """The share of the points at which the outputs differ by more than ``tolerance`` of their typical size."""
    size = 1e-3 + np.linalg.norm(x, axis=1)
    values = reference(x)
    errors = np.max(np.abs(values - other(x)), axis=1) / size
    typical = np.median(np.max(np.abs(values), axis=1) / size)
    return float(np.mean(~(errors <= tolerance * typical)))


def visible_error(reference: Network, other: Network, x: np.ndarray, *, bounded: bool = False) -> float:
    """The largest relative error of the output of a unit that switches, on all but a share of the points.

    Infinite where the networks have different numbers of layers or such a unit is missing. ``bounded``: the points are
    of a domain outside which nothing is asked: of units whose sides do not show there the kinks are compared.
    """
    if bounded and _is_no_wider(other, reference) and wrong_share(reference, other, x) == 0:
        return _way_to(reference, other, x)
    if bounded:
        reference, other = _without_steady_layers(reference, x), _without_steady_layers(other, x)
    if len(reference.hidden) != len(other.hidden):
        return float("inf")
    worst, size, below = 0.0, 1e-3 + np.linalg.norm(x, axis=1, keepdims=True), x
    passed = x  # what is linear below, and what unused units there could pass on besides
    layers = zip(_layers(reference, x), _layers(other, x), reference.weights[1:], strict=True)
    shows = weights_that_show(reference, x)
    for told, ((z, outputs), (_, theirs), above) in zip(shows, layers, strict=True):
        a, b = _unit_columns(outputs / size), _unit_columns(theirs / size)
        match = np.argmax(a.T @ b, axis=1) if b.shape[1] else np.zeros(0, dtype=int)
        on = np.mean(z > 0, axis=0)
        for unit in np.flatnonzero((on > SHARE) & (on < 1 - SHARE)):
            if not b.shape[1]:
                return float("inf")
            miss = _miss(a[:, unit], b[:, match[unit]])
            if miss > RANK and not told[unit].all():
                alone = ~np.any(below[:, ~told[unit]] > 0, axis=1)
                if np.mean(alone & (z[:, unit] > 0)) <= SHARE:
                    continue
                own, others = _unit_columns(a[alone][:, [unit]])[:, 0], _unit_columns(b[alone])
                miss = _miss(own, others[:, int(np.argmax(own @ others))])
            if bounded and miss > RANK and _may_turn(z, above, int(unit)):
                miss = min(miss, _miss_of_kink(passed, outputs[:, unit], theirs))
            worst = max(worst, miss)
        below = outputs
        passed = np.hstack([outputs, passed]) if _unused(z, above).any() else outputs
    return worst


def _is_no_wider(other: Network, reference: Network) -> bool:
    """Whether a network of the widths of ``reference`` can be ``other``.

    It has units left over that nothing reads, and layers left over that pass on the layer below them, or the outputs.
    """
    theirs, widths, k = other.hidden, reference.hidden, reference.output_size
    if not theirs or len(set(reference.hidden_activations) | set(other.hidden_activations)) != 1:
        return False
    for places in combinations(range(len(widths)), len(theirs)):
        below, fits = reference.input_size, True
        for layer, width in enumerate(widths):
            if layer in places:
                below = theirs[places.index(layer)]
            fits = fits and width >= (min(below, k) if layer > places[-1] else below)
        if fits:
            return True
    return False


def _way_to(reference: Network, other: Network, x: np.ndarray) -> float:
    """How far the parameters of ``other``, relative to the row of their unit, have to move to be that function."""
    x = x[:: 1 + len(x) // MOST_POINTS]
    rest = (reference(x) - other(x)).ravel()
    columns = []
    outer = np.broadcast_to(np.eye(other.output_size), (len(x), other.output_size, other.output_size))
    layers = _layers(other, x)
    features = [x, *(h for _, h in layers)]
    for layer in range(len(other.weights) - 1, -1, -1):
        inner = np.hstack([features[layer], np.ones((len(x), 1))])
        row = np.hstack([other.weights[layer], other.biases[layer][:, None]])
        size = np.linalg.norm(row, axis=1)
        part = np.einsum("nku,np->nkup", outer * size, inner)
        columns.append(part.reshape(len(rest), -1))
        if layer:
            leak = act.split_name(other.hidden_activations[layer - 1])[1] or 0.0
            outer = (outer @ other.weights[layer]) * np.where(layers[layer - 1][0] > 0, 1.0, leak)[:, None, :]
    return float(np.max(np.abs(np.linalg.lstsq(np.hstack(columns), rest, rcond=MOVED)[0])))


def weights_that_show(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """For every hidden layer, which weights (units, features) answers at ``x`` tell by themselves.

    Where a feature is on, answers tell ``sum_u D_u w_u``, D_u their derivatives by the arguments of the units u.
    """
    layers, told = _layers(network, x), []
    gates = [z > 0 for z, _ in layers]
    leaks = [act.split_name(name)[1] or 0.0 for name in network.hidden_activations]
    for layer in range(len(layers)):
        shows = np.ones(network.weights[layer].shape, dtype=bool)
        told.append(shows)
        if not layer or leaks[layer - 1]:
            continue
        bits = np.packbits(np.hstack(gates[layer:]), axis=1)
        _, first, number = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        slopes = np.repeat(network.weights[-1][None], len(first), axis=0)
        for upper in range(len(layers) - 1, layer - 1, -1):
            slopes = slopes if upper == len(layers) - 1 else np.matmul(slopes, network.weights[upper + 1])
            slopes = slopes * np.where(gates[upper][first], 1.0, leaks[upper])[:, None, :]
        for feature in range(network.weights[layer].shape[1]):
            patterns = np.unique(number.ravel()[layers[layer - 1][1][:, feature] > 0])
            a = _unit_columns(slopes[patterns].reshape(-1, len(shows)))
            share, space = np.linalg.eigh(a.T @ a)
            shows[:, feature] = np.sum(space[:, share > SHOWN] ** 2, axis=1) > 1 - 1e-6
    return told


def _miss(own: np.ndarray, theirs: np.ndarray) -> float:
    """How far a unit's output is off another, on all but a share of the points."""
    typical = np.median(np.abs(own[own != 0]))
    return float(np.quantile(np.abs(own - theirs), 1 - SHARE) / typical)


def _without_steady_layers(network: Network, x: np.ndarray) -> Network:
    """Without layers of which every unit is on at all points, or off at all: there they are affine and show nowhere."""
    weights, biases = list(network.weights), list(network.biases)
    names = list(network.activations)
    place, h = 0, x
    while place < len(names) - 1:
        z = h @ weights[place].T + biases[place]
        on = np.all(z > 0, axis=0)
        if names[place] == "relu" and np.all(on | np.all(z <= 0, axis=0)):
            above = weights[place + 1] * on
            biases[place + 1] = biases[place + 1] + above @ biases[place]
            weights[place + 1] = above @ weights[place]
            del weights[place], biases[place], names[place]
            continue
        h = act.get(names[place])(z)
        place += 1
    return Network(weights, biases, names) if len(names) > 1 else network


def _unused(z: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Units that are never on, or that nothing reads."""
    return np.all(z <= 0, axis=0) | ~np.any(above != 0, axis=0)


def _may_turn(z: np.ndarray, above: np.ndarray, unit: int) -> bool:
    """Whether a layer with arguments z, read by ``above``, has room for the argument of ``unit`` beside its units."""
    steady = np.flatnonzero(np.all(z > 0, axis=0) & np.any(above != 0, axis=0))
    if _unused(z, above).any():
        return True
    moves = z - np.mean(z, axis=0)
    return _is_sum(moves[:, unit], moves[:, steady]) or _is_sum(above[:, unit], above[:, steady])


def _is_sum(column: np.ndarray, others: np.ndarray) -> bool:
    """Whether a column is a combination of others, to rounding."""
    if not others.shape[1]:
        return False
    return bool(np.linalg.norm(_left_over(column, others)) <= RANK * np.linalg.norm(column))


def _left_over(columns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What is not a combination of the others."""
    u, s, _ = np.linalg.svd(_unit_columns(others), full_matrices=False)
    u = u[:, s > RANK * s[0]]
    for _ in range(2):
        columns = columns - u @ (u.T @ columns)
    return columns


def _miss_of_kink(below: np.ndarray, own: np.ndarray, theirs: np.ndarray) -> float:
    """How far a unit's output is off the nearest of others, up to a factor and what is linear in the features below."""
    linear = np.hstack([below, np.ones((len(below), 1))])
    own, b = _left_over(own, linear), _unit_columns(_left_over(theirs, linear))
    match = b[:, int(np.argmax(np.abs(b.T @ own)))]
    return _miss(own, match * (match @ own))


def _layers(network: Network, x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the units of every layer are applied to, and their outputs."""
    h, out = x, []
    for w, b, name in zip(network.weights, network.biases, network.hidden_activations, strict=False):
        z = h @ w.T + b
        h = act.get(name)(z)
        out.append((z, h))
    return out


def _unit_columns(a: np.ndarray) -> np.ndarray:
    return a / np.maximum(np.linalg.norm(a, axis=0), 1e-300)
