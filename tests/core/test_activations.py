"""Activations: derivatives, reflections, limits, both array namespaces, Hermite coefficients."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from unweave.core import activations as act
from unweave.core.errors import InputError

NAMES = [*act.names(), "softplus(10)", "leaky_relu(0.3)", "elu(0.5)", "celu(0.5)", "squareplus(1)"]
GRID = np.concatenate([np.linspace(-6.03, 5.98, 61), [-35.0, -12.5, 11.5, 30.0]])


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_automatic_differentiation(name):
    activation = act.get(name)
    with jax.enable_x64(True):
        z = jnp.asarray(GRID)
        scalar = lambda t: activation.value(t, jnp)  # noqa: E731
        first = np.asarray(jax.vmap(jax.grad(scalar))(z))
        second = np.asarray(jax.vmap(jax.grad(jax.grad(scalar)))(z))
    assert np.allclose(activation.first(GRID, np), first, rtol=1e-9, atol=1e-12)
    assert np.allclose(activation.second(GRID, np), second, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_first_derivative_agrees_with_differences(name):
    activation = act.get(name)
    h = 1e-6
    slope = (activation(GRID + h) - activation(GRID - h)) / (2 * h)
    assert np.allclose(activation.first(GRID, np), slope, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_jax_give_the_same_numbers(name):
    activation = act.get(name)
    with jax.enable_x64(True):
        for formula in (activation.value, activation.first, activation.second):
            expected = formula(GRID, np)
            found = np.asarray(formula(jnp.asarray(GRID), jnp))
            assert found.dtype == np.float64
            assert np.allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(z=st.floats(-20, 20))
def test_the_reflection_holds(name, z):
    activation = act.get(name)
    if activation.reflection is None or z == 0:
        return
    sign, constant, linear = activation.reflection
    point = np.array([z])
    mirrored = activation(-point)
    assert mirrored == pytest.approx(
        sign * activation(point) + constant + linear * point, rel=1e-12, abs=1e-14
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_limits_are_reached(name):
    activation = act.get(name)
    reach = 1e13 if activation.algebraic else 700.0
    for far, limit in zip((-reach, reach), activation.limits, strict=True):
        value = float(activation(np.array([far]))[0])
        if math.isfinite(limit):
            assert value == pytest.approx(limit, abs=1e-12)
        else:
            assert abs(value) > 1
            assert math.copysign(1, value) == math.copysign(1, limit)


def test_facts_about_parity_degree_and_saturation():
    parity = {
        "tanh": "odd",
        "erf": "odd",
        "identity": "odd",
        "quadratic": "even",
        "relu": "none",
        "sigmoid": "none",
    }
    assert {name: act.get(name).parity for name in parity} == parity
    clipped = {"relu6", "hardtanh", "hardsigmoid"}
    saturating = {"tanh", "sigmoid", "erf", "step", "softsign", *clipped}
    assert {name for name in NAMES if act.get(name).saturates} == saturating
    flips = {"identity", "tanh", "sigmoid", "erf", "quadratic", "step", "softsign", "hardtanh", "hardsigmoid"}
    assert {name for name in NAMES if act.get(name).flips} == flips
    degrees = {name: act.get(name).degree for name in NAMES if act.get(name).degree is not None}
    assert degrees == {"relu": 1, "leaky_relu": 1, "leaky_relu(0.3)": 1, "quadratic": 2, "step": 0}


@pytest.mark.parametrize("name", [name for name in NAMES if act.get(name).rewriting is not None])
def test_rewritten_activations_are_the_same_function(name):
    activation = act.get(name)
    assert activation.rewriting is not None
    other, inner, offset, gain, shift = activation.rewriting
    assert act.get(other).rewriting is None
    assert activation(GRID) == pytest.approx(
        gain * act.get(other)(inner * GRID + offset) + shift, rel=1e-13, abs=1e-14
    )


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.3)", "quadratic", "step"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(z=st.floats(-10, 10, allow_subnormal=False), c=st.floats(0.1, 10))
def test_homogeneous_activations_scale_with_their_degree(name, z, c):
    activation = act.get(name)
    assert activation.degree is not None
    point = np.array([z])
    assert activation(c * point) == pytest.approx(
        c**activation.degree * activation(point), rel=1e-12, abs=1e-300
    )


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf"])
def test_the_inverse_inverts_and_saturation_is_complete(name):
    activation = act.get(name)
    z = np.linspace(-3, 3, 41)
    assert np.allclose(act.inverse(activation, activation(z)), z, rtol=1e-10, atol=1e-10)
    assert np.all(
        np.isinf(act.inverse(activation, np.array([activation.limits[0] - 0.1, activation.limits[1]])))
    )
    point = act.saturation_point(activation)
    assert activation(np.array([point]))[0] == activation.limits[1]
    with pytest.raises(InputError, match="no inverse"):
        act.inverse(act.get("relu"), z)


def test_names_are_parsed_and_mistakes_explained():
    assert act.get("softplus( 10 )").name == "softplus(10)"
    assert act.get("softplus(1)").name == act.get("softplus").name == "softplus"
    assert act.get("leaky_relu").name == "leaky_relu(0.01)"
    assert act.get(act.get("tanh")) is act.get("tanh")
    for wrong, message in [
        ("tahn", "known: identity"),
        ("tanh(2)", "takes no parameter"),
        ("softplus(-1)", "must be positive"),
        ("elu(1e)", "not a number"),
    ]:
        with pytest.raises(InputError, match=message):
            act.get(wrong)


def _hermite(k: int, g: np.ndarray) -> np.ndarray:
    return np.polynomial.hermite_e.HermiteE.basis(k)(g) / math.sqrt(math.factorial(k))


def test_hermite_coefficients_of_relu_step_exp_and_quadratic():
    density = 1 / math.sqrt(2 * math.pi)
    relu = [density, 0.5, density / math.sqrt(2), 0.0, -density / math.sqrt(24)]
    assert np.allclose(act.get("relu").hermite_coefficients(4), relu, atol=1e-14)
    step = [0.5, density, 0.0, -density / math.sqrt(6)]
    assert np.allclose(act.get("step").hermite_coefficients(3), step, atol=1e-14)
    exp = [math.exp(0.3 + 0.5 * 0.8**2) * 0.8**k / math.sqrt(math.factorial(k)) for k in range(8)]
    assert np.allclose(act.get("exp").hermite_coefficients(7, shift=0.3, scale=0.8), exp, rtol=1e-13)
    # (s g + t)^2 = s^2 (g^2 - 1) + 2 s t g + s^2 + t^2
    quadratic = [0.7**2 + 1.5**2, 2 * 1.5 * 0.7, math.sqrt(2) * 1.5**2, 0.0, 0.0]
    found = act.get("quadratic").hermite_coefficients(4, shift=0.7, scale=1.5)
    assert np.allclose(found, quadratic, rtol=1e-13, atol=1e-13)


def test_hermite_coefficients_of_a_shifted_relu_have_a_closed_form():
    for b in (-1.3, 0.4, 2.0):
        density = math.exp(-(b**2) / 2) / math.sqrt(2 * math.pi)
        mass = 0.5 * math.erfc(-b / math.sqrt(2))
        found = act.get("relu").hermite_coefficients(5, shift=b)
        assert found[0] == pytest.approx(density + b * mass, abs=1e-14)
        assert found[1] == pytest.approx(mass, abs=1e-14)
        for k in range(2, 6):
            expected = _hermite(k - 2, np.array(-b)) * math.sqrt(math.factorial(k - 2)) * density
            assert found[k] == pytest.approx(expected / math.sqrt(math.factorial(k)), abs=1e-13)


@pytest.mark.parametrize(
    "name", ["softplus(10)", "softplus(200)", "tanh", "erf", "gelu", "silu", "elu", "sigmoid"]
)
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.6, 1.7), (-2.0, 0.3), (0.5, 6.0)])
def test_hermite_coefficients_agree_with_adaptive_quadrature(name, shift, scale):
    activation = act.get(name)
    found = activation.hermite_coefficients(6, shift=shift, scale=scale)
    kink = -shift / scale
    for k in range(7):

        def integrand(g: float, k: int = k) -> float:
            value = activation(np.array([scale * g + shift]))[0] * _hermite(k, np.array(g))
            return float(value) * math.exp(-(g**2) / 2) / math.sqrt(2 * math.pi)

        edges = sorted({-12.0, kink - 1, kink - 0.05, kink, kink + 0.05, kink + 1, 12.0})
        expected = sum(
            quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
            for a, b in itertools.pairwise(edges)
        )
        assert found[k] == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_parseval(name):
    """The squares of all coefficients add up to E[phi(g)^2]."""
    activation = act.get(name)
    g, w = np.polynomial.hermite_e.hermegauss(150)
    energy = float(w @ activation(g) ** 2 / math.sqrt(2 * math.pi))
    total = float(np.sum(activation.hermite_coefficients(150) ** 2))
    assert total == pytest.approx(energy, rel=2e-3)
    assert total <= energy * (1 + 1e-3)
