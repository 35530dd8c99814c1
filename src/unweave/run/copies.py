"""A copy of the function beside the claim: what a result keeps of a surrogate, and when one is worth keeping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unweave.certificates.certificate import Certificate
from unweave.certificates.own_rows import OWN_ROWS
from unweave.core.errors import Outcome
from unweave.core.network import Network

USEFUL = 0.3
"""Relative error on fresh points up to which a network that was not identified is worth keeping as a copy."""


@dataclass(frozen=True)
class Copy:
    """A network that predicts the model, with its root mean square errors relative to the spread of the answers."""

    network: Network
    error: float
    """On fresh queries."""
    error_on_rows: float | None = None
    """On the user's own rows, where there are any."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """How the user's columns become inputs, where they do (``with_data.as_inputs``)."""

    def as_details(self) -> dict[str, Any]:
        """What a result keeps: ``Identification.surrogate`` reads it."""
        kept = {
            "weights": list(self.network.weights),
            "biases": list(self.network.biases),
            "activations": list(self.network.activations),
            "error": self.error,
        }
        if self.error_on_rows is not None:
            kept["error_on_rows"] = self.error_on_rows
        return {**self.inputs, "surrogate": kept}


def keep_refused(network: Network, certificate: Certificate, outcome: Outcome) -> dict[str, Any]:
    """A network that is not identified but predicts is kept as a copy of the function."""
    useful = certificate.num_points and certificate.rms_relative_error < USEFUL
    if outcome is not Outcome.NOT_IDENTIFIED or network.is_open or not useful:
        return {}
    rows = certificate.check(OWN_ROWS)
    on_rows = None if rows is None else float(rows.figures["rms_relative_error"])
    return Copy(network, certificate.rms_relative_error, on_rows).as_details()
