"""Which method for which model: the table ``method="auto"`` chooses from, in the open.

The choice uses what the user said (activation, domain, method) and what was measured before any method ran
(precision of the answers, growth far out, whether they are piecewise linear). It is a list in order of
preference: when one method finds nothing that passes the certificate, the next one is tried.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from unweave.core import activations as act
from unweave.core.errors import InputError
from unweave.methods.base import Method
from unweave.methods.far_field.method import NEAREST
from unweave.methods.skeleton.method import LEAST_REACH
from unweave.methods.skeleton.profiles import CANDIDATES as WINDOWED
from unweave.probes.growth import Growth

METHODS = {
    "far-field": ("far_field.method", "FarField"),
    "halfspaces": ("high_threshold.decisions", "Decisions"),
    "hessian-pencil": ("hessian.pencil", "HessianPencil"),
    "hessian-span": ("hessian.span", "HessianSpan"),
    "in-domain": ("in_domain.method", "InDomain"),
    "relu-lines": ("relu.lines", "ReluLines"),
    "relu-layers": ("relu.layers", "ReluLayers"),
    "ridge": ("ridge.method", "Ridge"),
    "skeleton": ("skeleton.method", "Skeleton"),
}
"""Every method by name: the module it lives in and its class, imported when it is chosen."""

MANY_INPUTS = 500
"""From this many inputs on a single unit is looked for first."""
MANY_PAIRS = 30
"""From this many inputs on two Hessians are asked for before an over-wide student, whose steps get slow."""
SATURATING = ("tanh", "sigmoid", "erf")
PIECEWISE_LINEAR = ("relu", "leaky_relu")
RELU_LIKE = ("gelu", "silu", "softplus", "gelu_tanh")


@dataclass(frozen=True)
class Choice:
    """A method with the candidate activations it is given, and why it was chosen."""

    method: Method
    activations: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Traits:
    """What was measured before any method ran."""

    growth: Growth
    reach: float
    """Radius of the largest ball around the origin inside the domain."""
    exact: bool
    """The answers carry float64 rounding only."""
    piecewise_linear: bool
    input_size: int
    two_valued: bool = False
    """Only two different answers were seen."""


def check_method(method: str) -> None:
    """Refuse unknown names, before any question is asked."""
    if method != "auto" and method not in METHODS:
        raise InputError(f"unknown method {method!r}; known: auto, {', '.join(sorted(METHODS))}")


def choose(method: str, activation: str, traits: Traits) -> list[Choice]:
    """Methods to try, in order, each with its reason."""
    if method != "auto":
        return [_choice(method, _candidates(method, activation), "asked for")]
    if traits.two_valued and activation in ("auto", "step"):
        return [_choice("halfspaces", ("step",), "only two different answers were seen")]
    if traits.input_size >= MANY_INPUTS:
        why = f"{traits.input_size:,} inputs: a single unit would show after a few dozen queries"
        return [_choice("ridge", _candidates("ridge", activation), why), *_choose_layers(activation, traits)]
    return _choose_layers(activation, traits)


def _choose_layers(activation: str, traits: Traits) -> list[Choice]:
    """Methods for whole layers of units."""
    if _wants_lines(activation, traits):
        why = (
            "the answers are piecewise linear"
            if traits.piecewise_linear
            else f"the activation is {activation}"
        )
        return [
            _choice(name, _candidates(name, activation), why) for name in METHODS if name.startswith("relu")
        ]
    chosen = []
    may_saturate = activation in ("auto", *SATURATING)
    levels_off = traits.growth in (Growth.SATURATING, Growth.UNSEEN)
    if may_saturate and levels_off and traits.reach >= NEAREST and traits.exact:
        chosen.append(
            _choice("far-field", _candidates("far-field", activation), f"{traits.growth} and are exact")
        )
    windowed = activation == "auto" or act.get(activation).family in (*WINDOWED, "celu", "selu")
    if windowed and traits.growth is Growth.LINEAR and traits.reach >= LEAST_REACH and traits.exact:
        chosen.append(
            _choice("skeleton", _candidates("skeleton", activation), f"{traits.growth} and are exact")
        )
    candidates = _candidates("in-domain", activation)
    if activation == "auto" and traits.growth is Growth.SATURATING:
        candidates = ("tanh", "erf")
    elif activation == "auto" and traits.growth is Growth.LINEAR:
        candidates = RELU_LIKE
    why = str(traits.growth) if traits.exact else f"{traits.growth}; they are not exact to float64 rounding"
    why = f"{why}; {chosen[-1].method.name} did not settle it" if chosen else why
    if traits.exact and traits.input_size >= MANY_PAIRS:
        hint = "units up to as many as inputs would show in two Hessians"
        chosen.append(_choice("hessian-pencil", candidates, f"{why}; {hint}"))
    chosen.append(_choice("in-domain", candidates, why))
    return chosen


def _wants_lines(activation: str, traits: Traits) -> bool:
    if activation != "auto":
        return act.get(activation).name.startswith(PIECEWISE_LINEAR)
    return traits.piecewise_linear


def _candidates(method: str, activation: str) -> tuple[str, ...]:
    """Hidden activations to consider: the one named, or those the method serves."""
    if activation != "auto":
        return (activation,)
    if method == "far-field":
        return ("tanh", "erf")
    if method == "skeleton":
        return WINDOWED
    if method == "ridge":
        return ("tanh", "erf", *RELU_LIKE, *PIECEWISE_LINEAR)
    return PIECEWISE_LINEAR if method.startswith("relu") else ("tanh", "erf", *RELU_LIKE)


def _choice(name: str, activations: tuple[str, ...], reason: str) -> Choice:
    module, cls = METHODS[name]
    method = getattr(importlib.import_module(f"unweave.methods.{module}"), cls)()
    return Choice(method, activations, reason)
