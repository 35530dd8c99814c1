"""Activations that come in families or are made of another: softplus(b), leaky_relu(a), elu(alpha) and its kin."""

from __future__ import annotations

import math

from unweave.core.activation import Activation, Reflection, Rewriting
from unweave.core.activation_special import sigmoid, sigmoid_first
from unweave.core.errors import InputError


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def softplus(b: float) -> Activation:
    if not b > 0:
        raise InputError(f"softplus({b}): the sharpness must be positive")
    return Activation(
        "softplus" if b == 1 else f"softplus({_number(b)})",
        lambda z, xp: xp.maximum(z, 0.0) + xp.log1p(xp.exp(-xp.abs(b * z))) / b,
        lambda z, xp: sigmoid(b * z, xp),
        lambda z, xp: b * sigmoid_first(b * z, xp),
        Reflection(1.0, 0.0, -1.0),
        (0.0, math.inf),
        breakpoints=(0.0,),
        scale=1 / b,
        rewriting=None if b == 1 else Rewriting("softplus", b, 0.0, 1 / b, 0.0),
    )


def leaky_relu(slope: float) -> Activation:
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


def elu(alpha: float) -> Activation:
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


def selu() -> Activation:
    inner = elu(SELU_ALPHA)
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


def celu(alpha: float) -> Activation:
    if not alpha > 0:
        raise InputError(f"celu({alpha}): alpha must be positive")
    inner = elu(1.0)
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


def squareplus(b: float) -> Activation:
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


def clipped(
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
