"""The measured precision is that of the answers, whatever blurs them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from truth import random_network
from unweave.core.domains import Ball, Box, Normal
from unweave.core.errors import BudgetSpent
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.python_callable import CallableOracle
from unweave.models.resolve import resolve

SHAPES = [(10, 16, 1), (3, 8, 4, 2), (1, 6, 1), (30, 20, 8, 1)]
CASES = [(shape, name, seed) for seed, shape in enumerate(SHAPES) for name in ("tanh", "relu", "sigmoid")]


def _measure(network, function, *, domain=None, dtype="float64", seed=0):
    oracle = CallableOracle("model", network.input_size, network.output_size, dtype, function)
    meter = Meter(oracle, domain=domain)
    found = measure_precision(meter, np.random.default_rng(seed))
    assert meter.ledger.by_stage == {"precision": meter.ledger.total}
    assert meter.ledger.total <= 60
    return found


@pytest.mark.parametrize("level", [1e-8, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("domain", [None, Ball(3.0), Box(5.0, 6.0), Normal(0.1)], ids=repr)
def test_random_noise_is_measured_within_a_factor_of_three(level, domain):
    for shape, name, seed in CASES:
        network = random_network(shape, name, seed=seed)
        noise = np.random.default_rng(seed)
        found = _measure(
            network,
            lambda x, f=network, g=noise: f(x) + level * g.standard_normal((len(x), 1)),
            domain=domain,
        )
        assert found.kind == "noisy"
        assert level / 3 < found.noise < 3 * level


@pytest.mark.parametrize("domain", [None, Ball(3.0)], ids=repr)
def test_clean_float64_is_recognised(domain):
    for shape, name, seed in CASES:
        network = random_network(shape, name, seed=seed)
        found = _measure(network, network, domain=domain)
        assert found.kind == "float64"
        assert 1e-18 < found.noise < 1e-14
        sample = network(np.random.default_rng(0).standard_normal((500, shape[0])))
        if domain is None:
            deviation = np.sqrt(np.mean(np.var(sample, axis=0)))
            assert deviation / 3 < found.scale < 3 * deviation
        assert found.relative == found.noise / found.scale


@pytest.mark.parametrize(
    ("digits", "domain"), [(2, None), (4, None), (4, Ball(3.0)), (7, None), (9, Ball(3.0))]
)
def test_rounded_answers_tell_their_step(digits, domain):
    for shape, name, seed in CASES:
        network = random_network(shape, name, seed=seed)
        found = _measure(network, lambda x, f=network: np.round(f(x), digits), domain=domain)
        assert found.kind == "rounded"
        expected = 10.0**-digits
        assert expected * 0.99 < found.step < 3.01 * expected
        assert expected / 12**0.5 * 0.99 < found.noise < 3.01 * expected


def test_any_step_and_offset_is_found():
    network = random_network((5, 8, 1), seed=3)
    found = _measure(network, lambda x: 0.0173 * np.round(network(x) / 0.0173) + 1 / 3)
    assert found.kind == "rounded"
    assert found.step == pytest.approx(0.0173, rel=1e-6)


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU()])
@pytest.mark.parametrize("domain", [None, Ball(3.0)], ids=repr)
def test_float32_modules_are_measured(activation, domain):
    for seed in range(5):
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(6, 32), activation, nn.Linear(32, 16), activation, nn.Linear(16, 1))
        meter = Meter(resolve(module), domain=domain)
        found = measure_precision(meter, np.random.default_rng(seed))
        assert found.kind == "float32"
        assert meter.ledger.total <= 60
        x = meter.snap(np.random.default_rng(1).standard_normal((400, 6)))
        errors = meter.oracle(x) - resolve(copy.deepcopy(module).double())(x)
        assert np.std(errors) / 4 < found.noise < 4 * np.std(errors)


@pytest.mark.parametrize("behind", [lambda y: y, lambda y: 1.2345678 * y + 0.1], ids=["plain", "rescaled"])
def test_float32_inside_a_float64_function_is_detected(behind):
    for seed in range(6):
        network = random_network((6, 12, 1), "tanh", seed=seed)
        (a, b), (p, q) = network.weights, network.biases

        def function(x, a=a, b=b, p=p, q=q):
            h = np.tanh(x.astype(np.float32) @ a.T.astype(np.float32) + p.astype(np.float32))
            return behind((h @ b.T.astype(np.float32) + q.astype(np.float32)).astype(np.float64))

        found = _measure(network, function, seed=seed)
        assert found.kind == "float32"
        assert 3e-9 < found.noise < 1e-6


def test_a_kink_on_one_segment_does_not_matter():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        direction = rng.standard_normal(3)

        def sawtooth(x, w=direction):
            return np.abs((3e5 * x @ w) % 2 - 1)[:, None] + np.sin(x @ w)[:, None]

        network = random_network((3, 2, 1))
        assert _measure(network, sawtooth, seed=seed).noise < 1e-8


def test_constants_and_steps_have_no_noise():
    network = random_network((3, 2, 1))
    constant = _measure(network, lambda x: np.full((len(x), 1), 0.7))
    assert (constant.kind, constant.scale) == ("float64", 0.0)
    assert constant.relative == 0.0
    zero = _measure(network, lambda x: np.zeros((len(x), 1)))
    assert zero.kind == "float64"
    steps = _measure(network, lambda x: np.pi * (x[:, :1] > 0.1) + np.e * (x[:, 1:2] > 0.2))
    assert steps.kind == "float64"
    assert steps.noise < 1e-14


def test_outputs_of_different_size_are_judged_together():
    network = random_network((4, 8, 2), seed=1)
    noise = np.random.default_rng(0)
    found = _measure(network, lambda x: network(x) + [1e-6, 1e-3] * noise.standard_normal((len(x), 2)))
    assert found.kind == "noisy"
    assert found.noise == pytest.approx(1e-3 / 2**0.5, rel=0.7)


def test_results_repeat_and_the_budget_holds():
    network = random_network((4, 8, 1))
    assert _measure(network, network, seed=5) == _measure(network, network, seed=5)
    meter = Meter(resolve(network), budget=10)
    with pytest.raises(BudgetSpent):
        measure_precision(meter, np.random.default_rng(0))
    assert meter.ledger.total <= 10


@pytest.mark.parametrize(
    "domain", [Ball(1e-6, centre=np.array([100.0, 5, -3])), Box(1e-4, 2e-4), Box(1e3, 1e3 + 1e-3)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_questions_stay_inside_narrow_domains(domain, dtype):
    network = random_network((3, 4, 1))
    oracle = CallableOracle("model", 3, 1, dtype, network)
    assert measure_precision(Meter(oracle, domain=domain), np.random.default_rng(0)).noise > 0


def test_rounding_measured_far_out_is_less_near_by():
    network = random_network((6, 8, 1), "gelu", seed=1)
    far = _measure(network, network, domain=Ball(1e9))
    near = _measure(network, network, domain=Ball(3.0))
    there = far.at(network(Ball(3.0).sample(50, 6, np.random.default_rng(0))))
    assert far.noise > 1e6 * near.noise
    assert near.noise / 30 < there.noise < 30 * near.noise
