"""The last digits of a network too large for a factor of all its parameters."""

import numpy as np

import unweave
from truth import random_network
from unweave import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.relu.two_layers.refine import is_large, refine_spread
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry


def _off_by(network: Network, size: float, rng: np.random.Generator) -> Network:
    theta = network.flat()
    return network.with_flat(theta * (1 + size * rng.standard_normal(theta.shape)))


def test_points_all_over_give_every_digit_of_a_large_network():
    rng = np.random.default_rng(3)
    truth = random_network((90, 56, 20, 10), "relu", 2)
    assert is_large(truth)
    meter = Meter(resolve(truth))
    precision = Precision(noise=1e-16, scale=1.0, kind="float64")
    start = _off_by(truth, 1e-8, rng)
    assert unweave.compare(truth, start).max_relative_error > 1e-9
    refined = refine_spread(start, open_inquiry(meter, precision, rng), rng)
    assert unweave.compare(truth, refined).max_relative_error < 1e-12
    assert meter.ledger.by_stage["polish"] <= 2 * truth.num_parameters / truth.output_size
