"""What is no dense network is refused in a few questions, with the reason; what is one is not."""

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.network import Network

BOX = unweave.Box(-2, 2)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def tree():
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(random_state=0).fit(X, Y)


def forest():
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(20, random_state=0).fit(X, Y)


def boosted():
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(random_state=0).fit(X, Y)


@pytest.mark.parametrize("make", [tree, forest, boosted])
@pytest.mark.parametrize("domain", [None, BOX])
def test_trees_are_trees(make, domain):
    found = unweave.identify(make(), domain=domain)
    assert found.network is None
    assert "a decision tree" in found.reason
    assert found.ledger.total < 1000


@pytest.mark.parametrize(("domain", "reason"), [(None, "power 3"), (BOX, "polynomial of degree 3")])
def test_polynomials(domain, reason):
    def cubic(x):
        return x[:, :1] ** 3 + x[:, 1:2] * x[:, 2:3] + x[:, 3:]

    found = unweave.identify(cubic, input_size=4, domain=domain)
    assert reason in found.reason
    assert found.ledger.total < 400


def test_a_gaussian_process():
    from sklearn.gaussian_process import GaussianProcessRegressor

    model = GaussianProcessRegressor(alpha=1e-3, random_state=0).fit(X, Y)
    assert "a sum of bumps" in unweave.identify(model).reason


def test_a_normalisation():
    first, last = RNG.normal(size=(4, 7)), RNG.normal(size=(7, 2))

    def normalised(x):
        z = x @ first + 0.1
        z = (z - z.mean(axis=1, keepdims=True)) / np.sqrt(z.var(axis=1, keepdims=True) + 1e-5)
        return np.maximum(z, 0) @ last

    found = unweave.identify(normalised, input_size=4)
    assert "LayerNorm" in found.reason
    assert found.ledger.total < 200


@pytest.mark.parametrize("activation", ["tanh", "softsign"])
def test_units_that_level_off_are_no_normalisation(activation):
    found = unweave.identify(random_network((4, 5, 2), activation, 1))
    assert found.identified


def test_sine_units():
    first, last = RNG.normal(size=(4, 7)), RNG.normal(size=(7, 2))
    found = unweave.identify(lambda x: np.sin(x @ first) @ last, input_size=4)
    assert "periodic units" in found.reason
    assert found.ledger.total < 200


def classes(x):
    return np.argmax(np.column_stack([x[:, 0], x[:, 1], 0.3 * x[:, 2] + 0.1]), axis=1)


@pytest.mark.parametrize("domain", [None, BOX])
def test_labels_of_several_classes(domain):
    found = unweave.identify(classes, input_size=4, domain=domain)
    assert "labels (0, 1, 2)" in found.reason
    assert "predict_proba" in found.reason


def test_labels_that_are_words():
    words = np.array(["cat", "dog", "eel"])
    found = unweave.identify(lambda x: words[classes(x)], input_size=4)
    assert "labels" in found.reason
    assert "dog" in found.verdict()


def test_two_words_are_a_decision():
    found = unweave.identify(lambda x: np.where(x @ [1.0, 2.0, -1.0] > 0.5, "spam", "mail"), input_size=3)
    assert found.method == "halfspaces"


@pytest.mark.parametrize("steepness", [1.0, 1e3, 1e5])
def test_steep_networks_are_no_trees(steepness):
    network = random_network((4, 6, 1), seed=3)
    first = [steepness * network.weights[0], network.weights[1]]
    steep = Network(first, [steepness * network.biases[0], network.biases[1]], network.activations)
    found = unweave.identify(steep, activation="tanh", time_limit=2)
    assert "do not change at all" not in found.reason


@pytest.mark.parametrize("activation", ["tanh", "gelu", "softplus"])
def test_networks_in_a_box_are_no_polynomials(activation):
    network = random_network((3, 4, 1), activation=activation, seed=1)
    found = unweave.identify(network, domain=unweave.Box(-0.3, 0.3), activation=activation, time_limit=2)
    assert "polynomial" not in found.reason


def test_a_linear_model_in_float32_is_linear():
    weights = RNG.normal(size=(4, 2)).astype(np.float32)
    found = unweave.identify(lambda x: x.astype(np.float32) @ weights, input_size=4)
    assert found.identified
    assert found.network.hidden == ()
    np.testing.assert_allclose(found.network.weights[0], weights.T, rtol=1e-5, atol=1e-6)


def test_saturated_units_in_float32_are_no_tree():
    """Where every unit is far out, float32 answers rest on steps of their own rounding."""
    rng = np.random.default_rng(5)
    w, a = rng.standard_normal((4, 5)).astype(np.float32), rng.standard_normal((4, 2)).astype(np.float32)
    centre = np.array([5.7, 9.0, -5.7, 11.6, 10.6])
    found = unweave.identify(
        lambda x: np.tanh(0.25 * x.astype(np.float32) @ w.T) @ a,
        input_size=5,
        domain=unweave.Box(centre, centre + 3),
        time_limit=2.0,
    )
    assert "jump" not in found.reason


@pytest.mark.parametrize("activation", [np.tanh, lambda z: np.maximum(z, 0)])
def test_a_very_large_ball_is_no_field_of_bumps(activation):
    found = unweave.identify(
        lambda x: activation(x @ np.array([[1.0], [-0.5], [2.0]]) / 1e90 + 0.1),
        input_size=3,
        domain=unweave.Ball(1e90),
        time_limit=2.0,
    )
    assert "bumps" not in found.reason
