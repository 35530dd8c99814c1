"""Units of the last hidden layer that are always on far out: themselves, and all sides of the layer.

Far out such a unit is a linear function of the outputs h of the layer below, ``c z``, and hides which side the other
units are active on: the skeleton fits with any sides and a linear rest ``R h``. For ``phi(z) = z + phi(-z)`` (gelu,
silu, softplus) the answers then differ from the skeleton's network by ``c phi(-z)`` alone, a unit that is quiet far out
and shows near the origin. With its row known, one choice of sides makes the linear terms cancel.

With several outputs the skeleton's sides leave a rest that is of one unit: its row, but for the length, and its output
weights are read off it, and length and bias follow near the origin.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.skeleton.quiet import add_quiet_units, last_features
from unweave.methods.skeleton.settle import settle, window_points

FAR_ENOUGH = (1e4, 1e6)
"""Radii at which a unit that is always on far out has nothing left to show."""
SLACK = 0.3
"""How far from 1 or -1 the weight of a side may be."""
MOST_QUIET = 2
"""Units that show near the origin alone: the steady one, and one that is never on far out."""
LENGTHS = (1.0, 0.4, 2.5)
"""Lengths of a steady unit's row to begin with, in those of the other rows of its layer."""
NUM_NEAR, NEAR = 60, (0.3, 30.0)
"""Points near the origin, and their distances from it, that show a steady unit's length and bias."""
MANY_STEPS = 40
ACCURACY = 1e-5
"""Relative size of a second steady unit's share from which on there is more than one."""


def split_rest(skeleton: Network, count: int) -> tuple[Network, np.ndarray]:
    """The skeleton without its last ``count`` units, which stand for a linear rest, and that rest (outputs, units)."""
    rows, out = skeleton.weights[-2][-count:], skeleton.weights[-1][:, -count:]
    weights = [*skeleton.weights[:-2], skeleton.weights[-2][:-count], skeleton.weights[-1][:, :-count]]
    biases = [*skeleton.biases[:-2], skeleton.biases[-2][:-count], skeleton.biases[-1]]
    # of a pair of opposite rows each carries its positive part
    carried = np.where(
        np.any(np.all(np.isclose(rows[:, None], -rows[None]), axis=2), axis=1)[:, None], rows.clip(0), rows
    )
    return Network(weights, biases, skeleton.activations), out @ carried


def add_steady(
    meter: Meter, network: Network, rest: np.ndarray, precision: Precision, rng: np.random.Generator
) -> Network | None:
    """The network with the unit that ``rest`` is the far part of; None where it is not one unit's alone."""
    left, sizes, right = np.linalg.svd(rest, full_matrices=False)
    if len(rest) == 1 or np.any(
        sizes[1:] > ACCURACY * sizes[0]
    ):  # of one output any rest looks like one unit's
        return None
    with meter.stage("settle"):
        near = rng.standard_normal((NUM_NEAR, meter.input_size)) / np.sqrt(meter.input_size)
        near *= np.exp(rng.uniform(*np.log(NEAR), size=(NUM_NEAR, 1)))
        x = np.concatenate([window_points(network, 2, FAR_ENOUGH, rng), near])
        y = meter.ask(x)
    # far out the unit is on nearly everywhere
    row = right[0] * np.sign(np.sum(np.sign(last_features(network, x) @ right[0])[:-NUM_NEAR]))
    output = left[:, 0] * sizes[0] * (row @ right[0])
    usual, best = float(np.median(np.linalg.norm(network.weights[-2], axis=1))), None
    for factor in LENGTHS:
        length = factor * usual
        weights = [*network.weights[:-2], np.vstack([network.weights[-2], length * row])]
        weights.append(np.column_stack([network.weights[-1], output / length]))
        biases = [*network.biases[:-2], np.append(network.biases[-2], 0.0), network.biases[-1]]
        whole = Network(weights, biases, network.activations)
        settled = settle(whole, x, y, precision.noise, precision.unit, max_steps=MANY_STEPS)
        best = settled if best is None or settled.level < best.level else best
    assert best is not None
    return best.network


def orient_with_rest(
    meter: Meter, network: Network, rest: np.ndarray, precision: Precision, rng: np.random.Generator
) -> Network | None:
    """The network with the steady unit added and all units on their sides; None where no choice of sides fits."""
    reflection = act.get(network.activations[-2]).reflection
    if reflection is None or reflection.sign < 0 or reflection.linear != -1.0:
        return None
    num_known, num_outputs = network.hidden[-1], network.output_size
    pairs = np.concatenate([np.stack([row, -row]) for row in rest])
    signs = np.repeat(np.eye(num_outputs), 2, axis=1) * np.tile([1.0, -1.0], num_outputs)
    weights = [*network.weights[:-2], np.vstack([network.weights[-2], pairs])]
    weights.append(np.hstack([network.weights[-1], signs]))
    biases = [*network.biases[:-2], np.append(network.biases[-2], np.zeros(len(pairs))), network.biases[-1]]
    with meter.stage("settle"):
        x = window_points(network, 5, FAR_ENOUGH, rng)
        y = meter.ask(x)
    paired = settle(Network(weights, biases, network.activations), x, y, precision.noise, precision.unit)
    grown = add_quiet_units(meter, paired.network, rng, MOST_QUIET)
    if grown is None:
        return None
    num_quiet = grown.hidden[-1] - paired.network.hidden[-1]
    units = np.append(np.arange(num_known), np.arange(grown.hidden[-1] - num_quiet, grown.hidden[-1]))
    rows, offsets, out = grown.weights[-2][units], grown.biases[-2][units], grown.weights[-1][:, units]
    vectors = (out.T[:, :, None] * rows[:, None, :] / 2).reshape(len(units), -1)
    linear = vectors.sum(axis=0) + rest.ravel()
    # quiet units are known roughly; the sides need one digit of them only
    sides = np.linalg.lstsq(vectors.T, linear, rcond=None)[0]
    if np.any(np.abs(np.abs(sides[:num_known]) - 1) > SLACK):
        return None
    sides = np.where(sides < 0, -1.0, 1.0)
    steady = len(units) - 1 if num_quiet == 1 else num_known + int(np.argmin(sides[num_known:]))
    sides[num_known:] = 1.0
    others = np.delete(np.arange(len(units)), steady)
    # with their sides right, what is left of the linear rest is the steady unit's, exactly
    turned = sides[others] < 0
    left = rest + (out[:, others] * turned) @ rows[others]
    u, sizes, vt = np.linalg.svd(left, full_matrices=False)
    if np.any(sizes[1:] > ACCURACY * sizes[0]):
        return None
    length = np.linalg.norm(rows[steady]) * (-1.0 if vt[0] @ rows[steady] > 0 else 1.0)
    weights = [*grown.weights[:-2], np.vstack([sides[others][:, None] * rows[others], length * vt[0]])]
    weights.append(np.column_stack([out[:, others], u[:, 0] * sizes[0] / length]))
    shift = out[:, others] @ np.where(turned, offsets[others], 0.0) + out[:, steady] * offsets[steady]
    own = np.append(sides[others] * offsets[others], -offsets[steady])
    return Network(weights, [*grown.biases[:-2], own, grown.biases[-1] + shift], grown.activations)
