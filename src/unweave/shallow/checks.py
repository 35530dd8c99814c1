"""One checked statement: does it hold, fail, or can it not be checked, with the number that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """``holds`` None: it can't be checked, and ``text`` says why."""

    name: str
    holds: bool | None
    text: str
    value: float | None = None

    @property
    def word(self) -> str:
        return "can't be checked" if self.holds is None else "holds" if self.holds else "fails"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "holds": self.holds, "value": self.value, "text": self.text}

    def __str__(self) -> str:
        return f"{self.name}: {self.word} ({self.text})"


@dataclass(frozen=True)
class Theorem:
    """A theorem's hypotheses on these data and weights."""

    name: str
    conclusion: str
    checks: Sequence[Check]

    @property
    def holds(self) -> bool | None:
        """True when every hypothesis holds, False when one fails, None when one can't be checked."""
        if any(check.holds is False for check in self.checks):
            return False
        return None if any(check.holds is None for check in self.checks) else True

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "conclusion": self.conclusion,
            "holds": self.holds,
            "checks": [check.to_dict() for check in self.checks],
        }
