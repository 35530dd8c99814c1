"""The side of a run that has recorded rows: held-out ones apart, inputs whitened, certificates on what no fit has seen.

read the source -> split off held-out rows -> whiten, check that inputs are Gaussian -> traits; then, for each network
found, the whitening is taken back and the held-out rows are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unweave.certificates.base import FreshRows
from unweave.certificates.certificate import Certificate
from unweave.certificates.first_layer import FirstLayerOnRows
from unweave.certificates.rows import certify_on_rows
from unweave.certificates.structure import check_repeats, check_structure
from unweave.core.arguments import numbers
from unweave.core.deadline import Deadline
from unweave.core.errors import InputError
from unweave.core.network import UNKNOWN, Network
from unweave.core.streams import stream
from unweave.evidence.gaussianity import check_gaussian
from unweave.evidence.kinds import Evidence
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Progress
from unweave.evidence.precision import Precision
from unweave.evidence.rows import Samples, Split
from unweave.evidence.whitening import Whitening
from unweave.methods.base import Finding, Method, Traits
from unweave.methods.rows.ranking import rank_activations
from unweave.run.copies import Copy


@dataclass
class Recorded:
    """Rows of a source, and what was measured of them."""

    split: Split
    seed: int
    noise: float | None
    mean: Any
    covariance: Any
    progress: Progress | None
    engine: Executor | str | None
    kind: Evidence = Evidence.ROWS

    @cached_property
    def evidence(self) -> Samples:
        """Whitened rows with what a method may want to know about them."""
        split = self.split
        whitening = choose_whitening(split.x, self.mean, self.covariance)
        whole = split.num_rows == len(split.x)
        return Samples(
            x=whitening(split.x),
            y=split.y,
            num_rows=split.num_rows,
            whitening=whitening,
            gaussianity=check_gaussian(split.x, stream(self.seed, "rows", "gaussianity")),
            source=None if whole else split.rows,
            engine=self.engine,
            progress=self.progress,
        )

    @property
    def precision(self) -> Precision:
        """How exact the answers can be: what the user said, or the rounding of their format."""
        y = self.split.y
        scale = float(np.sqrt(np.mean(np.var(y, axis=0))))
        if self.noise:
            return Precision(self.noise, scale, "noisy")
        single = bool(np.all(y == y.astype(np.float32)))
        size = float(np.sqrt(np.mean(y**2)))
        eps = 2.0**-23 if single else 2.0**-52
        return Precision(eps * size / np.sqrt(12), scale, "float32" if single else "float64")

    @property
    def input_size(self) -> int:
        return self.split.x.shape[1]

    @property
    def ledger(self) -> Ledger:
        held = len(self.split.held_x)
        return Ledger(None, {"fit": self.split.num_rows, "held out": held}, unit=str(Evidence.ROWS))

    def begin(self, activation: str) -> str:
        """The reason why no method need be tried, or nothing."""
        if np.all(self.split.y == self.split.y[:1]):
            return "y is the same in every row: a constant has no units to find"
        num_rows, size = self.evidence.x.shape
        if num_rows < size + 3:
            return f"{num_rows} rows for {size} inputs are too few for a single unit; give more rows"
        return ""

    def explain(self) -> str:
        """Rows tell no more."""
        return ""

    def allow(self, method: Method) -> AbstractContextManager[None]:
        """Rows cost nothing more."""
        return nullcontext()

    def traits(self, activation: str, hidden: tuple[int, ...] | None) -> Traits:
        """What the choice of a method depends on; small students rank the activations where none was named."""
        samples = self.evidence
        two_valued = samples.y.shape[1] == 1 and len(np.unique(samples.y)) == 2
        ranking = {}
        if activation == "auto" and not two_valued:
            ranking = rank_activations(samples, stream(self.seed, "rows", "ranking"))
        return Traits(
            Evidence.ROWS,
            samples.input_size,
            samples.y.shape[1],
            activation,
            hidden,
            exact=self.precision.kind == "float64",
            two_valued=two_valued,
            ranking=ranking,
        )

    def warnings(self, method: Method) -> tuple[str, ...]:
        """The warning a failed Gaussian check is worth to this method."""
        check = self.evidence.gaussianity
        if check is None or check.passes or not method.serves.gaussian:
            return ()
        return (
            f"{check.describe()}: {method.name} assumes it, so its starts may be off; the fit does not need it",
        )

    def change_view(self) -> bool:
        """Rows are read as they are."""
        return False

    def outward(self, network: Network) -> Network:
        """The network as it was found."""
        return network

    def nearby(self, x: np.ndarray) -> np.ndarray:
        """Nothing can be asked."""
        return x[:0]

    def distil(self, deadline: Deadline, students: Sequence[Network] = ()) -> Copy | None:
        """None: rows have no fresh questions; what a method proposed is kept anyway."""
        return None

    def certify(self, finding: Finding, precision: Precision) -> tuple[Network, Certificate, dict[str, Any]]:
        """The network in the original inputs, its certificate on the held-out rows, and its standard errors."""
        found, samples, split = finding.network, self.evidence, self.split
        assert found is not None
        samples.report("certificate")
        fresh = FreshRows(samples.whitening(split.held_x), split.held_y)
        network = samples.whitening.undo(found)
        if isinstance(found.upper, str) and found.upper == UNKNOWN:
            return network, _certify_first_layer(found, finding, fresh), {}
        if samples.whitening.num_lost == 0 and network.is_piecewise_linear and not network.is_open:
            network = network.normalised()
        noise = precision.noise if precision.kind != "float64" else None
        rows = split.rows.fitting_chunks() if not samples.in_memory else [(split.x, split.y)]
        wanted = tuple(check.make(found, fresh) for check in finding.checks)
        if precision.kind == "noisy" and not network.is_open and "step" not in network.activations:
            every = np.concatenate([split.held_x, split.x]), np.concatenate([split.held_y, split.y])
            wanted = (*wanted, *check_structure(network, *every, precision.noise))
            wanted = (*wanted, *check_repeats(*every, precision.noise))
        certificate, errors = certify_on_rows(
            network, split.held_x, split.held_y, rows, noise=noise, further=wanted
        )
        return network, certificate, {} if errors is None else {"standard_errors": errors}


def _certify_first_layer(network: Network, finding: Finding, fresh: FreshRows) -> Certificate:
    """Answers cannot be compared; what the method states of the layer can. Without that nothing is verified."""
    for check in finding.checks:
        if isinstance(check, FirstLayerOnRows):
            return check.certify(network, fresh)
    return Certificate(float("inf"), float("inf"), 0, 0.0, 1.0)


def choose_whitening(x: np.ndarray, mean: Any, covariance: Any) -> Whitening:
    """The given moments, or estimated ones where the rows do not look like N(0, I)."""
    n, d = x.shape
    if mean is not None or covariance is not None:
        mean = np.zeros(d) if mean is None else numbers("mean", mean).reshape(-1)
        covariance = np.eye(d) if covariance is None else numbers("covariance", covariance)
        if mean.shape != (d,):
            raise InputError(f"mean has {len(mean)} entries but x has {d} columns; give one for each")
        if not np.any(covariance):
            raise InputError("covariance is zero: inputs that never move tell nothing")
        return Whitening.of(mean, covariance, "given")
    middle = x.mean(axis=0)
    second = (x - middle).T @ (x - middle) / n
    shifted = np.max(np.abs(middle)) * np.sqrt(n)
    deviation = np.max(np.abs(second - np.eye(d))) * np.sqrt(n / 2)
    if shifted < 5 and deviation < 6:
        return Whitening.none(d)
    return Whitening.of(middle, second, "estimated")
