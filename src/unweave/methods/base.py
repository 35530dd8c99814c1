"""What a method is: evidence and a problem in, a finding out.

A method asks through a meter, in named stages, or reads rows, and returns what it found. It does not judge itself: the
run checks every finding on answers that no fit has seen, and words the outcome. A method is made known by one line in
``methods.registry``.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from unweave.certificates.answers import ErrorBars
from unweave.certificates.base import Wanted
from unweave.core import activations as act
from unweave.core.deadline import Deadline
from unweave.core.network import Network
from unweave.core.streams import stream
from unweave.evidence.kinds import Evidence
from unweave.evidence.precision import Precision
from unweave.probes.growth import Growth

PIECEWISE_LINEAR = ("relu", "leaky_relu")
CLAMPED = ("relu6", "hardtanh", "hardsigmoid")
"""Piecewise linear and constant far out; they describe the same functions."""
SATURATING = ("tanh", "erf", "sigmoid")
SLOW = ("softsign",)
"""They level off like one over the argument; tried where the answers do."""
RELU_LIKE = ("gelu", "silu", "softplus", "gelu_tanh")
ELU_LIKE = ("elu", "mish", "selu")
"""Of the same growth, without a reflection."""
_TWINS = {"sigmoid": "tanh", "hardtanh": "relu6", "hardsigmoid": "relu6"}
"""Activations that describe the same functions as another one."""


@dataclass(frozen=True)
class Serves:
    """What a method works on."""

    evidence: Evidence
    activations: tuple[str, ...] = ()
    """Hidden activations it can find, most plausible first; none: it does not matter."""
    when_named: tuple[str, ...] = ()
    """Further ones, tried only when the user names them."""
    gaussian: bool = False
    """Whether inputs of rows that are not Gaussian are worth a warning."""
    suspects: bool = False
    """Whether it looks again where it is told that its network and the model differ (``Problem.suspects``), even if its
    finding has kept nothing for that."""

    queries: int = 100_000
    """The most questions an attempt may cost, beside ``queries_a_size`` for every input and output."""
    queries_a_size: int = 10_000

    def most_queries(self, num_sizes: int) -> int:
        """The most questions an attempt may cost for a model with so many inputs and outputs together."""
        return self.queries + self.queries_a_size * num_sizes

    def candidates(self, activation: str) -> tuple[str, ...]:
        """What to try when the user names ``activation``, or "auto"."""
        return _without_twins(self.activations) if activation == "auto" else (activation,)


@dataclass(frozen=True)
class Traits:
    """What is known before any method runs: what the user said, and what was measured."""

    evidence: Evidence
    input_size: int
    output_size: int = 1
    activation: str = "auto"
    """The hidden activation where it was named."""
    hidden: tuple[int, ...] | None = None
    growth: Growth = Growth.UNSEEN
    reach: float = float("inf")
    """Radius of the largest ball around the origin inside the domain."""
    exact: bool = True
    """The answers carry float64 rounding only."""
    piecewise_linear: bool | None = None
    """None: not looked at."""
    two_valued: bool = False
    """Only two different answers were seen."""
    ranking: Mapping[str, float] = field(default_factory=dict)
    """How well a small student of each activation predicts rows it has not seen, best first; rows only."""
    single: bool = False
    """The answers carry float32 rounding only."""

    def candidates(self, serves: Serves) -> tuple[str, ...]:
        """The activations that the method serves and that what was said and measured leaves; none: not for it."""
        if self.activation != "auto":
            family = act.get(self.activation).family
            return (self.activation,) if family in (*serves.activations, *serves.when_named) else ()
        left = [name for name in _without_twins(serves.activations) if self._may_be(name)]
        ranked = list(self.ranking)
        return tuple(sorted(left, key=lambda name: ranked.index(name) if name in ranked else len(ranked)))

    def place(self, names: tuple[str, ...]) -> int:
        """How far up the best of ``names`` is in the ranking; 0 without one."""
        return min((i for i, name in enumerate(self.ranking) if name in names), default=len(self.ranking))

    def why_kinked(self) -> str:
        """Why units with kinks, in words."""
        named = self.activation != "auto"
        return f"the activation is {self.activation}" if named else "the answers are piecewise linear"

    def why_smooth(self) -> str:
        """Why smooth units, in words."""
        rough = "" if self.exact else "; they are not exact to float64 rounding"
        return f"{self.growth}{rough}"

    def _may_be(self, name: str) -> bool:
        if self.two_valued or name == "step":
            return self.two_valued and name == "step"
        if (self.growth is Growth.SLOW) is not (name in SLOW):
            return False
        kinked = name in (*PIECEWISE_LINEAR, *CLAMPED)
        if self.piecewise_linear is not None and self.piecewise_linear is not kinked:
            return False
        if self.growth is Growth.SATURATING:
            return name in (*SATURATING, *CLAMPED)
        return not (self.growth is Growth.LINEAR and name in (*SATURATING, *CLAMPED))


@dataclass(frozen=True)
class Problem:
    """What the user told us and what was measured before any method ran."""

    activations: tuple[str, ...]
    """Candidate hidden activations, most plausible first; one entry when the user named it."""
    hidden: tuple[int, ...] | None
    """Widths of the hidden layers when given."""
    precision: Precision
    seed: int = 0
    max_depth: int = 4
    """Most hidden layers a method may try when ``hidden`` is not given."""
    engine: Executor | str | None = None
    """Where independent fits may run side by side."""
    deadline: Deadline = field(default_factory=Deadline)
    """When the whole run must end."""
    suspects: np.ndarray | None = field(default=None, compare=False)
    """Points (n, d) near which the network that the method found before, on the same questions, is not the model."""
    kept: Any = field(default=None, compare=False)
    """What the method's finding kept for such a second look."""

    def within(self, seconds: float) -> float:
        """A method's own limit, or the seconds that are left of the run where these are fewer."""
        return min(seconds, max(self.deadline.left, 1e-3))

    def rng(self, *purpose: str | int) -> np.random.Generator:
        """A generator of its own for each named purpose, so that stages do not disturb each other."""
        return stream(self.seed, *purpose)


