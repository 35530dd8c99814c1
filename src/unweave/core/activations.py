"""The activations by name. A name may carry a parameter: ``"softplus(10)"``, ``"leaky_relu(0.2)"``, ``"elu(0.5)"``."""

from __future__ import annotations

import re

import numpy as np
import scipy.special

from unweave.core.activation import Activation, Reflection
from unweave.core.activation_table import FAMILIES, PLAIN
from unweave.core.arguments import shown
from unweave.core.errors import InputError

__all__ = ["Activation", "Reflection", "get", "inverse", "names", "saturation_point", "split_name"]


ALIASES = {
    "leakyrelu": "leaky_relu",
    "logistic": "sigmoid",
    "swish": "silu",
    "linear": "identity",
    "gelutanh": "gelu_tanh",
}
"""Other names of the same functions, without underscores."""


def get(name: str | Activation) -> Activation:
    """The activation called ``name``, with an optional parameter in parentheses."""
    if isinstance(name, Activation):
        return name
    if isinstance(name, str) and name in PLAIN:
        return PLAIN[name]
    match = re.fullmatch(r"\s*([a-z_][a-z_0-9]*)\s*(?:\(\s*([-+0-9.e]+)\s*\))?\s*", _plain(name))
    if match is None or (match[1] not in PLAIN and match[1] not in FAMILIES):
        raise InputError(f"unknown activation {shown(name)}; known: {', '.join(names())}")
    if match[1] in PLAIN:
        if match[2] is not None:
            raise InputError(f"activation {match[1]!r} takes no parameter")
        return PLAIN[match[1]]
    family, default = FAMILIES[match[1]]
    try:
        parameter = default if match[2] is None else float(match[2])
    except ValueError as error:
        raise InputError(f"the parameter of {name!r} is not a number") from error
    return family(parameter)


def _plain(name: object) -> str:
    """``"leaky_relu"`` from ``"LeakyReLU"`` or ``"leaky-relu"``: the names frameworks use are understood."""
    kind, bracket, rest = (name if isinstance(name, str) else "").strip().lower().partition("(")
    kind = kind.strip().replace("-", "_")
    return ALIASES.get(kind.replace("_", ""), kind) + bracket + rest


def split_name(name: str) -> tuple[str, float | None]:
    """``("elu", 0.5)`` from ``"elu(0.5)"``; None where the name carries no parameter."""
    kind, _, parameter = name.partition("(")
    return kind, float(parameter.rstrip(")")) if parameter else None


def names() -> list[str]:
    """The names ``get`` understands, families without their parameter."""
    return [*PLAIN, *FAMILIES]


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
