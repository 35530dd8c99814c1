"""Comparison up to symmetry: zero for equal functions, the right size for planted differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unweave
from symmetries import random_symmetry
from truth import random_network
from unweave.comparison import compare
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.core.visibility import spread_points

HIDDEN = [name for name in act.names() if name != "identity"]
sizes = st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(shape=sizes, name=st.sampled_from(HIDDEN), seed=st.integers(0, 10_000))
def test_equal_functions_compare_equal(shape, name, seed):
    network = random_network(shape, name, seed=seed)
    other = random_symmetry(network, np.random.default_rng(seed))
    x = np.random.default_rng(seed).standard_normal((10, shape[0]))
    found = compare(network, other, points=x if name not in ("exp", "quadratic") else None)
    assert found.max_relative_error < 1e-11
    assert len(found.per_layer) == len(shape) - 1
    assert all(layer.num_unmatched == 0 for layer in found.per_layer)
    if found.functional_error is not None and shape[-1] > 0 and name != "step":
        assert found.functional_error < 1e-8


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shape=sizes, seed=st.integers(0, 10_000))
def test_sigmoid_compares_with_tanh(shape, seed):
    network = random_network(shape, "tanh", seed=seed)
    assert (
        compare(
            random_symmetry(network.as_sigmoid(), np.random.default_rng(seed)), network
        ).max_relative_error
        < 1e-11
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(["tanh", "relu", "gelu", "erf", "softplus"]),
    size=st.sampled_from([1e-9, 1e-6, 1e-3]),
    layer=st.integers(0, 2),
)
def test_a_planted_difference_is_found_with_its_size_in_its_layer(seed, name, size, layer):
    rng = np.random.default_rng(seed)
    network = random_network((4, 6, 5, 2), name, seed=seed).normalised()
    weights = [w.copy() for w in network.weights]
    row = int(rng.integers(len(weights[layer])))
    scale = max(np.max(np.abs(weights[layer][row])), abs(network.biases[layer][row]))
    weights[layer][row, 0] += size * scale
    changed = random_symmetry(Network(weights, network.biases, network.activations), rng)
    found = compare(network, changed)
    # Homogeneous rows are brought back to length one, which shares the change among the row's numbers.
    low = 0.05 if name == "relu" and layer < 2 else 0.999
    assert low * size < found.max_relative_error < 3 * size
    worst = int(np.argmax([part.max_relative_error for part in found.per_layer]))
    assert worst == layer or name == "relu"


def test_unrelated_networks_are_far_apart():
    found = compare(random_network((4, 6, 1), seed=1), random_network((4, 6, 1), seed=2))
    assert found.max_relative_error > 0.1


@pytest.mark.parametrize(
    "other",
    [
        random_network((4, 7, 2)),
        random_network((4, 5, 2)),
        random_network((4, 6, 6, 2)),
        random_network((4, 6, 3)),
        random_network((3, 6, 2)),
        random_network((4, 6, 2), "relu"),
        random_network((4, 2)),
        random_network((3, 2)),
    ],
    ids=lambda network: network.describe(),
)
def test_other_architectures_are_infinitely_far(other):
    network = random_network((4, 6, 2))
    assert compare(network, other).max_relative_error == np.inf
    assert compare(other, network).max_relative_error == np.inf
    assert not compare(network, other).same_architecture


def test_surplus_units_are_counted():
    network = random_network((4, 6, 1), "tanh", seed=3)
    (w0, w1), (b0, b1) = network.weights, network.biases
    smaller = Network([w0[:4], w1[:, :4]], [b0[:4], b1], network.activations)
    layer = compare(network, smaller).per_layer[0]
    assert (layer.num_matched, layer.num_unmatched) == (4, 2)
    assert layer.max_relative_error < 1e-14


def test_functional_error_is_relative_to_the_spread():
    network = random_network((3, 5, 1), seed=4)
    shifted = Network(network.weights, [network.biases[0], network.biases[1] + 0.01], network.activations)
    x = np.random.default_rng(0).standard_normal((200, 3))
    found = compare(network, shifted, points=x)
    assert found.functional_error == pytest.approx(0.01 / np.std(network(x)), rel=1e-9)


def test_what_does_not_show_counts_against_the_strict_score_only():
    network = random_network((6, 5, 4, 1), "relu", seed=3)
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    weights[1][0], biases[1][0] = -np.abs(weights[1][0]), -1.0  # never on
    hidden = Network(weights, biases, network.activations)
    weights = [w.copy() for w in weights]
    weights[1][0] *= 1.5
    points = spread_points(2000, 6, seed=4)
    found = compare(hidden, Network(weights, biases, network.activations), points=points)
    assert found.max_relative_error > 0.01
    assert found.visible_error is not None
    assert found.visible_error < 1e-12
    assert found.wrong_share == 0.0
    weights[1][1] *= 1.5
    found = compare(hidden, Network(weights, biases, network.activations), points=points)
    assert found.visible_error is not None
    assert found.visible_error > 0.01
    assert found.wrong_share is not None
    assert found.wrong_share > 0.01


@pytest.mark.parametrize(
    ("name", "other", "error"),
    [
        ("leaky_relu(0.1)", "leaky_relu(0.1000001)", 1e-7),
        ("elu(0.8)", "elu(0.8001)", 1e-4),
        ("leaky_relu(0.1)", "leaky_relu(0.2)", np.inf),
        ("leaky_relu(0.1)", "relu", np.inf),
    ],
)
def test_the_parameter_of_an_activation_is_compared_as_a_weight_is(name, other, error):
    network = random_network((4, 6, 2), name, 1)
    renamed = Network(network.weights, network.biases, [other, "identity"])
    assert compare(network, renamed).max_relative_error == pytest.approx(error, rel=1e-3)


def test_bounds_of_outputs_are_compared_as_weights_are():
    network = random_network((4, 6, 2), "tanh", 1)
    one, two = (
        Network(network.weights, network.biases, ["tanh", f"clamp({b}, inf)"]) for b in (0.2, 0.2000001)
    )
    assert compare(one, two).max_relative_error == pytest.approx(1e-7, rel=1e-3)


def test_a_final_sigmoid_is_an_output_and_no_hidden_layer():
    network = random_network((4, 5, 1), "tanh", 1)
    squashed = Network(network.weights, network.biases, ["tanh", "sigmoid"])
    found = unweave.identify(squashed).network
    assert found is not None
    assert found.hidden == (5,)
    assert "sigmoid outputs" in found.describe()
    assert compare(squashed, found).max_relative_error < 1e-9


def test_a_comparison_prints_the_commands_table():
    network = random_network((3, 4, 2))
    shown = str(unweave.compare(network, network, points=np.zeros((5, 3))))
    assert shown.startswith("a: 3-4-2 tanh\nb: 3-4-2 tanh\nlayer  matched")
    assert "on 5 points" in shown
    assert shown.endswith("worst relative parameter error 0.0e+00")
