"""Which method for which model: the table ``method="auto"`` chooses from, in the open.

The choice uses what the user said (activation, domain, method) and what was measured before any method ran
(precision of the answers, growth far out, whether they are piecewise linear). It is a list in order of
preference: when one method finds nothing that passes the certificate, the next one is tried.
"""

from __future__ import annotations

from dataclasses import dataclass

from unweave.errors import InputError
from unweave.methods.base import Method
from unweave.methods.far_field import NEAREST, FarField
from unweave.probes.growth import Growth

SATURATING = ("tanh", "sigmoid", "erf")
PIECEWISE_LINEAR = ("relu", "leaky_relu")
RELU_LIKE = ("gelu", "silu", "softplus", "gelu_tanh")


@dataclass(frozen=True)
class Choice:
    """A method with the candidate activations it is given, and why it was chosen."""

    method: Method
    activations: tuple[str, ...]
    reason: str


def candidates(activation: str, growth: Growth) -> tuple[str, ...]:
    """Hidden activations to consider: the one named, or those that grow as observed."""
    if activation != "auto":
        return (activation,)
    if growth is Growth.SATURATING:
        return ("tanh", "erf")
    if growth is Growth.LINEAR:
        return (*PIECEWISE_LINEAR, *RELU_LIKE)
    return ("tanh", "erf", *RELU_LIKE)


def choose(
    method: str, activation: str, growth: Growth, reach: float, exact: bool, piecewise_linear: bool
) -> list[Choice]:
    """Methods to try, in order. ``exact`` says that the answers carry float64 rounding only."""
    names = candidates(activation, growth)
    saturating = tuple(a for a in names if a in SATURATING)
    table = {
        "far-field": lambda why: Choice(FarField(), saturating or names, why),
        **_optional_methods(names),
    }
    if method != "auto":
        if method not in table:
            raise InputError(f"unknown method {method!r}; known: auto, {', '.join(sorted(table))}")
        return [table[method]("asked for")]
    if piecewise_linear and "relu-lines" in table:
        return [table["relu-lines"]("the answers are piecewise linear")]
    chosen = []
    if saturating and growth in (Growth.SATURATING, Growth.UNSEEN) and reach >= NEAREST and exact:
        chosen.append(table["far-field"](f"{growth} and are exact"))
    if "in-domain" in table:
        why = str(growth) if exact else "the answers are not exact to float64 rounding"
        chosen.append(table["in-domain"](f"{why}; far field found nothing" if chosen else why))
    return chosen


def _optional_methods(names: tuple[str, ...]) -> dict:
    return {}
