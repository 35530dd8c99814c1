"""Several weak planes of the first layer beside known ones: each is crossed alone."""

from __future__ import annotations

import numpy as np

from truth import relu_in_float32
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.relu.one_layer.level import find_quiet_plane
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry


def test_three_weak_planes_are_found_one_after_the_other():
    rng, weak = np.random.default_rng(1), np.array([5, 6, 7])
    first, second = rng.standard_normal((8, 16)), rng.standard_normal((6, 8))
    second[:, weak] *= np.array([0.02, 0.05, 0.003])
    biases = 0.3 * rng.standard_normal(8), 3.0 + rng.standard_normal(6), np.zeros(4)
    network = Network(
        [first, second, rng.standard_normal((4, 6))], list(biases), ["relu", "relu", "identity"]
    )
    answer = relu_in_float32(network)
    meter = Meter(resolve(lambda x: answer(x).astype(np.float32), input_size=16))
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng)
    lengths = np.linalg.norm(first, axis=1)
    rows = np.hstack([first, biases[0][:, None]]) / lengths[:, None]
    known, found = np.delete(np.arange(8), weak), []
    normals, offsets = rows[known, :-1], rows[known, -1]
    for _ in range(3):
        plane = find_quiet_plane(inquiry, normals, offsets, rng)
        assert len(plane) == 1
        one = np.append(plane.normals[0], plane.offsets[0])
        apart = np.minimum(np.abs(rows - one).max(axis=1), np.abs(rows + one).max(axis=1))
        found.append(int(np.argmin(apart)))
        assert apart[found[-1]] < 1e-3
        normals, offsets = np.vstack([normals, plane.normals]), np.append(offsets, plane.offsets)
    assert sorted(found) == weak.tolist()
