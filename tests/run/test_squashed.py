"""Outputs behind a softmax, sigmoid, tanh, exp or clamp: recognised from the answers, inverted, put back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.network import Network
from unweave.core.outputs import apply_output
from unweave.exports import export


def squashed(sizes, activation, name, seed=0, *, single=False):
    """A network that ends with ``name``, and a function of batches that hides it."""
    plain = random_network(sizes, activation, seed)
    kind = np.float32 if single else np.float64
    weights = [w.astype(kind).astype(float) for w in plain.weights]
    biases = [b.astype(kind).astype(float) for b in plain.biases]
    truth = Network(weights, biases, (*plain.activations[:-1], name))

    def answer(x):
        with np.errstate(over="ignore"):
            return truth(x.astype(kind).astype(float)).astype(kind)

    return truth, answer


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "sigmoid", "tanh", "exp"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_network_comes_back_with_its_squashing(activation, name):
    truth, answer = squashed((6, 5, 2 if name == "sigmoid" else 3), activation, name, 1)
    found = unweave.identify(answer, input_size=6)
    assert found.identified
    assert found.network is not None
    assert found.network.activations[-1] == name
    assert unweave.compare(truth, found).max_relative_error < 1e-7
    x = np.random.default_rng(1).standard_normal((50, 6))
    assert np.allclose(found(x), truth(x), atol=1e-9)
    assert f"{name} outputs" in found.verdict()
    assert "inverted" in found.verdict()


def test_large_negative_outputs_are_not_log_probabilities():
    weights = [[[-0.5, -0.3, 0.8], [-0.7, -0.3, 0.6]], [[-0.9, -1.2], [-2.1, -2.8]]]
    truth = Network([np.array(w) for w in weights], [[0.5, -0.1], [-0.8, -0.1]], ["relu", "identity"])
    rng = np.random.default_rng(0)
    found = unweave.identify(lambda x: truth(x) + 1e-6 * rng.standard_normal((len(x), 2)), input_size=3)
    assert found.identified
    assert unweave.compare(truth, found).max_relative_error < 1e-4


def test_a_clamp_must_bend_at_once():
    row = np.array([0.18, -0.63, 0.0, -0.31])

    def rounded(x, reach=5e-3):
        z = x @ row - 0.2
        return np.minimum(z, 0) - np.maximum(reach - np.abs(z), 0) ** 2 / (4 * reach)

    found = unweave.identify(rounded, input_size=4, budget=20_000, time_limit=10)
    assert not found.identified
    sharp = unweave.identify(lambda x: np.minimum(x @ row - 0.2, 0), input_size=4)
    assert sharp.identified, sharp.verdict()


def test_two_classes_are_one_difference():
    truth, answer = squashed((6, 5, 2), "relu", "softmax", 2)
    found = unweave.identify(answer, input_size=6)
    assert found.identified
    assert unweave.compare(truth, found).max_relative_error < 1e-7
    assert "common shift of the logits" in found.verdict()


@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
def test_float32_probabilities(name):
    truth, answer = squashed((6, 5, 3), "tanh", name, 3, single=True)
    found = unweave.identify(answer, input_size=6)
    assert found.identified
    assert unweave.compare(truth, found).max_relative_error < 1e-3


def test_an_exponential_in_float32_comes_to_the_end_of_its_numbers_on_both_sides():
    truth, answer = squashed((10, 12, 3), "relu", "exp", 2, single=True)
    with np.errstate(over="ignore"):
        far = answer(1e3 * np.random.default_rng(0).standard_normal((200, 10)))
    assert not np.all(np.isfinite(far))
    assert np.any(far == 0)
    found = unweave.identify(answer, input_size=10)
    assert found.identified, found.reason
    assert found.network is not None
    assert found.network.activations[-1] == "exp"
    assert unweave.compare(truth, found).max_relative_error < 1e-4


def test_a_clamp_that_few_answers_near_the_origin_meet():
    truth, answer = squashed((8, 10, 3), "relu", "clamp(-9.0, 12.0)", 3)
    near = answer(np.random.default_rng(0).standard_normal((8, 8)))
    assert np.max(near) < 12
    assert np.min(near) > -9
    found = unweave.identify(answer, input_size=8)
    assert found.identified, found.reason
    assert found.network is not None
    assert found.network.activations[-1] == "clamp(-9.0, 12.0)"
    assert unweave.compare(truth, found).max_relative_error < 1e-7


def test_clamped_answers_inside_a_box():
    truth, answer = squashed((6, 5, 2), "relu", "clamp(-2.0, 1.5)", 1)
    found = unweave.identify(answer, input_size=6, domain=unweave.Box(-2.0, 2.0))
    assert found.identified, found.verdict()  # as a clamp, or as the two more relu units that a clamp is
    x = np.random.default_rng(1).uniform(-2, 2, size=(2000, 6))
    assert np.allclose(found(x), truth(x), atol=1e-8)


def test_answers_that_keep_to_a_range_by_chance_are_taken_as_they_are():
    plain = random_network((6, 5, 1), "tanh", 4)
    weights = [plain.weights[0], 0.04 * plain.weights[1]]
    truth = Network(weights, [plain.biases[0], [0.5]], plain.activations)
    for domain in (None, unweave.Box(-1.0, 1.0)):
        found = unweave.identify(truth, domain=domain)
        assert found.identified
        assert found.network is not None
        assert found.network.activations[-1] == "identity"


def test_exported_models_end_with_the_squashing(tmp_path):
    truth, answer = squashed((6, 5, 3), "tanh", "softmax", 5)
    found = unweave.identify(answer, input_size=6)
    path = found.export(tmp_path / "found.onnx")
    assert unweave.compare(truth, path).max_relative_error < 1e-9
    again = unweave.identify(path)
    assert again.identified
    assert again.network is not None
    assert again.network.activations[-1] == "softmax"
    found.report(tmp_path / "report.html")
    assert "softmax" in (tmp_path / "report.html").read_text()
    assert (
        unweave.load(found.save(tmp_path / "f.safetensors")).network.activations == found.network.activations
    )


def test_the_largest_outputs_alone_are_refused_with_the_remedy():
    _, answer = squashed((6, 5, 4), "tanh", "softmax", 6)

    def top(x):
        p = answer(x)
        return np.where(p >= np.sort(p, axis=1)[:, -2:-1], p, 0.0)

    found = unweave.identify(top, input_size=6)
    assert not found.identified
    assert "all outputs" in found.reason


def test_a_runtime_whose_small_answers_are_as_coarse_as_the_large_ones(tmp_path):
    """onnxruntime computes a sigmoid in single precision with an absolute error of 1e-7, not a relative one."""
    plain = random_network((5, 8, 1), "relu", 3)
    weights = [plain.weights[0], 2.5 * plain.weights[1]]
    truth = Network(weights, [plain.biases[0], plain.biases[1] - 4], ("relu", "sigmoid"))
    path = tmp_path / "coarse.onnx"
    export(truth, path, dtype="float32")
    box = unweave.Box(-3.0, 3.0)
    found = unweave.identify(path, domain=box, seed=1, surrogate=False, budget=20_000)
    assert found.identified, found.reason
    assert found.network is not None
    assert found.network.activations[-1] == "sigmoid"
    x = box.sample(2000, 5, np.random.default_rng(0))
    assert np.mean(truth(x) < 1e-3) > 0.2
    assert np.max(np.abs(found.network(x) - truth(x))) < 1e-5


@pytest.mark.parametrize("seed", [1, 2])
def test_float32_probabilities_that_nearly_saturate_in_a_box(seed):
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((32, 10)), 4 * rng.standard_normal((1, 32)) / np.sqrt(32)]
    biases = [rng.standard_normal(32), rng.standard_normal(1)]
    weights, biases = ([p.astype(np.float32) for p in part] for part in (weights, biases))

    def answer(x):
        z = np.maximum(x.astype(np.float32) @ weights[0].T + biases[0], 0) @ weights[1].T + biases[1]
        return 1 / (1 + np.exp(-z))

    box = unweave.Box(-2.0, 2.0)
    found = unweave.identify(answer, input_size=10, domain=box, seed=seed, time_limit=60)
    assert found.identified
    x = box.sample(2000, 10, rng)
    assert np.max(np.abs(found(x) - answer(x))) < 1e-5
    assert found.ledger.total < 40 * 385


def hidden_by(head, seed, sizes=(6, 24, 2)):
    """A float32 network of He's weights and small biases behind a head."""
    rng = np.random.default_rng([seed, *sizes])
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairwise(sizes)]
    weights, biases = ([p.astype(np.float32).astype(float) for p in part] for part in (weights, biases))
    truth = Network(weights, biases, (*["relu"] * (len(sizes) - 2), head))

    def answer(x, kind=np.float32):
        h = x.astype(kind)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            h = np.maximum(h @ weight.T.astype(kind) + bias.astype(kind), 0)
        return apply_output(head, h @ weights[-1].T.astype(kind) + biases[-1].astype(kind)).astype(float)

    return truth, answer


