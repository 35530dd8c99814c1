"""Every activation once, as formulas in the array namespace ``xp`` (``numpy`` or ``jax.numpy``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from unweave.core import activation_families as families
from unweave.core.activation import Activation, Reflection, Rewriting
from unweave.core.activation_special import sigmoid, sigmoid_first, special

_SQRT_2_PI = math.sqrt(2 / math.pi)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _sigmoid_second(z, xp):
    s = sigmoid(z, xp)
    return s * (1 - s) * (1 - 2 * s)


def _tanh_first(z, xp):
    return 1 - xp.tanh(z) ** 2


def _tanh_second(z, xp):
    t = xp.tanh(z)
    return -2 * t * (1 - t**2)


def _erf_first(z, xp):
    return 2 / math.sqrt(math.pi) * xp.exp(-(z**2))


def _normal_cdf(z, xp):
    return 0.5 * special("erfc", xp)(-z / math.sqrt(2))


def _normal_density(z, xp):
    return _INV_SQRT_2PI * xp.exp(-(z**2) / 2)


def _gelu_tanh_inner(z, xp):
    return xp.tanh(_SQRT_2_PI * (z + 0.044715 * z**3))


def _gelu_tanh_first(z, xp):
    t = _gelu_tanh_inner(z, xp)
    slope = _SQRT_2_PI * (1 + 3 * 0.044715 * z**2)
    return 0.5 * (1 + t) + 0.5 * z * (1 - t**2) * slope


def _gelu_tanh_second(z, xp):
    t = _gelu_tanh_inner(z, xp)
    slope = _SQRT_2_PI * (1 + 3 * 0.044715 * z**2)
    bend = _SQRT_2_PI * 6 * 0.044715 * z
    return (1 - t**2) * (slope + 0.5 * z * bend - z * t * slope**2)


def _mish_parts(z, xp):
    """``n`` with ``tanh(softplus(z)) = n / (n + 2)``; beyond 20 it is 1 to rounding."""
    e = xp.exp(xp.minimum(z, 20.0))
    return e * (e + 2)


def _mish(z, xp):
    n = _mish_parts(z, xp)
    return z * (n / (n + 2))


def _mish_first(z, xp):
    n = _mish_parts(z, xp)
    return n / (n + 2) + z * 4 * (n + 1) / (n + 2) ** 2 * sigmoid(z, xp)


def _mish_second(z, xp):
    n, s = _mish_parts(z, xp), sigmoid(z, xp)
    return 4 * (n + 1) / (n + 2) ** 2 * s * (2 + z * (1 - s - 2 * n / (n + 2) * s))


PLAIN: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation(
            "identity",
            lambda z, xp: z,
            lambda z, xp: xp.ones_like(z),
            lambda z, xp: xp.zeros_like(z),
            Reflection(-1.0, 0.0, 0.0),
        ),
        Activation(
            "relu",
            lambda z, xp: xp.maximum(z, 0.0),
            lambda z, xp: xp.where(z > 0, 1.0, 0.0),
            lambda z, xp: xp.zeros_like(z),
            Reflection(1.0, 0.0, -1.0),
            (0.0, math.inf),
            breakpoints=(0.0,),
            smooth=False,
        ),
        Activation(
            "tanh",
            lambda z, xp: xp.tanh(z),
            _tanh_first,
            _tanh_second,
            Reflection(-1.0, 0.0, 0.0),
            (-1.0, 1.0),
            breakpoints=(0.0,),
        ),
        Activation(
            "sigmoid",
            sigmoid,
            sigmoid_first,
            _sigmoid_second,
            Reflection(-1.0, 1.0, 0.0),
            (0.0, 1.0),
            breakpoints=(0.0,),
            scale=2.0,
            rewriting=Rewriting("tanh", 0.5, 0.0, 0.5, 0.5),
        ),
        Activation(
            "erf",
            lambda z, xp: special("erf", xp)(z),
            _erf_first,
            lambda z, xp: -2 * z * _erf_first(z, xp),
            Reflection(-1.0, 0.0, 0.0),
            (-1.0, 1.0),
            breakpoints=(0.0,),
        ),
        Activation(
            "gelu",
            lambda z, xp: z * _normal_cdf(z, xp),
            lambda z, xp: _normal_cdf(z, xp) + z * _normal_density(z, xp),
            lambda z, xp: (2 - z**2) * _normal_density(z, xp),
            Reflection(1.0, 0.0, -1.0),
            (0.0, math.inf),
            breakpoints=(0.0,),
        ),
        Activation(
            "gelu_tanh",
            lambda z, xp: 0.5 * z * (1 + _gelu_tanh_inner(z, xp)),
            _gelu_tanh_first,
            _gelu_tanh_second,
            Reflection(1.0, 0.0, -1.0),
            (0.0, math.inf),
            breakpoints=(0.0,),
        ),
        Activation(
            "silu",
            lambda z, xp: z * sigmoid(z, xp),
            lambda z, xp: sigmoid(z, xp) + z * sigmoid_first(z, xp),
            lambda z, xp: 2 * sigmoid_first(z, xp) + z * _sigmoid_second(z, xp),
            Reflection(1.0, 0.0, -1.0),
            (0.0, math.inf),
            breakpoints=(0.0,),
        ),
        Activation("mish", _mish, _mish_first, _mish_second, None, (0.0, math.inf), breakpoints=(0.0,)),
        families.selu(),
        Activation(
            "hardswish",
            lambda z, xp: z * xp.minimum(xp.maximum(z + 3, 0.0), 6.0) / 6,
            lambda z, xp: xp.where(xp.abs(z) < 3, (2 * z + 3) / 6, xp.where(z > 0, 1.0, 0.0)),
            lambda z, xp: xp.where(xp.abs(z) < 3, 1 / 3, 0.0),
            Reflection(1.0, 0.0, -1.0),
            (0.0, math.inf),
            breakpoints=(-3.0, 3.0),
            smooth=False,
        ),
        families.clipped("relu6", 0.0, 6.0, 1.0, 0.0, None),
        families.clipped("hardtanh", -1.0, 1.0, 1.0, -1.0, Reflection(-1.0, 0.0, 0.0)),
        families.clipped("hardsigmoid", -3.0, 3.0, 1 / 6, 0.0, Reflection(-1.0, 1.0, 0.0)),
        Activation(
            "softsign",
            lambda z, xp: z / (1 + xp.abs(z)),
            lambda z, xp: 1 / (1 + xp.abs(z)) ** 2,
            lambda z, xp: -2 * xp.sign(z) / (1 + xp.abs(z)) ** 3,
            Reflection(-1.0, 0.0, 0.0),
            (-1.0, 1.0),
            breakpoints=(0.0,),
            smooth=False,
            algebraic=True,
        ),
        Activation(
            "quadratic",
            lambda z, xp: z**2,
            lambda z, xp: 2 * z,
            lambda z, xp: 2 * xp.ones_like(z),
            Reflection(1.0, 0.0, 0.0),
            (math.inf, math.inf),
        ),
        Activation(
            "exp",
            lambda z, xp: xp.exp(z),
            lambda z, xp: xp.exp(z),
            lambda z, xp: xp.exp(z),
            None,
            (0.0, math.inf),
        ),
        Activation(
            "step",
            lambda z, xp: xp.where(z > 0, 1.0, 0.0),
            lambda z, xp: xp.zeros_like(z),
            lambda z, xp: xp.zeros_like(z),
            Reflection(-1.0, 1.0, 0.0),
            (0.0, 1.0),
            breakpoints=(0.0,),
            smooth=False,
        ),
    )
}

FAMILIES: dict[str, tuple[Callable[[float], Activation], float]] = {
    "leaky_relu": (lru_cache(families.leaky_relu), 0.01),
    "softplus": (lru_cache(families.softplus), 1.0),
    "elu": (lru_cache(families.elu), 1.0),
    "celu": (lru_cache(families.celu), 1.0),
    "squareplus": (lru_cache(families.squareplus), 4.0),
}
