"""Every activation once, as formulas in the array namespace ``xp`` (``numpy`` or ``jax.numpy``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType

import numpy as np
import scipy.special

from unweave.core.activation import Activation, Array, Reflection, Rewriting
from unweave.core.errors import InputError

_SQRT_2_PI = math.sqrt(2 / math.pi)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _special(name: str, xp: ModuleType) -> Callable[[Array], Array]:
    if xp is np:
        return getattr(scipy.special, name)
    import jax.scipy.special

    return getattr(jax.scipy.special, name)


def _sigmoid(z, xp):
    return _special("expit", xp)(z)


def _sigmoid_first(z, xp):
    s = _sigmoid(z, xp)
    return s * (1 - s)


def _sigmoid_second(z, xp):
    s = _sigmoid(z, xp)
    return s * (1 - s) * (1 - 2 * s)


def _tanh_first(z, xp):
    return 1 - xp.tanh(z) ** 2


def _tanh_second(z, xp):
    t = xp.tanh(z)
    return -2 * t * (1 - t**2)


def _erf_first(z, xp):
    return 2 / math.sqrt(math.pi) * xp.exp(-(z**2))


def _normal_cdf(z, xp):
    return 0.5 * _special("erfc", xp)(-z / math.sqrt(2))


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


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _softplus(b: float) -> Activation:
    if not b > 0:
        raise InputError(f"softplus({b}): the sharpness must be positive")
    return Activation(
        "softplus" if b == 1 else f"softplus({_number(b)})",
        lambda z, xp: xp.maximum(z, 0.0) + xp.log1p(xp.exp(-xp.abs(b * z))) / b,
        lambda z, xp: _sigmoid(b * z, xp),
        lambda z, xp: b * _sigmoid_first(b * z, xp),
        Reflection(1.0, 0.0, -1.0),
        (0.0, math.inf),
        breakpoints=(0.0,),
        scale=1 / b,
        rewriting=None if b == 1 else Rewriting("softplus", b, 0.0, 1 / b, 0.0),
    )


def _leaky_relu(slope: float) -> Activation:
    return Activation(
        f"leaky_relu({_number(slope)})",
        lambda z, xp: xp.where(z > 0, z, slope * z),
        lambda z, xp: xp.where(z > 0, 1.0, slope),
        lambda z, xp: xp.zeros_like(z),
        Reflection(1.0, 0.0, -(1.0 + slope)),
        (-math.copysign(math.inf, slope) if slope else 0.0, math.inf),
        breakpoints=(0.0,),
        smooth=False,
    )


def _elu(alpha: float) -> Activation:
    return Activation(
        "elu" if alpha == 1 else f"elu({_number(alpha)})",
        lambda z, xp: xp.where(z > 0, z, alpha * xp.expm1(xp.minimum(z, 0.0))),
        lambda z, xp: xp.where(z > 0, 1.0, alpha * xp.exp(xp.minimum(z, 0.0))),
        lambda z, xp: xp.where(z > 0, 0.0, alpha * xp.exp(xp.minimum(z, 0.0))),
        None,
        (-alpha, math.inf),
        breakpoints=(0.0,),
        smooth=False,
    )


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _selu() -> Activation:
    inner = _elu(SELU_ALPHA)
    return Activation(
        "selu",
        lambda z, xp: SELU_SCALE * inner.value(z, xp),
        lambda z, xp: SELU_SCALE * inner.first(z, xp),
        lambda z, xp: SELU_SCALE * inner.second(z, xp),
        None,
        (-SELU_SCALE * SELU_ALPHA, math.inf),
        breakpoints=(0.0,),
        smooth=False,
        rewriting=Rewriting(inner.name, 1.0, 0.0, SELU_SCALE, 0.0),
    )


def _celu(alpha: float) -> Activation:
    if not alpha > 0:
        raise InputError(f"celu({alpha}): alpha must be positive")
    inner = _elu(1.0)
    return Activation(
        "celu" if alpha == 1 else f"celu({_number(alpha)})",
        lambda z, xp: alpha * inner.value(z / alpha, xp),
        lambda z, xp: inner.first(z / alpha, xp),
        lambda z, xp: inner.second(z / alpha, xp) / alpha,
        None,
        (-alpha, math.inf),
        breakpoints=(0.0,),
        smooth=False,
        scale=alpha,
        rewriting=Rewriting("elu", 1 / alpha, 0.0, alpha, 0.0),
    )


def _mish_parts(z, xp):
    """``n`` with ``tanh(softplus(z)) = n / (n + 2)``; beyond 20 it is 1 to rounding."""
    e = xp.exp(xp.minimum(z, 20.0))
    return e * (e + 2)


def _mish(z, xp):
    n = _mish_parts(z, xp)
    return z * (n / (n + 2))


def _mish_first(z, xp):
    n = _mish_parts(z, xp)
    return n / (n + 2) + z * 4 * (n + 1) / (n + 2) ** 2 * _sigmoid(z, xp)


def _mish_second(z, xp):
    n, s = _mish_parts(z, xp), _sigmoid(z, xp)
    return 4 * (n + 1) / (n + 2) ** 2 * s * (2 + z * (1 - s - 2 * n / (n + 2) * s))


def _squareplus(b: float) -> Activation:
    if not b > 0:
        raise InputError(f"squareplus({b}): the parameter must be positive")
    root = math.sqrt(b)
    return Activation(
        "squareplus" if b == 4 else f"squareplus({_number(b)})",
        # (z + r) / 2 with r = sqrt(z^2 + b), without cancellation for negative z
        lambda z, xp: xp.maximum(z, 0.0) + b / 2 / (xp.hypot(z, root) + xp.abs(z)),
        lambda z, xp: 0.5 * (1 + z / xp.hypot(z, root)),
        lambda z, xp: b / 2 / xp.hypot(z, root) ** 3,
        Reflection(1.0, 0.0, -1.0),
        (0.0, math.inf),
        breakpoints=(0.0,),
        scale=root / 2,
        algebraic=True,
        rewriting=None if b == 4 else Rewriting("squareplus", 2 / root, 0.0, root / 2, 0.0),
    )


def _clipped(
    name: str, low: float, high: float, slope: float, start: float, reflection: Reflection | None
) -> Activation:
    """``start`` below ``low``, then growing with ``slope`` until ``high``, then constant."""
    half = (high - low) / 2
    return Activation(
        name,
        lambda z, xp: start + slope * (xp.minimum(xp.maximum(z, low), high) - low),
        lambda z, xp: xp.where((z > low) & (z < high), slope, 0.0),
        lambda z, xp: xp.zeros_like(z),
        reflection,
        (start, start + slope * (high - low)),
        breakpoints=(low, high),
        smooth=False,
        rewriting=None
        if name == "hardtanh"
        else Rewriting("hardtanh", 1 / half, -(low + high) / 2 / half, slope * half, start + slope * half),
    )


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
            _sigmoid,
            _sigmoid_first,
            _sigmoid_second,
            Reflection(-1.0, 1.0, 0.0),
            (0.0, 1.0),
            breakpoints=(0.0,),
            scale=2.0,
            rewriting=Rewriting("tanh", 0.5, 0.0, 0.5, 0.5),
        ),
        Activation(
            "erf",
            lambda z, xp: _special("erf", xp)(z),
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
            lambda z, xp: z * _sigmoid(z, xp),
            lambda z, xp: _sigmoid(z, xp) + z * _sigmoid_first(z, xp),
            lambda z, xp: 2 * _sigmoid_first(z, xp) + z * _sigmoid_second(z, xp),
            Reflection(1.0, 0.0, -1.0),
            (0.0, math.inf),
            breakpoints=(0.0,),
        ),
        Activation("mish", _mish, _mish_first, _mish_second, None, (0.0, math.inf), breakpoints=(0.0,)),
        _selu(),
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
        _clipped("relu6", 0.0, 6.0, 1.0, 0.0, None),
        _clipped("hardtanh", -1.0, 1.0, 1.0, -1.0, Reflection(-1.0, 0.0, 0.0)),
        _clipped("hardsigmoid", -3.0, 3.0, 1 / 6, 0.0, Reflection(-1.0, 1.0, 0.0)),
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
    "leaky_relu": (lru_cache(_leaky_relu), 0.01),
    "softplus": (lru_cache(_softplus), 1.0),
    "elu": (lru_cache(_elu), 1.0),
    "celu": (lru_cache(_celu), 1.0),
    "squareplus": (lru_cache(_squareplus), 4.0),
}
