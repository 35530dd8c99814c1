"""Rows and biases of the first layer to rounding, once the network on top is known.

Every answer around a crossing is turned into the argument of its unit (``arguments``), which gives the row; one
antipodal query a unit, where the large part of ``a . x`` cancels, gives its bias. Units whose reading was not clean
are read again at other places of their hyperplanes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.methods.far_field.arguments import (
    Row,
    read_row,
    solve_arguments,
    solve_near,
    steepest_argument,
)
from unweave.methods.far_field.first_layer import FirstLayer
from unweave.methods.far_field.sight import Sight
from unweave.solve.weighted import time_allows, weighted_system

MISMATCH, COARSE_MISMATCH = 1e-3, 0.1
"""Relative difference of the slopes along the circle from which on a unit is read beside its crossing."""
TRUSTED, LIKELY = 0.995, 3.0
"""Cosine between two readings of a row of coarse answers, and ratio of their lengths, within which they agree."""
EXACT = 3e-10
"""Relative standard error above which a unit is read again."""
OFFSETS = np.array([-4.0, -2.0, 0.0, 2.0, 4.0])
"""Where coarse answers are asked around an antipode, in units of the argument."""


def read_through(sight: Sight, layer: FirstLayer, top: Network) -> tuple[Network, float] | None:
    """The whole network, and how far the profiles of its units are from straight; None if a row cannot be read."""
    patterns, tangents = layer.patterns, layer.tangents
    bases = np.array([r.base for r in layer.readings])
    limit = COARSE_MISMATCH if sight.coarse else MISMATCH
    rows: list[Row] = []
    for i, reading in enumerate(layer.readings):
        row = read_row(reading, patterns[i], i, top, sight.activation, layer.basis, tangents[i])
        if row.mismatch > limit:
            row, bases[i] = _read_beside(sight, reading, row, patterns[i], i, top, layer.basis, tangents[i])
        rows.append(row)
    if sight.coarse:
        rows = [_trust(row, seen, t) for row, seen, t in zip(rows, layer.rows, tangents, strict=True)]
    weights, bends = np.array([row.weights for row in rows]), np.array([row.bend for row in rows])
    if not np.all(np.isfinite(weights)) or not np.all(np.any(weights, axis=1)):
        return None
    arguments, signs = np.array([row.argument for row in rows]), patterns
    with sight.meter.stage("biases"):
        if sight.coarse:
            slopes = np.array([row.slope for row in rows])
            biases = _antipodal_profiles(sight, top, bases, tangents, slopes, arguments, signs)
        else:
            biases = arguments - np.sum(weights * bases, axis=1)
            biases = _antipodes(sight, top, weights, biases, bases, arguments, signs)
    if not sight.coarse:
        doubtful = _doubtful(sight, layer, weights, biases, bends)
        weights, biases = _read_again(sight, np.flatnonzero(doubtful), top, weights, biases, layer.basis)
    names = [sight.activation.name] * top.num_layers + ["identity"]
    return Network([weights, *top.weights], [biases, *top.biases], names), float(np.median(bends))


def look_closer(sight: Sight, network: Network, basis: np.ndarray) -> Network:
    """Read again the units that all answers so far leave uncertain, where the answers would allow better."""
    x, y = sight.meter.transcript()
    system = weighted_system(network, x, y, sight.noise) if time_allows(network, y) else None
    if system is None:
        return network
    errors = system.unit_errors(network)[: network.hidden[0]]
    uncertain = errors > max(EXACT, 1e4 * sight.precision.relative)
    if uncertain.mean() > 0.5:
        # rough estimates: only with more units than inputs, read from far out, they tell
        crowded = len(errors) > network.input_size
        uncertain = errors >= np.quantile(errors, 0.8) if crowded else np.zeros(len(errors), dtype=bool)
    top = Network(network.weights[1:], network.biases[1:], network.activations[1:])
    weights, biases = _read_again(
        sight, np.flatnonzero(uncertain), top, network.weights[0], network.biases[0], basis
    )
    return Network([weights, *top.weights], [biases, *top.biases], network.activations)


def _read_beside(sight, reading, row, pattern, unit, top, basis, tangent) -> tuple[Row, np.ndarray]:
    """The row from a base a little further along the circle, where the answers tell the arguments apart."""
    wanted = steepest_argument(pattern, unit, top, sight.activation, row.argument)
    base = reading.base + (wanted - row.argument) / row.slope * tangent
    points = np.concatenate([base[None], base + reading.step * basis.T])
    with sight.meter.stage("second look"):
        answers = sight.meter.ask(points)
    arguments = solve_arguments(answers, pattern, unit, top, sight.activation, np.full(len(points), wanted))
    weights = basis @ (arguments[1:] - arguments[0]) / reading.step
    return replace(row, weights=weights, argument=float(arguments[0])), base


def _trust(row: Row, seen: np.ndarray, tangent: np.ndarray) -> Row:
    """A row of coarse answers, unless it differs from what was ``seen`` before the top was known: then that one, in
    the length that the slope along the circle tells, if this is likely.
    """
    along = float(seen @ tangent)
    factor = row.slope / along if along and np.isfinite(row.slope) else 1.0
    factor = factor if 1 / LIKELY < factor < LIKELY else 1.0
    size = np.linalg.norm(row.weights) * np.linalg.norm(seen)
    if np.isfinite(size) and row.weights @ seen > TRUSTED * size and row.mismatch < COARSE_MISMATCH:
        return row
    return replace(row, weights=factor * seen, slope=factor * along)


def _antipodes(sight, top, weights, biases, bases, arguments, signs, units=None) -> np.ndarray:
    """theta = (u(x) + u(x') - a.(x + x'))/2 with x' next to -x: the large part of a.x cancels."""
    squared = np.sum(weights**2, axis=1)
    mirrored = -bases - (2 * biases / squared)[:, None] * weights
    answers = sight.meter.ask(mirrored)
    units = np.arange(len(weights)) if units is None else units
    found = solve_arguments(answers, -signs, units, top, sight.activation, -arguments)
    return (arguments + found - np.sum(weights * (bases + mirrored), axis=1)) / 2


