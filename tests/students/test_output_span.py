"""Many outputs in the span of the few that move, and back without loss."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.students.output_span import OutputSpan


def test_a_network_has_as_many_directions_as_its_last_layer_has_units():
    truth = random_network((4, 6, 300), "tanh", 1)
    x = np.random.default_rng(0).standard_normal((20, 4))
    span = OutputSpan.of(truth(x))
    assert span.size == 6
    fresh = np.random.default_rng(1).standard_normal((50, 4))
    y = truth(fresh)
    assert np.max(np.abs(span.outside(span.inside(y)) - y)) < 1e-12
    small = truth.__class__(
        [truth.weights[0], span.basis.T @ truth.weights[1]],
        [truth.biases[0], span.basis.T @ (truth.biases[1] - span.mean)],
        truth.activations,
    )
    assert np.max(np.abs(small(fresh) - span.inside(y))) < 1e-12
    assert np.max(np.abs(span.lift(small)(fresh) - y)) < 1e-11


def test_noise_has_no_directions_of_its_own():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 4))
    y = random_network((4, 3, 200), "tanh", 2)(x) + 1e-4 * rng.standard_normal((40, 200))
    assert OutputSpan.of(y, 1e-4).size == 3
    assert OutputSpan.of(y).size > 20
    assert OutputSpan.of(y, most=5).size == 5
    assert OutputSpan.of(np.ones((9, 50))).size == 1
