"""Windows of a few kinks tell activations that are no candidate, in networks of any depth, and refuse no known one."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.evidence.far_view import FarView
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.base import Problem
from unweave.methods.skeleton.far import Scales
from unweave.methods.skeleton.glance import misfits_of_windows
from unweave.methods.skeleton.profiles import CANDIDATES
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry


def misfits(sizes, activations, seed):
    network = random_network(sizes, "gelu", seed)

    def answer(x):
        for w, b, phi in zip(network.weights, network.biases, [*activations, lambda z: z], strict=True):
            x = phi(x @ w.T + b)
        return x

    meter, rng = Meter(resolve(answer, input_size=sizes[0])), np.random.default_rng(seed)
    precision = measure_precision(meter, rng)
    scales = Scales.of(precision)
    inquiry = open_inquiry(FarView(meter, scales.view), precision, rng, window=scales.window)
    return misfits_of_windows(meter, inquiry, Problem(CANDIDATES, None, precision), scales.profile, rng)


def tanh_exp(z):
    return z * np.tanh(np.exp(np.minimum(z, 50)))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_stranger_is_told(depth):
    found = misfits((6, *[8] * depth, 1), [tanh_exp] * depth, depth)
    assert min(found.values(), default=0.0) > 4


@pytest.mark.parametrize(
    "names", [("gelu",) * 3, ("elu", "mish", "silu"), ("selu", "softplus", "hardswish"), ("relu",) * 3]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_known_units_are_not(names, seed):
    assert misfits((6, 8, 8, 8, 1), [act.get(name) for name in names], seed) == {}
