"""Networks: evaluation, layout, and the symmetries that change nothing but the parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symmetries import random_symmetry
from truth import random_network
from unweave.core import activations as act
from unweave.core.errors import InputError
from unweave.core.network import Network

HIDDEN = [name for name in act.names() if name != "identity"]
sizes = st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple)


def _mild(shape: tuple[int, ...], name: str, seed: int) -> Network:
    """A network of any activation; exp and quadratic layers kept small so that depth does not overflow."""
    norms = (0.2, 0.5) if name in ("exp", "quadratic") else (0.7, 1.6)
    return random_network(shape, name, seed=seed, norms=norms)


def test_a_network_is_what_its_formula_says():
    network = random_network((3, 5, 4, 2), "tanh", seed=1)
    x = np.random.default_rng(0).standard_normal((7, 3))
    (a, b, c), (p, q, r) = network.weights, network.biases
    expected = np.tanh(np.tanh(x @ a.T + p) @ b.T + q) @ c.T + r
    assert np.allclose(network(x), expected, rtol=1e-14)
    assert network.describe() == "3-5-4-2 tanh"
    assert network.hidden == (5, 4)
    assert network.num_parameters == 5 * 4 + 4 * 6 + 2 * 5 == len(network.flat())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(shape=sizes, name=st.sampled_from(HIDDEN), seed=st.integers(0, 10_000))
def test_a_random_symmetry_changes_nothing_but_the_parameters(shape, name, seed):
    rng = np.random.default_rng(seed)
    network = _mild(shape, name, seed)
    other = random_symmetry(network, rng)
    x = rng.standard_normal((20, shape[0]))
    values = network(x)
    assert np.allclose(other(x), values, rtol=1e-9, atol=1e-10 * (1 + np.max(np.abs(values))))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(shape=sizes, name=st.sampled_from(HIDDEN), seed=st.integers(0, 10_000))
def test_canonical_forms_of_one_function_agree(shape, name, seed):
    network = _mild(shape, name, seed)
    one, other = network.canonical(), random_symmetry(network, np.random.default_rng(seed)).canonical()
    assert one.activations == other.activations
    assert np.allclose(one.flat(), other.flat(), rtol=1e-8, atol=1e-9)
    x = np.random.default_rng(seed).standard_normal((20, shape[0]))
    assert np.allclose(one(x), network(x), rtol=1e-8, atol=1e-9 * (1 + np.max(np.abs(network(x)))))
    assert np.allclose(one.canonical().flat(), one.flat(), rtol=1e-12, atol=1e-14)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shape=sizes, seed=st.integers(0, 10_000))
def test_sigmoid_and_tanh_are_one_class(shape, seed):
    network = random_network(shape, "tanh", seed=seed)
    other = network.as_sigmoid()
    x = np.random.default_rng(seed).standard_normal((20, shape[0]))
    assert np.allclose(other(x), network(x), rtol=1e-10, atol=1e-10)
    assert np.allclose(other.canonical().flat(), network.canonical().flat(), rtol=1e-9, atol=1e-10)


def test_sharp_and_plain_softplus_are_one_class():
    plain = random_network((3, 4, 2), "softplus", seed=1)
    (a, b), (p, q) = plain.weights, plain.biases
    sharp = Network([a / 10, 10 * b], [p / 10, q], ["softplus(10)", "identity"])
    x = np.random.default_rng(0).standard_normal((20, 3))
    assert np.allclose(sharp(x), plain(x), rtol=1e-12)
    assert np.allclose(sharp.canonical().flat(), plain.canonical().flat(), rtol=1e-13)


@pytest.mark.parametrize("name", ["relu", "softplus", "gelu", "silu", "leaky_relu(0.2)"])
def test_units_with_a_linear_remainder_flip_only_where_it_cancels(name):
    rng = np.random.default_rng(3)
    row = rng.standard_normal(3)
    rows = np.stack([row, 2 * row, rng.standard_normal(3)])
    # The linear parts of units 0 and 1 cancel: 2 * row - 1 * (2 row) = 0.
    network = Network(
        [rows, np.array([[2.0, -1.0, 0.7]])], [rng.standard_normal(3), [0.1]], [name, "identity"]
    )
    x = rng.standard_normal((50, 3))
    flipped = network.flipped(0, [True, True, False])
    assert not np.allclose(flipped.weights[0], network.weights[0])
    assert np.allclose(flipped(x), network(x), rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match="linear term"):
        network.flipped(0, [True, False, False])


def test_activations_without_reflection_do_not_flip_and_others_do_not_rescale():
    network = random_network((2, 3, 1), "elu")
    with pytest.raises(InputError, match="no reflection"):
        network.flipped(0, [True, False, False])
    with pytest.raises(InputError, match="cannot be rescaled"):
        random_network((2, 3, 1), "tanh").rescaled(0, np.ones(3))
    with pytest.raises(InputError, match="cannot be rescaled"):
        random_network((2, 3, 1), "relu").rescaled(0, np.array([1.0, -1.0, 2.0]))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shape=sizes, seed=st.integers(0, 1000))
def test_flat_parameters_go_there_and_back(shape, seed):
    network = random_network(shape, seed=seed)
    again = network.with_flat(network.flat())
    assert all(np.array_equal(a, b) for a, b in zip(network.weights, again.weights, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(network.biases, again.biases, strict=True))
    with pytest.raises(InputError, match="expected"):
        network.with_flat(np.append(network.flat(), 1.0))


def test_networks_cannot_be_changed_by_accident():
    given_weights = np.eye(2)
    network = Network([given_weights], [None], ["identity"])
    given_weights[0, 0] = 5
    assert network.weights[0][0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        network.weights[0][0, 0] = 2
    with pytest.raises(AttributeError):
        network.weights = ()  # pyright: ignore


def test_mistakes_are_explained():
    for weights, biases, names, message in [
        ([np.eye(2)], [[0, 0]], [], "as many weights"),
        ([], [], [], "at least one"),
        ([np.eye(2)], [[0, 0, 0]], ["identity"], "layer 0"),
        ([np.eye(2), np.eye(3)], [None, None], ["tanh", "identity"], "layer 1 takes 3 inputs"),
        ([np.eye(2)], [None], ["swishy"], "unknown activation"),
    ]:
        with pytest.raises(InputError, match=message):
            Network(weights, biases, names)
    with pytest.raises(InputError, match=r"\(n, 2\)"):
        Network([np.eye(2)], [None], ["identity"])(np.zeros((4, 3)))
