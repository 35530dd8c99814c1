"""When an audit fails: ``recovered > 0.5``, ``fidelity < 0.01``, ``queries < 1000``, ``identified``, ..."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

from unweave.audit.cases import Audit, Case
from unweave.core.errors import InputError, Outcome

FIGURES = ("recovered", "parameter_error", "fidelity", "queries", "price")
_COMPARISONS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
_RULE = re.compile(r"\s*(?P<figure>[a-z_]+)\s*(?:(?P<sign>[<>]=?)\s*(?P<limit>[-+.\de]+))?\s*")


@dataclass(frozen=True)
class Policy:
    """One rule; a case that fulfils it makes the audit fail."""

    figure: str
    sign: str = ""
    limit: float = 0.0

    def breaches(self, audit: Audit) -> tuple[Case, ...]:
        """The cases that fulfil the rule; a figure that a case does not have fulfils nothing."""
        return tuple(case for case in audit.cases if self._holds(case))

    def _holds(self, case: Case) -> bool:
        if self.figure == "identified":
            return case.outcome is Outcome.IDENTIFIED
        value = getattr(case, self.figure)
        return value is not None and _COMPARISONS[self.sign](value, self.limit)


def parse_policy(text: str) -> Policy:
    """A rule as it is written on the command line."""
    found = _RULE.fullmatch(text)
    if found is not None and found["figure"] == "identified" and found["sign"] is None:
        return Policy("identified")
    if found is None or found["figure"] not in FIGURES or found["sign"] is None:
        raise InputError(
            f"--fail-if {text!r}: write identified, or one of {', '.join(FIGURES)} with a limit: recovered > 0.5"
        )
    try:
        return Policy(found["figure"], found["sign"], float(found["limit"]))
    except ValueError as error:
        raise InputError(f"--fail-if {text!r}: {found['limit']!r} is no number") from error
