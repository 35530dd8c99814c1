"""The certificate: what was checked on fresh answers, with which bound, and how well each parameter is determined.

Figures only: ``certificates.queries`` and ``certificates.rows`` compute them, ``certificates.claim`` says what may be
claimed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from unweave.certificates.base import Check
from unweave.core.network import Network

NUM_POINTS = 200
CONFIDENCE = 0.95
EXACT = 1e-9
"""Largest relative error that counts as the same function when the answers are exact."""


@dataclass(frozen=True)
class Certificate:
    """Errors on fresh points or rows, further checks, and standard errors."""

    max_relative_error: float
    rms_relative_error: float
    num_points: int
    tolerance: float
    """Errors up to this size are explained by the accuracy of the answers."""
    fraction_outside: float
    """With 95 % confidence at most this fraction of the domain has an error above the largest seen."""
    condition: float | None = None
    """Condition number of the scaled Jacobian (an upper estimate); None when it was not computed."""
    max_standard_error: float | None = None
    """Largest standard error of a unit's parameters relative to its largest parameter."""
    undetermined: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    """Further checks, in the order they were made."""
    fresh: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    """What was compared: ``answers`` of the model, ``outputs`` of the network, both (n, outputs), ``errors`` (n,).

    ``deviations`` are the standard errors of the units, layer by layer, where they were computed; ``suspects`` (n, d)
    the points at which a search has found the model to differ from the network."""
    num_needed: int = NUM_POINTS
    """As many points as a claim needs."""

    @classmethod
    def of_errors(cls, errors: np.ndarray, num_drawn: int, **rest: Any) -> Certificate:
        """From the relative errors on fresh points, of which ``num_drawn`` were drawn from the domain at random."""
        return cls(
            max_relative_error=float(np.max(errors, initial=0.0)),
            rms_relative_error=float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0,
            fraction_outside=1 - (1 - CONFIDENCE) ** (1 / num_drawn) if num_drawn else 1.0,
            **rest,
        )

    @property
    def points_agree(self) -> bool:
        """Whether every fresh answer was reproduced to the accuracy of the answers."""
        return self.max_relative_error <= self.tolerance

    @property
    def failed(self) -> tuple[Check, ...]:
        """The further checks that were made and not passed."""
        return tuple(check for check in self.checks if check.passed is not None and not check.passed)

    @property
    def agrees(self) -> bool:
        """Whether every fresh answer was reproduced to the accuracy of the answers, and every further check passed."""
        return self.points_agree and not self.failed

    @property
    def complete(self) -> bool:
        """Whether there were as many fresh answers as a claim needs."""
        return self.num_points >= self.num_needed and not any(
            check.needed and check.passed is None for check in self.checks
        )

    def check(self, name: str) -> Check | None:
        """The further check of this name, if it was made."""
        return next((check for check in self.checks if check.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """The figures, without the arrays of ``fresh``."""
        record = asdict(self)
        del record["fresh"]
        return {**record, "undetermined": list(self.undetermined), "checks": list(record["checks"])}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Certificate:
        checks = tuple(Check(**check) for check in record.get("checks", ()))
        return cls(**{**record, "undetermined": tuple(record.get("undetermined", ())), "checks": checks})


def name_units(network: Network, deviations: np.ndarray, limit: float = 1e-2) -> tuple[str, ...]:
    """The units whose parameters are not determined to ``limit``, in words."""
    names, start = [], 0
    for layer, w in enumerate(network.weights):
        for unit, deviation in enumerate(deviations[start : start + len(w)]):
            if not deviation < limit:
                size = "not at all" if not np.isfinite(deviation) else f"only to {deviation:.1%}"
                place = "output" if layer == network.num_layers - 1 else f"layer {layer + 1}, unit"
                names.append(f"{place} {unit}: determined {size}")
        start += len(w)
    return tuple(names)
