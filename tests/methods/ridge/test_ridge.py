"""Single neurons: sparse weights in very many inputs, dense ones, and functions that are none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave import Ball, Box, Network


def single_unit(
    size: int, num_nonzero: int, activation: str, seed: int, *, outputs: int = 1, flat: bool = False
):
    rng = np.random.default_rng([seed, size, num_nonzero])
    row = np.zeros(size)
    chosen = rng.choice(size, num_nonzero, replace=False)
    values = rng.standard_normal(num_nonzero)
    row[chosen] = np.sign(values) if flat else values
    row *= rng.uniform(0.7, 1.6) / np.linalg.norm(row)
    outgoing = rng.uniform(0.5, 2.0, size=(outputs, 1))
    biases = [[0.3 * rng.standard_normal()], rng.standard_normal(outputs)]
    return Network([row[None], outgoing], biases, [activation, "identity"])


@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu"])
def test_twenty_weights_among_ten_thousand_in_six_hundred_questions(activation):
    network = single_unit(10_000, 20, activation, 1)
    found = unweave.identify(network, method="ridge", seed=1)
    assert found.identified, found.reason
    assert found.ledger.total <= 600
    assert unweave.compare(network, found).max_relative_error < 1e-10


def test_equal_magnitudes_are_the_hard_case_and_still_within_six_hundred():
    network = single_unit(10_000, 20, "sigmoid", 2, flat=True)
    found = unweave.identify(network, method="ridge", seed=2)
    assert found.identified, found.reason
    assert found.ledger.total <= 600
    assert unweave.compare(network, found).max_relative_error < 1e-10


@pytest.mark.parametrize("activation", ["tanh", "softplus", "relu", "leaky_relu(0.2)"])
def test_dense_weights_by_one_question_an_input(activation):
    network = single_unit(40, 40, activation, 3, outputs=2)
    found = unweave.identify(network, method="ridge", seed=3)
    assert found.identified, found.reason
    assert found.ledger.by_stage["gradient"] == 40
    assert unweave.compare(network, found).max_relative_error < 1e-9


@pytest.mark.parametrize("domain", [Box(-1.0, 1.0), Ball(3.0)])
def test_inside_a_bounded_domain(domain):
    network = single_unit(30, 30, "silu", 4)
    found = unweave.identify(network, method="ridge", domain=domain, seed=4)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_several_units_are_refused_on_the_first_line(activation):
    found = unweave.identify(random_network((10, 4, 1), activation, 5), method="ridge")
    assert not found.identified
    assert found.network is None
    assert "not a ridge function" in found.reason
    assert found.ledger.total < 100


def test_the_example_finds_its_weights():
    script = Path(__file__).parents[3] / "examples" / "ridge_function.py"
    shown = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True
    )
    assert shown.stdout.startswith("identified: 20 weights")
