"""Which method for which model or rows: those of the registry that suit, in order of preference.

The choice uses what the user said (activation, domain, method) and what was measured before any method ran. When one
method finds nothing that passes the certificate, the next one is tried.
"""

from __future__ import annotations

from dataclasses import dataclass

from unweave.core.arguments import shown
from unweave.core.errors import InputError
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Method, Serves, Traits
from unweave.methods.registry import entries, named


@dataclass(frozen=True)
class Choice:
    """A method with the candidate activations it is given, and why it was chosen."""

    method: Method
    activations: tuple[str, ...]
    reason: str


def choose(traits: Traits) -> list[Choice]:
    """Methods to try, in order, each with its reason."""
    methods = [entry.load() for entry in entries(traits.evidence)]
    reasons = [(method, method.suits(traits)) for method in methods]
    choices = [
        Choice(method, traits.candidates(method.serves), reason)
        for method, reason in reasons
        if reason is not None
    ]
    return sorted(choices, key=lambda choice: traits.place(choice.activations))


def asked_for(method: Method, activation: str) -> Choice:
    """The one method that the user wants."""
    return Choice(method, method.serves.candidates(activation), "asked for")


def find_method(method: str | Method, evidence: Evidence) -> Method | None:
    """The method of that name, or the object as it is; None for "auto". Others are refused, before any question."""
    if isinstance(method, str):
        return None if method == "auto" else named(method, evidence)
    if isinstance(method, type) or not isinstance(getattr(method, "serves", None), Serves):
        raise InputError(
            f"method={shown(method)}: give auto, the name of a method, or a method such as HighThreshold()"
        )
    if method.serves.evidence is not evidence:
        call = "identify" if evidence is Evidence.QUERIES else "learn"
        raise InputError(
            f"method {method.name} learns from {method.serves.evidence}: {call} gives {evidence}"
        )
    return method