def test_answers_that_overflow_far_out_do_not_make_all_others_small():
    truth, answer = hidden_by("exp", 5100, (10, 16, 3))
    with np.errstate(over="ignore"):
        found = unweave.identify(answer, input_size=10, seed=5100, time_limit=20)
    assert found.identified, found.reason
    assert unweave.compare(truth, found).max_relative_error < 1e-4


def test_a_sigmoid_that_comes_to_both_its_ends_is_no_clamp():
    truth, answer = hidden_by("sigmoid", 5100)
    found = unweave.identify(answer, input_size=6, seed=5100, time_limit=20)
    assert found.identified, found.reason
    assert unweave.compare(truth, found).max_relative_error < 1e-4


@pytest.mark.parametrize(("kind", "seed"), [(np.float32, 5000), (np.float64, 5005)])
def test_clamped_answers_cost_as_many_questions_as_others(kind, seed):
    truth, answer = hidden_by("clamp(-1.0, 2.0)", seed)
    found = unweave.identify(lambda x: answer(x, kind), input_size=6, seed=seed, time_limit=20)
    assert found.identified, found.reason
    assert unweave.compare(truth, found).max_relative_error < 1e-4
    assert found.ledger.total < 30 * 218


@pytest.mark.parametrize("head", ["sigmoid", "clamp(-1.0, 2.0)"])
def test_two_layers_in_float32_behind_a_squashing(head):
    truth, answer = hidden_by(head, 5100, (6, 8, 8, 3))
    found = unweave.identify(answer, input_size=6, seed=5100, time_limit=30)
    assert found.identified, found.reason
    assert unweave.compare(truth, found).max_relative_error < 1e-4


def test_two_layers_of_exact_answers_cost_no_more_behind_a_sigmoid():
    truth, answer = hidden_by("sigmoid", 5101, (10, 16, 16, 3))
    found = unweave.identify(lambda x: answer(x, np.float64), input_size=10, seed=5101, time_limit=30)
    assert found.identified, found.reason
    assert unweave.compare(truth, found).max_relative_error < 1e-6
    assert found.ledger.total < 30 * truth.num_parameters
