"""Planes of the first layer from creases on lines, and the sides and lengths of elu units."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.domains import Box
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.crease_planes import find_crease_planes


@pytest.mark.parametrize("activation", ["elu", "softsign"])
def test_planes_of_the_first_of_two_layers_show(activation):
    network = random_network((4, 6, 5, 2), activation, 5)
    meter = Meter(resolve(network), domain=Box(-3.0, 3.0))
    precision = measure_precision(meter, np.random.default_rng(0))
    found = find_crease_planes(meter, precision, np.random.default_rng(1))
    lengths = np.linalg.norm(network.weights[0], axis=1)
    normals, offsets = network.weights[0] / lengths[:, None], network.biases[0] / lengths
    num_seen = 0
    for normal, offset, length in zip(normals, offsets, lengths, strict=True):
        side = np.sign(found.normals @ normal)
        off = np.linalg.norm(found.normals * side[:, None] - normal, axis=1) + np.abs(
            found.offsets * side - offset
        )
        i = int(np.argmin(off))
        num_seen += off[i] < 1e-3
        if activation == "elu" and off[i] < 1e-3 and abs(found.tilts[i]) > 4 * found.doubts[i]:
            assert 0.3 < found.tilts[i] * side[i] / length < 3
    assert num_seen >= 5
    assert len(found) <= 8
