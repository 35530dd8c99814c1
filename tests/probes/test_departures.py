"""Answers whose far field is straight along no ray are refused with the reason; known units never are."""

import numpy as np
import pytest

import unweave
from strangers import network_of
from truth import random_network
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.departures import see_departure
from unweave.probes.growth import observe_growth

STRANGERS = {
    "arctan": (np.arctan, "no crease"),
    "x / (1 + x^2)": (lambda z: z / (1 + z * z), "no crease"),
    "x / sqrt(1 + x^2)": (lambda z: z / np.sqrt(1 + z * z), "their level like the power -2"),
    "bent identity": (lambda z: np.sqrt(z * z + 100) / 2 + z, "straight lines like the power -1"),
    "root": (lambda z: np.sign(z) * np.sqrt(np.abs(z)), "the power 0.5"),
    "|x|^1.5": (lambda z: np.abs(z) ** 1.5, "the power 1.5"),
    "square": (lambda z: z * z, "the power 2 "),
    "asinh": (np.arcsinh, "the logarithm"),
    "sine": (np.sin, "periodic units"),
    "snake": (lambda z: z + np.sin(z) ** 2, "periodic units"),
    "exp": (lambda z: np.exp(z), "the exponential"),
}


def reason_of(model, input_size, seed=0):
    meter = Meter(resolve(model, input_size=input_size))
    rng = np.random.default_rng(seed)
    precision = measure_precision(meter, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        return see_departure(meter, precision, observe_growth(meter, precision, rng), rng)


@pytest.mark.parametrize("name", STRANGERS)
def test_units_outside_the_table_end_at_once_with_the_reason(name):
    activation, reason = STRANGERS[name]
    found = unweave.identify(network_of(activation), input_size=5)
    assert found.network is None
    assert reason in found.reason
    assert found.ledger.total < 1200


@pytest.mark.parametrize(
    ("inner", "outer"), [("arctan", "arctan"), ("gelu", "arctan"), ("arctan", "gelu"), ("gelu", "sine")]
)
def test_in_either_layer(inner, outer):
    units = {"arctan": np.arctan, "sine": np.sin, "gelu": act.get("gelu")}
    below, last = network_of(units[inner], sizes=(5, 7, 6)), np.random.default_rng(1).normal(size=(6, 1))
    assert reason_of(lambda x: units[outer](below(x)) @ last, 5)


def test_rounded_to_single_precision():
    model = network_of(np.arctan)
    assert "the power -1" in reason_of(lambda x: model(x.astype(np.float32)).astype(np.float32), 5)


KNOWN = [
    "gelu",
    "silu",
    "softplus",
    "elu",
    "mish",
    "selu",
    "hardswish",
    "tanh",
    "erf",
    "relu",
    "relu6",
    "softsign",
]


@pytest.mark.parametrize("activation", KNOWN)
@pytest.mark.parametrize("stretch", [1e-10, 1e-6, 1e-3, 1.0, 30.0])
def test_known_units_are_no_strangers(activation, stretch):
    """However short the rows of the first layer are: such units bend far out as others do near by."""
    network = random_network((5, 12, 6, 1), activation, 3)
    first = [stretch * network.weights[0], *network.weights[1:]]
    network = Network(first, network.biases, network.activations)
    assert reason_of(network, 5) == ""


@pytest.mark.parametrize("outward", [np.exp, np.expm1, np.tanh])
def test_nor_are_known_units_behind_an_output(outward):
    network = random_network((5, 12, 1), "gelu", 3)

    def model(x):
        with np.errstate(over="ignore"):
            return outward(network(x))

    assert reason_of(model, 5) == ""


def test_what_is_named_is_tried():
    found = unweave.identify(random_network((4, 3, 1), "squareplus", 1), activation="squareplus")
    assert found.identified