@dataclass(frozen=True)
class Finding:
    """What a method found, before certification."""

    network: Network | None
    reason: str = ""
    """Why there is no network, or why parts of it are not determined; with what would help."""
    warnings: tuple[str, ...] = ()
    undetermined: tuple[str, ...] = ()
    """Parts of the network that are known not to be determined, in words ("layer 1, unit 3: sign")."""
    alternatives: dict[str, float] = field(default_factory=dict)
    """Relative residual of each activation (or architecture) that was tried."""
    details: dict[str, Any] = field(default_factory=dict)
    """Arrays worth drawing: spectra, crossings, residual histories."""
    conclusive: bool = False
    """Without a network: whether the reason rules out every other method too. With one that is confirmed: whether no
    other method can determine more of it."""
    noise: float | None = None
    """Standard deviation of the error of one answer, where the method estimated it; None: answers are exact."""
    student: Network | None = None
    """Without a network: the best student the method ended with, which may serve as a copy of the function."""
    checks: tuple[Wanted, ...] = ()
    """Checks that the method wants made beside those the run makes of every network."""
    in_domain: bool = False
    """Whether parameters are meant up to changes that leave the function on the whole (bounded) domain as it is."""
    kept: Any = field(default=None, compare=False, repr=False)
    """What the method takes up again where it is told that its network and the model differ (``Problem.kept``)."""
    error_bars: ErrorBars | None = None
    """Error bars of answers, where the method knows them: no answer ever asked may then lie far beyond its own."""


class Method(Protocol):
    """One way of finding a network, what ``method=`` takes besides a name.

    With ``Evidence.QUERIES`` the evidence is a ``Meter``: questions pass through it, in named stages; ``BudgetSpent``
    passes through the method, unless it has something to return.

    With ``Evidence.ROWS`` it is ``Samples``: whitened inputs ``x`` (n, d), N(0, I) if the Gaussian assumption holds,
    answers ``y`` (n, outputs); ``batches()`` reads every fitting row in chunks, ``report(stage)`` shows progress. The
    held-out rows are not among them. The network of the finding is a function of the whitened inputs; the run takes
    the whitening back. ``problem.precision.noise`` is the noise the user stated; a finding states what it estimated.
    """

    @property
    def name(self) -> str: ...

    @property
    def serves(self) -> Serves: ...

    def suits(self, traits: Traits, /) -> str | None:
        """Why ``method="auto"`` should try this method, as a phrase; None: it should not."""
        ...

    def recover(self, evidence: Any, problem: Problem, /) -> Finding:
        """What was found, or why nothing was."""
        ...


def _without_twins(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if _TWINS.get(name) not in names)
