"""Every activation once: value, two derivatives, reflection, limits at infinity, Hermite coefficients.

A name may carry a parameter: ``"softplus(10)"``, ``"leaky_relu(0.2)"``, ``"elu(0.5)"``; ``get`` parses it.
The functions take the array namespace as their last argument (``numpy`` or ``jax.numpy``), so the same
formula serves the CPU, ``jit`` and the GPU.

*Reflection* is how ``phi(-z)`` follows from ``phi(z)``: ``phi(-z) = sign * phi(z) + constant + linear * z``.
With ``linear == 0`` a unit may be flipped and the next layer absorbs the change; with ``linear != 0`` a flip
leaves a linear term in x behind, which a plain network can absorb only when such terms cancel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from unweave.core.errors import InputError

Array = Any
Formula = Callable[[Array, ModuleType], Array]


class Reflection(NamedTuple):
    """``phi(-z) = sign * phi(z) + constant + linear * z``."""

    sign: float
    constant: float
    linear: float


@dataclass(frozen=True)
class Activation:
    """One activation function; every field is a fact about it, nothing is stored twice."""

    name: str
    value: Formula
    first: Formula
    second: Formula
    reflection: Reflection | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)
    breakpoints: tuple[float, ...] = ()
    smooth: bool = True
    scale: float = 1.0

    def __call__(self, z: Array, xp: ModuleType = np) -> Array:
        return self.value(z, xp)

    @property
    def parity(self) -> str:
        """``"odd"``, ``"even"`` or ``"none"``."""
        if self.reflection is None or self.reflection[1:] != (0.0, 0.0):
            return "none"
        return "odd" if self.reflection.sign < 0 else "even"

    @property
    def family(self) -> str:
        """The name without its parameter."""
        return self.name.partition("(")[0]

    @property
    def saturates(self) -> bool:
        """Whether both limits at infinity are finite."""
        return math.isfinite(self.limits[0]) and math.isfinite(self.limits[1])

    @property
    def degree(self) -> int | None:
        """p with ``phi(c z) = c^p phi(z)`` for c > 0 (such units have a free positive scale), else None."""
        return {"relu": 1, "leaky_relu": 1, "quadratic": 2, "step": 0}.get(self.family)

    @property
    def flips(self) -> bool:
        """Whether a unit's sign can always be absorbed by the next layer."""
        return self.reflection is not None and self.reflection.linear == 0.0

    def hermite_coefficients(self, order: int, shift: float = 0.0, scale: float = 1.0) -> np.ndarray:
        """``E[phi(scale g + shift) h_k(g)]`` for k = 0..order, g ~ N(0,1), h_k the normalised polynomials.

        Composite Gauss-Legendre on panels that break at the kinks and shrink near them, so sharp
        activations such as ``softplus(10)`` are integrated to rounding.
        """
        nodes, weights = _panels(self, shift, scale)
        values = self.value(scale * nodes + shift, np) * weights * _normal_density(nodes, np)
        coefficients = np.empty(order + 1)
        previous, current = np.zeros_like(nodes), np.ones_like(nodes)
        for k in range(order + 1):
            coefficients[k] = values @ current
            previous, current = current, (nodes * current - math.sqrt(k) * previous) / math.sqrt(k + 1)
        return coefficients


def get(name: str | Activation) -> Activation:
    """The activation called ``name``, with an optional parameter in parentheses."""
    if isinstance(name, Activation):
        return name
    match = re.fullmatch(r"\s*([a-z_]+)\s*(?:\(\s*([-+0-9.eE]+)\s*\))?\s*", str(name))
    if match is None or (match[1] not in _PLAIN and match[1] not in _FAMILIES):
        raise InputError(f"unknown activation {str(name)!r}; known: {', '.join(names())}")
    if match[1] in _PLAIN:
        if match[2] is not None:
            raise InputError(f"activation {match[1]!r} takes no parameter")
        return _PLAIN[match[1]]
    family, default = _FAMILIES[match[1]]
    try:
        parameter = default if match[2] is None else float(match[2])
    except ValueError as error:
        raise InputError(f"the parameter of {name!r} is not a number") from error
    return family(parameter)


def names() -> list[str]:
    """The names ``get`` understands, families without their parameter."""
    return [*_PLAIN, *_FAMILIES]


def inverse(activation: Activation, value: np.ndarray) -> np.ndarray:
    """``z`` with ``phi(z) = value`` for the saturating activations; infinite outside the open range."""
    low, high = activation.limits
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.clip((np.asarray(value) - low) / (high - low), 0.0, 1.0)
        if activation.name == "tanh":
            return np.arctanh(2 * unit - 1)
        if activation.name == "sigmoid":
            return scipy.special.logit(unit)
        if activation.name == "erf":
            return scipy.special.erfinv(2 * unit - 1)
    raise InputError(f"activation {activation.name!r} has no inverse here; use tanh, sigmoid or erf")


def saturation_point(activation: Activation) -> float:
    """How far from 0 the saturating activation equals its limit to float64 rounding."""
    return {"tanh": 19.0, "sigmoid": 37.5, "erf": 5.95}[activation.name]


def _panels(activation: Activation, shift: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    reach, width = 14.0, 0.5
    edges = set(np.arange(-reach, reach + width, width).tolist())
    for point in activation.breakpoints:
        centre = (point - shift) / scale if scale else 0.0
        if abs(centre) < reach:
            fine = activation.scale / max(abs(scale), 1e-12)
            steps = min(fine, width) * np.concatenate([[0.0], 2.0 ** np.arange(-3, 8)])
            edges.update(e for e in np.concatenate([centre + steps, centre - steps]) if abs(e) < reach)
    cuts = np.array(sorted(edges))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(cuts)[:, None] / 2
    return (cuts[:-1, None] + half + half * nodes).ravel(), (half * weights).ravel()


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


_PLAIN: dict[str, Activation] = {
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

_FAMILIES: dict[str, tuple[Callable[[float], Activation], float]] = {
    "leaky_relu": (lru_cache(_leaky_relu), 0.01),
    "softplus": (lru_cache(_softplus), 1.0),
    "elu": (lru_cache(_elu), 1.0),
}
