"""Closed forms against samples; the truncated risk against differences and against the loss it truncates."""

import numpy as np
import pytest

from truth import random_network
from unweave.algebra.symmetric import frobenius
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.moments.hermite import HermiteMoments
from unweave.moments.population import ReluUnits, population_tensors, relu_coefficients
from unweave.moments.risk import HermiteRisk, decode, encode


@pytest.fixture(scope="module")
def units():
    return ReluUnits.of(random_network((4, 3, 1), "relu", seed=2))


def test_units_are_the_network(units):
    network = random_network((4, 3, 1), "relu", seed=2)
    x = np.random.default_rng(0).standard_normal((50, 4))
    np.testing.assert_allclose(units(x), network(x)[:, 0], atol=1e-12)
    np.testing.assert_allclose(units.network()(x), network(x), atol=1e-12)
    with pytest.raises(InputError, match="one hidden layer of relus"):
        ReluUnits.of(random_network((4, 3, 1), "tanh"))


def test_a_row_of_zeros_is_a_constant():
    weights = [np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[2.0, 1.0]])]
    network = Network(weights, [np.ones(2), None], ["relu", "identity"])
    units = ReluUnits.of(network)
    assert len(units) == 1
    x = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_allclose(units(x), network(x)[:, 0])


def test_population_tensors_are_what_samples_tend_to(units):
    x = np.random.default_rng(1).standard_normal((200_000, 4))
    moments = HermiteMoments(4, 5).update(x, units(x))
    for k, tensor in enumerate(population_tensors(units, 5)):
        away = frobenius(moments.packed(k) - tensor, 4, k)
        assert away < 4 * float(moments.expected_error(k)[0])


def test_each_coefficient_is_the_derivative_of_the_one_before():
    b, h = np.linspace(-2, 2, 9), 1e-5
    slopes = (relu_coefficients(b + h, 5) - relu_coefficients(b - h, 5)) / (2 * h)
    np.testing.assert_allclose(slopes, relu_coefficients(b, 6)[1:], atol=1e-8)


def test_the_jacobian_of_the_risk_is_its_derivative(units):
    risk = HermiteRisk(population_tensors(units, 5), 4, (0, 1, 2, 3, 4, 5))
    rng = np.random.default_rng(3)
    theta = encode(units) + 0.3 * rng.standard_normal(len(encode(units)))
    residual, jacobian = risk.linearise(theta)
    np.testing.assert_allclose(residual, risk.residual(theta))
    h = 1e-6
    for i, e in enumerate(np.eye(len(theta))):
        slope = (risk.residual(theta + h * e) - risk.residual(theta - h * e)) / (2 * h)
        np.testing.assert_allclose(jacobian[:, i], slope, atol=1e-7)
    there = decode(theta, 4)
    np.testing.assert_allclose(risk.gradient(there) @ encode(there), _slope(risk, there), atol=1e-5)


def _slope(risk, units):
    h = 1e-6
    values = [risk.value(decode((1 + s) * encode(units), 4)) for s in (h, -h)]
    return (values[0] - values[1]) / (2 * h)


def test_the_risk_of_many_orders_is_nearly_the_squared_loss(units):
    other = ReluUnits(units.directions, units.biases, np.array([0.8, 1.1, 0.5]) * units.weights, units.offset)
    orders = tuple(range(9))
    risk = HermiteRisk(
        population_tensors(ReluUnits(units.directions, units.biases, units.weights), 8), 4, orders
    )
    x = np.random.default_rng(5).standard_normal((400_000, 4))
    loss = np.mean((other(x) - units(x)) ** 2)
    # the tail beyond order 8 is left out
    assert 0.95 * loss < risk.value(other) < 1.02 * loss


def test_the_minimum_of_the_risk_is_the_network(units):
    risk = HermiteRisk(population_tensors(units, 4), 4)
    rng = np.random.default_rng(4)
    start = decode(encode(units) + 0.1 * rng.standard_normal(len(encode(units))), 4)
    found, end = risk.minimise(start)
    assert end.converged
    np.testing.assert_allclose(encode(found), encode(units), atol=1e-10)
