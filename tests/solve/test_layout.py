"""Layouts: the written-out Jacobian against differences, in every form, on NumPy and JAX."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.solve.layout import Layout, without_affine
from unweave.students.forms import even_part


def _differences(layout: Layout, theta: np.ndarray, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    columns = [
        (layout.forward(theta + step * e, x) - layout.forward(theta - step * e, x)).ravel() / (2 * step)
        for e in np.eye(len(theta))
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("sizes", [(4, 5, 1), (4, 5, 3, 2), (3, 4, 4, 3, 2)])
@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("unit", [act.get("tanh"), act.get("gelu"), even_part(act.get("softplus"))])
def test_the_jacobian_is_that_of_the_function(sizes, skips, unit):
    rng = np.random.default_rng(0)
    layout = Layout.uniform(sizes, unit, skips)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((6, sizes[0]))
    outputs, jacobian = layout.linearise(theta, x)
    np.testing.assert_allclose(outputs, layout.forward(theta, x), rtol=1e-13)
    np.testing.assert_allclose(jacobian, _differences(layout, theta, x), atol=1e-7)


@pytest.mark.parametrize("skips", [False, True])
def test_the_columns_of_every_unit_are_products(skips):
    rng = np.random.default_rng(3)
    layout = Layout.uniform((3, 5, 4, 2), act.get("tanh"), skips)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((7, 3))
    jacobian = layout.linearise(theta, x)[1]
    seen = []
    for own, features, delta in layout.units(theta, x):
        product = (delta[:, :, None] * features[:, None, :]).reshape(14, -1)
        np.testing.assert_allclose(product, jacobian[:, own], atol=1e-12)
        seen += list(own)
    assert sorted(seen) == list(range(layout.num_parameters))


def test_bent_outputs_are_those_without_their_affine_part():
    rng = np.random.default_rng(5)
    layout = Layout.uniform((3, 4, 2), act.get("tanh"))
    bent = replace(layout, bent=True)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((40, 3))
    outputs, jacobian = bent.linearise(theta, x)
    design = np.hstack([x, np.ones((40, 1))])
    np.testing.assert_allclose(design.T @ outputs, 0, atol=1e-12)
    np.testing.assert_allclose(outputs, without_affine(x, layout.forward(theta, x)), atol=1e-13)
    np.testing.assert_allclose(jacobian, _differences(bent, theta, x), atol=1e-7)
    assert bent.without([np.array([True, True, False, True])])[0].bent
    assert bent.padded()[0].bent


def test_the_same_numbers_come_from_jax():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    layout = Layout.uniform((4, 5, 3, 2), act.get("tanh"), skips=True)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((6, 4))
    with jax.enable_x64(True):
        outputs, jacobian = layout.linearise(jnp.array(theta), jnp.array(x), jnp)
        np.testing.assert_allclose(outputs, layout.forward(theta, x), rtol=1e-12)
        np.testing.assert_allclose(jacobian, layout.linearise(theta, x)[1], atol=1e-12)


def test_the_plain_layout_is_that_of_network_flat():
    network = random_network((4, 6, 3, 2), "tanh", 2)
    layout = Layout.of(network)
    x = np.random.default_rng(3).standard_normal((5, 4))
    np.testing.assert_allclose(layout.forward(network.flat(), x), network(x), rtol=1e-14)
    np.testing.assert_array_equal(layout.network(network.flat()).flat(), network.flat())


@pytest.mark.parametrize("skips", [False, True])
def test_units_without_outgoing_weights_can_be_left_out(skips):
    rng = np.random.default_rng(4)
    layout = Layout.uniform((3, 4, 5, 2), act.get("tanh"), skips)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((6, 3))
    theta[layout.outgoing(0, 1)] = 0.0
    theta[layout.outgoing(1, 3)] = 0.0
    kept = [np.arange(4) != 1, np.arange(5) != 3]
    narrow, indices = layout.without(kept)
    assert narrow.hidden == (3, 4)
    np.testing.assert_allclose(narrow.forward(theta[indices], x), layout.forward(theta, x), rtol=1e-12)
