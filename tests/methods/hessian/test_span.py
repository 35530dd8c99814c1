"""Networks from the spans of their Hessians: one hidden layer exactly, two end to end, and the paper's
settings.
"""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave import Ball, Network
from unweave.core import activations as act
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.experiments.two_layer_stated import StatedOptions, StatedSpan
from unweave.methods.base import Problem
from unweave.methods.hessian.span_layers import Deparametrised, complete_directions, find_second_layer
from unweave.methods.hessian.span_shallow import curvature_coefficients, fit_units
from unweave.models.resolve import resolve


def perturbed_orthogonal(m0: int, m1: int, activation: str, seed: int) -> Network:
    """The paper's class: unit rows, nearly orthogonal, biases N(0, 0.01), output weights 1."""
    rng = np.random.default_rng([seed, m0, m1])
    weights = []
    for count in (m0, m1):
        left = np.linalg.qr(rng.standard_normal((m0, count)))[0]
        right = np.linalg.qr(rng.standard_normal((count, count)))[0]
        deviations = rng.standard_normal(count)
        rows = (left * (1 + 0.3 * deviations / np.linalg.norm(deviations)) @ right.T).T
        weights.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    biases = [0.1 * rng.standard_normal(m0), 0.1 * rng.standard_normal(m1), np.zeros(1)]
    return Network([*weights, np.ones((1, m1))], biases, [activation, activation, "identity"])


