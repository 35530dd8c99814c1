"""Rows in directions in which hardly any of them points."""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.weak_directions import read_weak_directions
from unweave.models.resolve import resolve


def test_long_steps_read_what_short_ones_left():
    rng = np.random.default_rng(1)
    left, values, right = np.linalg.svd(rng.standard_normal((12, 12)) / np.sqrt(12))
    values[-2:] = 1e-3, 1e-5
    rows, biases = (left * values) @ right, 0.3 * rng.standard_normal(12)
    upper = [0.3 * rng.standard_normal((6, 12)), rng.standard_normal((2, 6))]
    network = Network([rows, *upper], [biases, np.zeros(6), np.zeros(2)], ["tanh", "tanh", "identity"])
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    bases = 1e5 * rng.standard_normal((12, 12))
    bases -= (np.sum(rows * bases, axis=1) + biases)[:, None] * rows / np.sum(rows**2, axis=1)[:, None]
    off = rows + 1e-8 * rng.standard_normal((12, 12)) @ right
    found = read_weak_directions(sight, off, bases)
    weak = right[-2:]
    assert np.min(np.max(np.abs((off - rows) @ weak.T), axis=0)) > 1e-9
    np.testing.assert_array_less(np.max(np.abs((found - rows) @ weak.T), axis=0), [1e-10, 2e-11])
    assert sight.meter.ledger.total == 2 * 3 * 12
