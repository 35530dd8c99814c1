"""The unit that is always on far out, from the rest it leaves in a skeleton of several outputs."""

from __future__ import annotations

import numpy as np

import unweave
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.skeleton.steady import add_steady
from unweave.models.resolve import resolve


def with_steady_unit(outputs: int) -> Network:
    """Two hidden layers of gelu units; the last unit reads every feature with a positive weight: far out it is on."""
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(shape) / 2 for shape in ((6, 4), (5, 6), (outputs, 5))]
    weights[1][-1] = rng.uniform(0.2, 0.8, size=6)
    biases = [rng.standard_normal(num) / 2 for num in (6, 5, outputs)]
    return Network(weights, biases, ["gelu", "gelu", "identity"])


def without_it(truth: Network) -> tuple[Network, np.ndarray]:
    first, second, last = truth.weights
    known = [first, second[:-1], last[:, :-1]]
    biases = [truth.biases[0], truth.biases[1][:-1], truth.biases[2]]
    return Network(known, biases, truth.activations), np.outer(last[:, -1], second[-1])


def test_the_rest_of_several_outputs_gives_the_unit():
    truth = with_steady_unit(2)
    network, rest = without_it(truth)
    meter, precision = Meter(resolve(truth)), Precision(1e-15, 1.0, "float64")
    found = add_steady(meter, network, rest, precision, np.random.default_rng(0))
    assert found is not None
    assert unweave.compare(truth, found).max_relative_error < 1e-7
    assert meter.ledger.total < 150


def test_the_rest_of_one_output_or_of_two_units_does_not():
    meter, rng = Meter(resolve(with_steady_unit(2))), np.random.default_rng(0)
    precision = Precision(1e-15, 1.0, "float64")
    one, rest = without_it(with_steady_unit(1))
    assert add_steady(meter, one, rest, precision, rng) is None
    two, _ = without_it(with_steady_unit(2))
    assert add_steady(meter, two, rng.standard_normal((2, 6)), precision, rng) is None
    assert meter.ledger.total == 0
