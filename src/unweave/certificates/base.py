"""What a check is: a name, whether it was passed, its figures, and what it says in words.

Checks are made by the run, on answers that no fit has seen. A method may name further ones (``Wanted``) beside those
that the run makes of every network; it cannot replace these.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision


@dataclass(frozen=True)
class Check:
    """One check of a network."""

    name: str
    passed: bool | None
    """None: it could not be made, for lack of queries, rows or time."""
    figures: dict[str, float] = field(default_factory=dict)
    words: str = ""
    """What was seen, as a phrase: "along 2 fresh lines every kink is explained by the network"."""
    reason: str = ""
    """Where it was not passed: why, and what would help."""
    local: bool = False
    """Whether not passing it leaves the rest of the function as it is, as where a rare unit is missing."""
    needed: bool = False
    """Whether nothing is claimed unless it could be made."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class FreshQueries:
    """What a check of an identified network may ask: in the stage ``certificate``, within what the ledger leaves."""

    meter: Meter
    precision: Precision
    rng: np.random.Generator


@dataclass(frozen=True)
class FreshRows:
    """Rows held out of every fit, inputs as the method was given them."""

    x: np.ndarray
    y: np.ndarray


class Wanted(Protocol):
    """A check that a method names in its finding; ``network`` is what the method found, in the inputs it was given."""

    def make(self, network: Network, fresh: Any) -> Check:
        """The check, on ``FreshQueries`` or ``FreshRows``."""
        ...
