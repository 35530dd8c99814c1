"""Kinks told from smooth bends in single precision, and what stands behind the last layer there."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.activations import get
from unweave.core.domains import Box
from unweave.core.outputs import apply_output
from unweave.core.streams import stream
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.growth import Growth
from unweave.probes.piecewise_linear import is_piecewise_linear
from unweave.probes.squashed import recognise
from unweave.probes.uneven import bends_at_places


def single(network, scale: float = 1.0, output: str = "identity") -> Meter:
    """A network evaluated in single precision in a box, its last layer scaled, ``output`` behind it."""
    layers = [
        (w.astype(np.float32), b.astype(np.float32))
        for w, b in zip(network.weights, network.biases, strict=True)
    ]
    unit = get(network.activations[0])

    def answer(x):
        h = x.astype(np.float32)
        for w, b in layers[:-1]:
            h = np.asarray(unit(h @ w.T + b), dtype=np.float32)
        z = np.float32(scale) * (h @ layers[-1][0].T + layers[-1][1])
        return np.asarray(apply_output(output, z), dtype=np.float32)

    return Meter(resolve(answer, input_size=network.input_size), domain=Box(-3.0, 3.0))


@pytest.mark.parametrize(("activation", "expected"), [("relu", True), ("tanh", False), ("gelu", False)])
def test_many_units_in_single_precision_bend_at_places_or_all_along(activation, expected):
    """With 128 units nearly every segment that rounding leaves meets a kink."""
    for seed in range(6):
        meter = single(random_network((4, 64, 64, 2), activation, seed))
        precision = measure_precision(meter, np.random.default_rng(seed))
        told = is_piecewise_linear(meter, precision, np.random.default_rng(seed), num_segments=12)
        assert told is expected


@pytest.mark.parametrize("sizes", [(6, 16, 1), (6, 16, 16, 1), (3, 25, 25, 1)])
def test_units_with_a_kink_that_bend_beside_it_are_not_taken_for_kinks(sizes):
    for seed in range(12):
        meter = single(random_network(sizes, "selu", seed))
        precision = measure_precision(meter, np.random.default_rng(seed))
        assert not is_piecewise_linear(meter, precision, np.random.default_rng(seed), num_segments=12)


def test_segments_that_bend_nowhere_tell_no_kinks():
    meter = single(random_network((3, 1, 1), "relu", 0))
    precision = measure_precision(meter, np.random.default_rng(0))
    starts = np.random.default_rng(1).uniform(-3, 3, (8, 3))
    assert not bends_at_places(meter, precision, starts, starts[::-1] - starts, 1e-3)


@pytest.mark.parametrize(("output", "scale"), [("expm1", 0.1), ("tanh", 0.1), ("sigmoid", 0.4)])
def test_a_squashing_whose_bend_hides_in_rounding_is_told_by_the_places_it_leaves(output, scale):
    for seed in range(6):
        meter = single(random_network((6, 21, 21, 3), "relu", seed), scale, output)
        precision = measure_precision(meter, np.random.default_rng(seed))
        views = recognise(meter, precision, Growth.UNSEEN, lambda name, seed=seed: stream(seed, name))
        assert views[0] is not None
        assert views[0].name == output


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_plain_answers_in_the_range_of_a_squashing_are_not_read_as_one(activation):
    for seed in range(6):
        meter = single(random_network((6, 21, 21, 1), activation, seed), 0.1)
        precision = measure_precision(meter, np.random.default_rng(seed))
        views = recognise(meter, precision, Growth.UNSEEN, lambda name, seed=seed: stream(seed, name))
        assert views[0] is None or len(views) == 2
        if activation == "relu":
            assert views == [None]
