"""What stands behind a last layer: its inverse, what errors become of it, and networks that end with it."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.core.outputs import Squashing, apply_output, output_name

NAMES = ["softmax", "log_softmax", "sigmoid", "tanh", "exp", "expm1", "relu", "hardtanh", "clamp(-2.0, 1.5)"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_outputs", [2, 3])
def test_the_inverse_gives_back_what_can_be_known(name, num_outputs, rng):
    view = Squashing(name)
    z = 0.3 * rng.uniform(0.1, 1, size=(50, num_outputs))
    inner = view.invert(apply_output(name, z))
    assert inner.shape == (50, view.num_inner(num_outputs))
    assert np.allclose(view.restore(inner), apply_output(name, z), atol=1e-14)
    if "softmax" not in name:
        assert np.allclose(inner, z, atol=1e-13)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "tanh", "exp", "expm1"])
def test_errors_of_answers_are_divided_by_the_slope(name, rng):
    view, noise = Squashing(name), 1e-9
    z = rng.standard_normal((200, 3))
    p = apply_output(name, z)
    noisy = p + noise * rng.choice([-1.0, 1.0], size=p.shape)
    moved = np.max(np.abs(view.invert(noisy) - view.invert(p)), axis=1)
    bars = view.errors(p, noise, 0.0)
    assert np.all(moved <= 2.1 * bars)
    assert np.median(moved / bars) > 0.3


def test_answers_at_the_end_of_their_range_say_nothing():
    assert np.isinf(Squashing("sigmoid").errors(np.array([[1.0], [0.0]]), 0.0, 1e-16)).all()
    assert np.isinf(Squashing("softmax").errors(np.array([[1.0, 0.0]]), 0.0, 1e-16)).all()
    assert np.isinf(Squashing("clamp(-2.0, 1.5)").errors(np.array([[1.5], [-2.0]]), 0.0, 1e-16)).all()
    assert np.all(np.isfinite(Squashing("sigmoid").invert(np.array([[1.0], [0.0]]))))


def test_answers_that_are_no_probabilities_contradict_a_softmax():
    rows = np.array([[0.3, 0.7], [0.3, 0.71], [-0.1, 1.1]])
    assert Squashing("softmax").contradicted(rows, 1e-4, 1e-16).tolist() == [False, True, True]
    logs = np.array([[np.log(0.3), np.log(0.7)], [-0.78, -0.08], [0.1, -3.0], [0.0, -1e8]])
    assert Squashing("log_softmax").contradicted(logs, 1e-6, 1e-16).tolist() == [False, True, True, False]
    assert not Squashing("tanh").contradicted(rows, 0.0, 1e-16).any()


def test_noise_does_not_excuse_large_negative_answers_that_are_no_log_probabilities():
    view = Squashing("log_softmax")
    assert view.contradicted(np.array([[-23.0, -61.0], [-24.0, -64.0]]), 7e-3, 1e-16).all()
    logits = np.array([[300.0, 1.0, -500.0], [1.0, 2.0, 3.0]])
    logs = logits - np.log(np.sum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1, keepdims=True))
    logs -= logits.max(axis=1, keepdims=True)
    noisy = logs + 7e-3 * np.random.default_rng(0).standard_normal(logs.shape)
    assert not view.contradicted(noisy, 7e-3, 1e-16).any()


def test_clamps_have_one_spelling():
    assert output_name("clamp(-1, 1)") == "hardtanh"
    assert output_name("clamp(0, inf)") == "relu"
    assert output_name(" clamp( -2,1.5 ) ") == "clamp(-2.0, 1.5)"
    with pytest.raises(InputError, match="below the second"):
        output_name("clamp(1, 0)")
    with pytest.raises(InputError, match="unknown activation"):
        Network([np.eye(2), np.eye(2)], [None, None], ["softmax", "identity"])


def test_a_shift_of_logits_is_a_symmetry(rng):
    plain = random_network((4, 5, 3), "tanh", 2)
    network = Network(plain.weights, plain.biases, ["tanh", "softmax"])
    shift = rng.standard_normal((1, 5))
    moved = Network(
        [plain.weights[0], plain.weights[1] + shift],
        [plain.biases[0], plain.biases[1] + 2],
        network.activations,
    )
    assert unweave.compare(network, moved).max_relative_error < 1e-12
    assert "softmax outputs" in network.describe()


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("name", ["sigmoid", "exp", "softmax"])
def test_answers_below_the_smallest_normal_number_are_not_known_to_their_relative_rounding(name):
    z = -97.0
    p = np.array([[np.float32(np.exp(z)), 1.0 - np.exp(z)]], dtype=float)
    p = p if name == "softmax" else p[:, :1]
    view = Squashing(name)
    error = view.errors(p, 0.0, 2.0**-23)[0]
    read = view.invert(p)[0, 0] if name != "softmax" else -view.invert(p)[0, 0]
    assert 0 < abs(read - z) < 2 * error
