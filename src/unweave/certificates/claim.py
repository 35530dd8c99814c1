"""The claim rule: what may be said of a network, given its certificate. Nothing else decides an outcome.

*Identified* takes all of this: every fresh answer is reproduced to the accuracy of the answers, and there were as
many as a claim needs; every further check was passed, among them the search for disagreement, and that no answer ever
asked lies beyond eight error bars where the method states them; every parameter has a small standard error; and the
method names no part as undetermined.

*Partly identified*: the function agrees to 1e-3, or a check failed that leaves the rest of the function as it is (a
rare unit is missing, but most fresh answers agree), or only the first layer is known.
"""

from __future__ import annotations

import numpy as np

from unweave.certificates.certificate import Certificate
from unweave.core.errors import Outcome
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence

PARTLY = 1e-3
"""A network whose fresh error is above this is not worth returning as partly identified."""
_FRESH = {Evidence.QUERIES: "fresh answers", Evidence.ROWS: "held-out rows"}
_OTHER = "another method= may help"


def judge(
    network: Network,
    certificate: Certificate,
    evidence: Evidence,
    *,
    has_budget: bool = False,
    reason: str = "",
    undetermined: tuple[str, ...] = (),
) -> tuple[Outcome, str]:
    """The outcome that the certificate supports, and the reason when it is not ``identified``.

    ``reason`` and ``undetermined`` are what the method says is open; ``has_budget``: whether queries are limited, so
    that more of them can be allowed.
    """
    if network.is_open and evidence is Evidence.QUERIES:
        if certificate.failed:  # what the method says of the layer is then no longer true
            return Outcome.NOT_IDENTIFIED, _join(*(check.reason for check in certificate.failed))
        return Outcome.PARTLY, reason
    if _mostly_agrees(certificate) and any(check.local for check in certificate.failed):
        return Outcome.PARTLY, _join(*(check.reason for check in certificate.failed))
    if not certificate.agrees:
        partly = certificate.max_relative_error <= PARTLY
        why = [check.reason for check in certificate.failed]
        if not certificate.points_agree:
            why = [
                f"{_FRESH[evidence]} differ by up to {certificate.max_relative_error:.1e} (allowed "
                f"{certificate.tolerance:.1e})"
            ]
        if network.is_open and not partly:  # what the method says of the layer is not true
            reason = ""
        return (Outcome.PARTLY if partly else Outcome.NOT_IDENTIFIED), _join(
            reason, *why, _what_may_help(evidence, has_budget)
        )
    if not certificate.complete:
        missed = [check for check in certificate.checks if check.needed and check.passed is None]
        if certificate.num_points >= certificate.num_needed and missed:
            names, helps = ", ".join(check.name for check in missed), {check.reason for check in missed}
            return Outcome.PARTLY, _join(reason, f"a check could not be made: {names}", *sorted(helps - {""}))
        return Outcome.PARTLY, _join(reason, _too_few(certificate.num_points, evidence, has_budget))
    count = len(undetermined) + len(certificate.undetermined)
    if count:
        open_parts = f"the function is recovered, but {count} of its parts are not determined by the answers"
        return Outcome.PARTLY, reason or open_parts
    return Outcome.IDENTIFIED, reason


def _what_may_help(evidence: Evidence, has_budget: bool) -> str:
    if evidence is Evidence.ROWS:
        return f"more rows or {_OTHER}"
    return f"a larger budget or {_OTHER}" if has_budget else _OTHER


def _too_few(num_points: int, evidence: Evidence, has_budget: bool) -> str:
    if evidence is Evidence.QUERIES and has_budget:
        return f"the budget left only {num_points} fresh queries for the certificate; raise the budget"
    more = "; give more rows" if evidence is Evidence.ROWS else ""
    return f"there were only {num_points} {_FRESH[evidence]} for the certificate{more}"


def _mostly_agrees(certificate: Certificate) -> bool:
    """Whether a check that fails somewhere leaves the rest of the function as it is: most fresh answers agree."""
    errors = certificate.fresh.get("errors")
    if errors is None or not len(errors):
        return True
    return float(np.median(errors)) <= max(PARTLY, certificate.tolerance)


def _join(*parts: str) -> str:
    return "; ".join(part.rstrip("; ") for part in parts if part)
