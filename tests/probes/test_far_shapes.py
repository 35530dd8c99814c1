"""Far fields that are one affine function, ridges that go on for ever, creases and jumps."""

import numpy as np
import pytest

import unweave
from strangers import network_of
from truth import random_network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.creases import shows_crease
from unweave.probes.jumps import shows_jump
from unweave.probes.ridges import shows_ridge


def hardshrink(z):
    return np.where(np.abs(z) > 0.5, z, 0)


@pytest.mark.parametrize("single", [False, True])
def test_both_sides_of_tanhshrink_have_one_slope(single):
    model = network_of(lambda z: z - np.tanh(z))
    kind = np.float32 if single else np.float64
    found = unweave.identify(lambda x: model(x.astype(kind)).astype(kind), input_size=5)
    assert "one affine function" in found.reason
    assert found.ledger.total < 200


def test_tanh_units_beside_a_skip_connection_too():
    units, slope = random_network((5, 6, 1), "tanh", 0), np.arange(5.0)[:, None]
    assert "skip connection" in unweave.identify(lambda x: units(x) + x @ slope, input_size=5).reason


def test_what_is_affine_near_by_as_well_is_found():
    slope = np.arange(5.0)[:, None]
    assert unweave.identify(lambda x: x @ slope + 2, input_size=5).identified


def test_relu_pairs_with_one_slope_are_found():
    model = network_of(lambda z: np.sign(z) * np.maximum(np.abs(z) - 0.5, 0), sizes=(4, 3, 1))
    assert unweave.identify(model, input_size=4).identified


@pytest.mark.parametrize("bump", [lambda z: np.exp(-(z**2)), lambda z: 1 / np.cosh(np.clip(z, -300, 300))])
def test_bumps_leave_ridges(bump):
    rng = np.random.default_rng(0)
    first, last = (
        rng.normal(size=(5, 6)),
        rng.uniform(0.5, 1, size=(6, 1)),
    )  # far answers are below all others
    found = unweave.identify(lambda x: bump(x @ first + 0.3) @ last, input_size=5)
    assert "narrow ridges" in found.reason
    assert found.ledger.total < 1200


def test_a_wedge_is_no_ridge():
    first = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0]

    def wedge(x):
        return np.tanh(np.maximum(0.2 * x @ first[:, :1] - np.abs(x @ first[:, 1:]), 0))

    meter = Meter(resolve(wedge, input_size=5))
    assert not any(shows_ridge(meter, np.zeros(1), 1.0, np.random.default_rng(seed)) for seed in range(5))


@pytest.mark.parametrize(
    ("activation", "creased"),
    [(lambda z: z / (1 + np.abs(z)), True), (np.arctan, False), (lambda z: z / (1 + z * z), False)],
)
@pytest.mark.parametrize("seed", range(3))
def test_creases(activation, creased, seed):
    meter = Meter(resolve(network_of(activation, seed), input_size=5))
    assert shows_crease(meter, np.random.default_rng(seed)) is creased


def test_hardshrink_jumps():
    assert "the answers jump" in unweave.identify(network_of(hardshrink), input_size=5).reason


@pytest.mark.parametrize("activation", ["relu", "gelu", "relu6", "hardswish"])
def test_known_units_do_not_jump(activation):
    meter = Meter(resolve(random_network((5, 20, 10, 1), activation, 0), input_size=5))
    rng = np.random.default_rng(0)
    assert not shows_jump(meter, measure_precision(meter, rng), rng)


def test_units_that_jump_are_the_reason_where_relu_methods_find_nothing():
    model = network_of(lambda z: np.where(z > 0.1, z, -0.7), sizes=(3, 4, 1))
    assert "the answers jump" in unweave.identify(model, input_size=3, surrogate=False).reason
