"""What a method is: a problem and a meter in, a finding out.

A method asks through the meter, in named stages, and returns what it found. It does not judge itself: the
pipeline certifies every finding on fresh queries and words the outcome.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

if TYPE_CHECKING:
    from unweave.certificates.certificate import Certificate
    from unweave.evidence.rows import Samples


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

    def rng(self, purpose: int = 0) -> np.random.Generator:
        """A generator of its own for each numbered purpose, so stages do not disturb each other."""
        return np.random.default_rng([self.seed, purpose])


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
    """Without a network: whether the reason rules out every other method too."""
    noise: float | None = None
    """Standard deviation of the error of one answer, where the method estimated it; None: answers are exact."""


class Method(Protocol):
    """One way of identifying. ``suits`` says in words why it applies, or None."""

    name: str

    def recover(self, meter: Meter, problem: Problem) -> Finding: ...


class SampleMethod(Protocol):
    """One way of learning from rows (x, y) alone; what ``learn(method=...)`` takes besides a name.

    ``samples.x`` (n, d) are whitened inputs, N(0, I) if the Gaussian assumption holds (``samples.gaussianity`` says),
    ``samples.y`` (n, outputs) the answers; ``samples.batches()`` reads every fitting row in chunks. The held-out rows
    are not among them. The network of the finding is a function of the whitened inputs: ``learn`` takes the
    whitening back, checks it on the held-out rows and words the outcome. ``problem.precision.noise`` is the noise
    the user stated, or 0 when it is unknown; ``problem.rng(k)`` draws random numbers. ``samples.report(stage)``
    shows progress. A finding states the noise it estimated in ``noise``, parts it could not determine in
    ``undetermined`` and, without a network, the reason with what would help.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs_gaussian(self) -> bool:
        """Whether inputs that are not Gaussian are worth a warning."""
        ...

    def learn(self, samples: Samples, problem: Problem) -> Finding: ...


@runtime_checkable
class HeldOutCheck(Protocol):
    """A sample method whose network is not the whole function (a first layer, say) also checks itself.

    It is given its own finding and the held-out rows, inputs whitened, and returns the certificate from which the
    outcome is judged (``agrees``, ``complete``, ``undetermined``).
    """

    def certify(self, finding: Finding, x: np.ndarray, y: np.ndarray) -> Certificate: ...