def distances(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Squared distance of each true unit vector from the nearest found one, up to sign."""
    both = np.concatenate([found, -found])
    return np.array([np.min(np.sum((both - w) ** 2, axis=1)) for w in truth])


@pytest.mark.parametrize(
    ("sizes", "activation"),
    [
        ((10, 6, 1), "tanh"),
        ((8, 8, 2), "gelu"),
        ((6, 12, 1), "sigmoid"),
        ((7, 15, 1), "softplus"),
        ((8, 5, 1), "erf"),
    ],
)
def test_one_hidden_layer_narrower_or_wider_than_the_input(sizes, activation):
    network = random_network(sizes, activation, 1)
    given = "auto" if activation in ("tanh", "erf") else activation
    found = unweave.identify(network, method="hessian-span", activation=given, seed=1)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8
    spectrum = found.details["hessian_spectrum"]
    assert spectrum[sizes[1] - 1] > 100 * spectrum[sizes[1]]
    assert max(found.details["checks"]["first_order"]) < 1e-6


def test_many_inputs_and_few_units_are_reduced_first():
    network = random_network((40, 4, 1), "tanh", 2)
    found = unweave.identify(network, method="hessian-span", seed=2)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8
    assert found.ledger.by_stage["hessians"] < 40 * 40


def test_inside_a_ball():
    network = random_network((8, 6, 1), "silu", 3)
    found = unweave.identify(network, method="hessian-span", domain=Ball(5.0), activation="silu", seed=3)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_two_hidden_layers_of_the_paper_end_to_end(activation, tmp_path):
    network = perturbed_orthogonal(8, 2, activation, 6)
    found = unweave.identify(
        network, method="hessian-span", activation=activation, hidden=(8, 2), domain=Ball(8.0), seed=6
    )
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8
    rows = network.weights[0]
    assert np.mean(distances(found.details["first_layer"], rows) < 0.05) > 0.8
    again = unweave.load(found.save(tmp_path / "found.safetensors"))
    assert np.allclose(again.details["common_spectrum"], found.details["common_spectrum"])


def test_two_hidden_layers_with_free_norms_and_unknown_widths():
    network = random_network((8, 8, 2, 1), "tanh", 0)
    found = unweave.identify(network, method="hessian-span", activation="tanh", seed=0)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-8


def test_as_stated_the_stages_report_their_figures():
    network = perturbed_orthogonal(10, 3, "sigmoid", 5)
    meter = Meter(resolve(network))
    precision = measure_precision(meter, np.random.default_rng(0))
    stated = StatedSpan(StatedOptions(num_hessians=200, num_starts=150, descent_steps=3000))
    finding = stated.recover(meter, Problem(("sigmoid",), (10, 3), precision))
    details = finding.details
    assert meter.ledger.by_stage["hessians"] == 200 * (1 + 10 + 55)
    assert details["components"].shape == (13, 10)
    assert np.mean(distances(details["components"], network.weights[0]) < 0.05) > 0.7
    assert np.median(details["lambda_1"]) > 0.9
    assert details["checks"]["frame_upper"] > 1
    assert np.isfinite(details["mse"])
    assert finding.network is not None


def test_relu_networks_and_noisy_answers_are_declined():
    found = unweave.identify(random_network((6, 4, 1), "relu", 6), method="hessian-span", activation="relu")
    assert not found.identified
    assert "relu-lines" in found.reason
    network, rng = random_network((6, 4, 1), "tanh", 7), np.random.default_rng(0)

    def noisy(x):
        return network(x) + 1e-3 * rng.standard_normal((len(x), 1))

    found = unweave.identify(noisy, method="hessian-span", input_size=6)
    assert not found.identified
    assert "noisy" in found.reason


def test_slopes_and_shifts_come_from_curvatures():
    network = random_network((5, 4, 2), "tanh", 8)
    rng = np.random.default_rng(9)
    x = rng.standard_normal((12, 5))
    rows, norms = network.weights[0], np.linalg.norm(network.weights[0], axis=1)
    z = x @ rows.T + network.biases[0]
    second = -2 * np.tanh(z) * (1 - np.tanh(z) ** 2)
    hessians = np.einsum("ok,nk,ki,kj->noij", network.weights[1], second, rows, rows)
    unit = rows / norms[:, None]
    coefficients = curvature_coefficients(hessians, unit)
    slopes, shifts, residual = fit_units(x @ unit.T, coefficients, act.get("tanh"))
    assert residual < 1e-6
    assert np.allclose(slopes, norms, rtol=1e-5)
    assert np.allclose(np.abs(shifts), np.abs(network.biases[0]), atol=1e-5)
    assert fit_units(x @ unit.T, coefficients, act.get("erf"))[2] > 1e-3


def test_second_layer_from_what_is_off_the_diagonal():
    rng = np.random.default_rng(10)
    rows = np.linalg.qr(rng.standard_normal((7, 7)))[0] + 0.1 * rng.standard_normal((7, 7))
    profiles = rng.standard_normal((2, 7))
    profiles /= np.linalg.norm(profiles, axis=1, keepdims=True)
    inner = np.einsum("nl,li,lj->nij", rng.standard_normal((20, 2)), profiles, profiles)
    inner += rng.standard_normal((20, 7, 1)) * np.eye(7)
    hessians = np.einsum("ia,nij,jb->nab", rows, inner, rows)
    found = find_second_layer(hessians, rows, rng, width=None, floor=1e-9)
    assert found.width == 2
    assert np.max(distances(found.vectors, profiles)) < 1e-6


def test_the_deparametrised_network_is_linearised_correctly():
    rng = np.random.default_rng(11)
    model = Deparametrised(
        rng.standard_normal((4, 6)), rng.standard_normal((2, 4)), act.get("sigmoid"), free_outputs=True
    )
    p = rng.standard_normal(4 * 3 + 2 * 3 + 1)
    x = rng.standard_normal((5, 6))
    outputs, jacobian = model.linearise(p, x @ model.rows.T)
    assert np.allclose(model.network(p)(x)[:, 0], outputs)
    for k in range(len(p)):
        step = 1e-6 * (np.arange(len(p)) == k)
        plus, minus = (model.linearise(p + s * step, x @ model.rows.T)[0] for s in (1, -1))
        assert np.allclose((plus - minus) / 2e-6, jacobian[:, k], atol=1e-7)


def test_missing_directions_are_completed_orthogonally():
    vectors = np.eye(5)[:3]
    full = complete_directions(vectors)
    assert np.allclose(np.abs(full @ full.T), np.eye(5))


def test_single_precision_answers_give_single_precision_weights():
    network = random_network((10, 6, 1), "tanh", 3)

    def answer(x):
        return network(x.astype(np.float32).astype(np.float64)).astype(np.float32).astype(np.float64)

    found = unweave.identify(answer, method="hessian-span", activation="tanh", input_size=10)
    assert found.identified, found.reason
    assert unweave.compare(network, found).max_relative_error < 1e-5
