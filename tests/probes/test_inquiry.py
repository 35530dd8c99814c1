"""Error bars of answers: no smaller than the errors, wherever in the domain."""

import numpy as np
import pytest

import unweave
from truth import random_network, relu_in_float32
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry


@pytest.mark.parametrize("seed", range(3))
def test_float32_errors_do_not_vanish_in_the_middle_of_a_box(seed):
    """Where an answer and its input are small the network's own numbers are not."""
    network = random_network((5, 12, 8, 2), "relu", seed)
    biases = [*network.biases[:-1], network.biases[-1] - network(np.zeros((1, 5)))[0]]
    network = unweave.Network(network.weights, biases, network.activations)
    network = network.with_flat(network.flat().astype(np.float32).astype(float))
    rng = np.random.default_rng(seed)
    box = unweave.Box(-1.0, 1.0)
    meter = Meter(resolve(relu_in_float32(network), input_size=5, domain=box), domain=box)
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng)
    for size in (1e-4, 1e-2, 1.0):
        x = size * rng.uniform(-1, 1, (2000, 5)).astype(np.float32).astype(float)
        y, bars = inquiry.ask(x)
        assert np.max(np.abs(y - network(x)) / bars[:, None]) < 8