def _antipodal_profiles(sight, top, bases, tangents, slopes, arguments, signs) -> np.ndarray:
    """The same without the rows, which coarse answers leave too inexact for ``a . x``: at -x + s t the argument is
    ``2 theta - u(x) + s (a . t)``, and a few answers along the tangent t show where it passes.
    """
    shifts = sight.activation.scale * OFFSETS / np.where(slopes == 0, 1.0, slopes)[:, None]
    points = -bases[:, None] + shifts[:, :, None] * tangents[:, None]
    answers = sight.meter.ask(points.reshape(-1, bases.shape[1])).reshape(len(bases), len(OFFSETS), -1)
    moves = shifts * slopes[:, None]
    found = [solve_near(answers[i], -signs[i], i, top, sight.activation, moves[i]) for i in range(len(bases))]
    return (arguments + np.array(found)) / 2


def _doubtful(sight, layer, weights, biases, bends) -> np.ndarray:
    """Units whose reading was not clean: another unit not saturated, a very large radius, tiny steps."""
    bases = np.array([r.base for r in layer.readings])
    others = np.abs(bases @ weights.T + biases)
    np.fill_diagonal(others, np.inf)
    unsaturated = np.min(others, axis=1) < 0.97 * act.saturation_point(sight.activation)
    distant = np.linalg.norm(bases, axis=1) * np.linalg.norm(weights, axis=1) > 2e5
    steps = np.array([r.step for r in layer.readings]) * np.linalg.norm(weights, axis=1)
    short = steps / np.sqrt(weights.shape[1]) < 0.01 * sight.activation.scale
    return unsaturated | distant | short | (bends > 1e-3)


def _read_again(sight, units, top, weights, biases, basis) -> tuple[np.ndarray, np.ndarray]:
    """New base points inside each unit's hyperplane, as close to the origin as saturation allows."""
    weights, biases = weights.copy(), biases.copy()
    size = weights.shape[1]
    for i in units:
        base, signs = _saturated_base(sight, i, weights, biases)
        if base is None:
            continue
        step = 0.25 * sight.activation.scale * np.sqrt(size) / np.linalg.norm(weights[i])
        points = np.concatenate([base[None], base + step * basis.T])
        guesses = points @ weights[i] + biases[i]
        with sight.meter.stage("second look"):
            answers = sight.meter.ask(points)
        found = solve_arguments(answers, signs, i, top, sight.activation, np.clip(guesses, -2, 2))
        row = basis @ (found[1:] - found[0]) / step
        if np.linalg.norm(row - weights[i]) > 0.1 * np.linalg.norm(weights[i]):
            continue
        weights[i], biases[i] = row, found[0] - row @ base
        with sight.meter.stage("second look"):
            biases[i : i + 1] = _antipodes(
                sight, top, weights[i : i + 1], biases[i : i + 1], base[None], found[:1], signs[None], i
            )
    return weights, biases


def _saturated_base(sight, unit, weights, biases) -> tuple[np.ndarray | None, np.ndarray]:
    row, squared = weights[unit], weights[unit] @ weights[unit]
    directions = sight.rng.standard_normal((400, len(row)))
    directions -= np.outer(directions @ row, row) / squared
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    shift = -biases[unit] * row / squared
    others = np.arange(len(weights)) != unit
    slopes = directions @ weights[others].T
    offsets = weights[others] @ shift + biases[others]
    needed = 1.15 * act.saturation_point(sight.activation) + np.abs(offsets)
    radii = np.max(needed / np.maximum(np.abs(slopes), 1e-300), axis=1, initial=1.0)
    best = int(np.argmin(radii))
    if radii[best] > 0.5 * sight.radius:
        return None, np.zeros(len(weights))
    base = radii[best] * directions[best] + shift
    return base, np.where(weights @ base + biases > 0, 1.0, -1.0)
