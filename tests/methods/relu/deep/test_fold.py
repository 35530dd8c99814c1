"""A unit that stands in a network twice, always on and turned round, is one unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from methods.relu.deep.test_engine import first_layers, he_network
from unweave.methods.relu.deep.fold import fold_turned
from unweave.methods.relu.deep.known import Known


def doubled(known: Known, layer: int, unit: int, bias: float) -> Known:
    """The same function of the input, with a unit as one that is always on and one that is on where it is off."""
    weights, biases = [w.copy() for w in known.weights], [b.copy() for b in known.biases]
    row, b = weights[layer][unit].copy(), biases[layer][unit]
    column = weights[layer + 1][:, unit].copy()
    weights[layer][unit], biases[layer][unit] = -2 * row, -2 * b
    weights[layer] = np.vstack([weights[layer][:1], 3 * row, weights[layer][1:]])
    biases[layer] = np.insert(biases[layer], 1, 3 * b + bias)
    weights[layer + 1][:, unit] = column / 2
    weights[layer + 1] = np.insert(weights[layer + 1], 1, column / 3, axis=1)
    biases[layer + 1] = biases[layer + 1] - column * bias / 3
    return replace(known, weights=tuple(weights), biases=tuple(biases))


def test_two_halves_are_one_unit_and_what_one_has_not_shown_is_told_by_the_other():
    known = first_layers(he_network((5, 7, 6, 4, 1), 0), 3)
    x = np.random.default_rng(0).standard_normal((300, 5))
    twice = doubled(known, 1, 3, 200.0)
    np.testing.assert_allclose(twice.features(x), known.features(x), atol=1e-10)
    weights = [w.copy() for w in twice.weights]
    weights[2][2, 4] = -9.0
    spoilt = replace(twice, weights=tuple(weights))
    folded, entries = fold_turned(spoilt, ((2, 6, 0), (3, 2, 4), (3, 1, 5)), x)
    assert folded.weights[1].shape == (6, 7)
    assert entries == ((2, 5, 0), (3, 1, 4))
    np.testing.assert_allclose(folded.features(x), known.features(x), atol=1e-10)


def test_a_unit_that_is_always_on_stays_where_the_layer_above_reads_it_otherwise():
    known = first_layers(he_network((5, 7, 6, 4, 1), 0), 3)
    x = np.random.default_rng(0).standard_normal((300, 5))
    twice = doubled(known, 1, 3, 200.0)
    weights = [w.copy() for w in twice.weights]
    weights[2][0, 1] *= 1.01
    other, entries = fold_turned(replace(twice, weights=tuple(weights)), (), x)
    assert other.weights[1].shape == (7, 7)
    assert entries == ()
