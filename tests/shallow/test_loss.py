"""The loss and its derivatives against differences, alone and as a stack."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.shallow.loss import ShallowLoss, check_samples, shallow_loss


def _problem(name: str, trained: bool, stack: tuple[int, ...] = ()):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((*stack, 7, 4)), rng.standard_normal((*stack, 7))
    output = rng.standard_normal((*stack, 5))
    loss = ShallowLoss(x, y, act.get(name), 5, None if trained else output)
    return loss, loss.join(rng.standard_normal((*stack, 5, 4)), output), rng


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("name", ["softplus(3)", "quadratic", "tanh"])
def test_derivatives_agree_with_differences(name, trained):
    loss, theta, rng = _problem(name, trained, (2,))
    here, u = loss.at(theta), rng.standard_normal(theta.shape)
    h = 1e-5
    slope = (loss.value(theta + h * u) - loss.value(theta - h * u)) / (2 * h)
    assert np.allclose(np.sum(here.gradient * u, axis=-1), slope, rtol=1e-6, atol=1e-8)
    curved = (loss.at(theta + h * u).gradient - loss.at(theta - h * u).gradient) / (2 * h)
    assert np.allclose(here.hessian_product(u), curved, rtol=1e-5, atol=1e-6)
    assert np.allclose((here.hessian() @ u[..., None])[..., 0], here.hessian_product(u))


@pytest.mark.parametrize("trained", [True, False])
def test_products_and_gram_are_those_of_the_jacobian(trained):
    loss, theta, rng = _problem("softplus(3)", trained)
    here = loss.at(theta)
    jacobian = here.jacobian()
    u, a = rng.standard_normal(len(theta)), rng.standard_normal(7)
    assert np.allclose(here.push(u), jacobian @ u)
    assert np.allclose(here.pull(a), jacobian.T @ a)
    assert np.allclose(here.gram(), jacobian @ jacobian.T)


def test_biases_are_weights_of_a_constant_input():
    rng = np.random.default_rng(0)
    network = Network(
        [rng.standard_normal((3, 2)), rng.standard_normal((1, 3))],
        [rng.standard_normal(3), [0.7]],
        ["tanh", "identity"],
    )
    x, y = rng.standard_normal((9, 2)), rng.standard_normal(9)
    loss, theta = shallow_loss(network, x, y, train_output=True)
    assert np.allclose(loss.residual(theta), network(x)[:, 0] - y)


@pytest.mark.parametrize(
    ("x", "y", "named"),
    [
        (np.ones((3, 2)), np.ones(4), "one label a sample"),
        (np.ones(3), np.ones(3), "one row a sample"),
        (np.full((3, 2), np.nan), np.ones(3), "6 values"),
        (np.ones((3, 2)), np.array([1.0, np.inf, 0.0]), "1 values"),
        (np.array([["a", "b"]]), np.ones(1), "arrays of numbers"),
    ],
)
def test_bad_samples_are_refused_in_one_line(x, y, named):
    with pytest.raises(InputError, match=named) as caught:
        check_samples(x, y)
    assert "\n" not in str(caught.value)
