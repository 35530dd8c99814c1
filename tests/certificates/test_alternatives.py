"""What rough answers do not tell apart is not claimed: another activation, another parameter of the same one."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.certificates.alternatives import RUNNER_UP, check_alternatives
from unweave.certificates.answers import check_answers, measured_bars
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.solve.fit import fit_network
from unweave.solve.weighted import weighted_polish


def in_single(network: Network):
    """The network in float32 arithmetic."""
    cast = [
        (w.astype(np.float32), b.astype(np.float32))
        for w, b in zip(network.weights, network.biases, strict=True)
    ]
    single = Network(
        [w.astype(float) for w, _ in cast], [b.astype(float) for _, b in cast], network.activations
    )
    return lambda x: single(x.astype(np.float32).astype(float)).astype(np.float32)


def asked(network: Network, half: float):
    """A meter of the float32 model with six answers a parameter from a box, and its precision."""
    rng = np.random.default_rng(1)
    meter = Meter(resolve(in_single(network), input_size=network.input_size), domain=Box(-half, half))
    precision = measure_precision(meter, rng)
    meter.ask(meter.domain.sample(6 * network.num_parameters, network.input_size, rng))
    return meter, precision


def fitted(network: Network, name: str, meter: Meter, precision) -> Network:
    start = Network(network.weights, network.biases, (name, "identity"))
    near = fit_network(start, *meter.transcript()).network
    return weighted_polish(near, *meter.transcript(), precision.noise, unit=precision.unit, max_steps=6)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("elu", "elu(1.01)"),
        ("leaky_relu(0.01)", "leaky_relu(0.0102)"),
        ("gelu", "gelu_tanh"),
        ("tanh", "erf"),
    ],
)
def test_a_unit_of_another_kind_leaves_answers_beyond_their_bars(name, other):
    truth = random_network((4, 5, 1), name, 3)
    meter, precision = asked(truth, 1.0)
    for kind, right in ((name, True), (other, False)):
        found = fitted(truth, kind, meter, precision)
        answers = check_answers(found, *meter.answers(), measured_bars(found, meter, precision))
        others = check_alternatives(found, meter.transcript(), precision)
        assert answers.passed is right
        assert all(check.passed for check in others) or not right


def test_what_a_small_box_does_not_tell_apart_is_named():
    truth = random_network((3, 2, 1), "tanh", 3)
    meter, precision = asked(truth, 0.01)
    checks = {check.name: check for check in check_alternatives(truth, meter.transcript(), precision)}
    assert checks[RUNNER_UP].passed is False
    assert "erf" in checks[RUNNER_UP].reason


@pytest.mark.parametrize("name", ["elu", "elu(0.8)", "leaky_relu(0.1)"])
def test_the_parameter_of_an_activation_is_claimed_where_units_bend(name):
    truth = random_network((4, 5, 1), name, 3)
    meter, precision = asked(truth, 1.0)
    (right,) = check_alternatives(truth, meter.transcript(), precision)
    assert right.passed
    assert right.figures["num_tried"] >= 2
    narrow, precision = asked(truth, 1e-3)  # hardly any unit bends in so small a box
    (blind,) = check_alternatives(truth, narrow.transcript(), precision)
    assert blind.passed is False
    assert name.partition("(")[0] + "(" in blind.reason
