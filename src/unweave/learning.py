"""learn: from recorded rows (x, f(x)) to an Identification, one call a stage.

read the source -> split off held-out rows -> whiten, check that inputs are Gaussian -> choose methods -> recover ->
certify on the held-out rows -> judge. A run either returns a network whose certificate says how it agrees with rows
no fit has seen, or says what is missing and what would help.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unweave.certificates.certificate import Certificate
from unweave.certificates.rows import certify_on_rows
from unweave.core import activations as act
from unweave.core.engine import one_thread
from unweave.core.errors import InputError, NotIdentified, Outcome
from unweave.evidence.gaussianity import check_gaussian
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Progress
from unweave.evidence.precision import Precision
from unweave.evidence.rows import Samples, Split, split_rows
from unweave.evidence.sources import open_source
from unweave.evidence.whitening import Whitening
from unweave.methods.base import Finding, HeldOutCheck, Problem, SampleMethod
from unweave.methods.choose_samples import SampleChoice, choose_for_samples, named_method
from unweave.pipeline import judge
from unweave.result import Identification


def learn(
    x: Any,
    y: Any = None,
    *,
    activation: str = "auto",
    hidden: Sequence[int] | None = None,
    width: int | None = None,
    method: str | SampleMethod = "auto",
    noise: float | None = None,
    mean: Any = None,
    covariance: Any = None,
    held_out: int | None = None,
    seed: int = 0,
    engine: Executor | str | None = None,
    progress: Progress | None = None,
    throw: bool = False,
) -> Identification:
    """Recover a network from rows of inputs and answers alone.

    Parameters
    ----------
    x, y
        Inputs (n, d) and answers (n,) or (n, outputs); or, without y, a path (.npz with x and y, .parquet, a folder
        of such shards) or an iterable of (x, y) chunks.
    activation
        The hidden activation, or "auto" to find it.
    hidden, width
        Widths of the hidden layers if known (``width=m`` is short for ``hidden=(m,)``); found otherwise.
    method
        "auto", the name of one method, or a ``SampleMethod``.
    noise
        Standard deviation of the error of one answer, if known; estimated otherwise.
    mean, covariance
        Moments of the inputs' distribution, if known; estimated where the rows do not look like N(0, I).
    held_out
        Rows kept from every fit for the certificate; a tenth of them, 16 to 1000, if not given.
    seed
        Same seed, same rows held out, same starts, same result.
    engine
        Where independent pieces may run, for methods that have any: sums over rows, say.
    progress
        Called with (stage, rows, None) when a stage begins.
    throw
        Raise ``NotIdentified`` unless the outcome is identified.
    """
    began = time.monotonic()
    widths = _check_widths(hidden, width)
    if activation != "auto":
        activation = act.get(activation).name
    called = method if isinstance(method, str) else _spell(method)
    if isinstance(method, str) and method != "auto":
        method = named_method(method)
    if noise is not None and not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise={noise}: give the standard deviation of one answer, 0 or more")
    source = open_source(x, y)
    split = split_rows(source, np.random.default_rng([seed, 1]), num_held_out=held_out)
    with one_thread():
        run = _Run(split, activation, widths, method, noise, seed, progress, engine)
        found = run.learn(mean, covariance)
    asked = {
        "call": "learn",
        "model": os.fspath(x) if isinstance(x, str | os.PathLike) else None,
        "activation": activation,
        "hidden": widths,
        "method": called,
        "noise": noise,
        "held_out": held_out,
        "moments": None if mean is None and covariance is None else "given",
    }
    found = replace(
        found,
        details={**found.details, "asked": asked},
        seconds=time.monotonic() - began,
        seed=seed,
        model_name=source.name,
        warnings=(*split.warnings, *found.warnings),
    )
    if throw and not found.identified:
        raise NotIdentified(f"{found.outcome}: {found.reason}")
    return found


@dataclass
class _Run:
    split: Split
    activation: str
    hidden: tuple[int, ...] | None
    method: str | SampleMethod
    noise: float | None
    seed: int
    progress: Progress | None
    engine: Executor | str | None

    def learn(self, mean: Any, covariance: Any) -> Identification:
        """Every stage in order."""
        split = self.split
        precision = self._precision()
        if np.all(split.y == split.y[:1]):
            return self._nothing("y is the same in every row: a constant has no units to find", precision)
        samples = self._prepare(mean, covariance)
        if len(samples.x) < samples.input_size + 3:
            return self._nothing(
                f"{len(samples.x)} rows for {samples.input_size} inputs are too few for a single unit; "
                f"give more rows",
                precision,
            )
        best: Identification | None = None
        choices, residuals = choose_for_samples(
            self.method, self.activation, samples, np.random.default_rng([self.seed, 2])
        )
        for choice in choices:
            found = self._try(choice, samples, precision, residuals)
            if best is None or found.outcome.rank > best.outcome.rank:
                best = found
            if best.identified or best.details.get("conclusive"):
                break
        assert best is not None
        return best

    def _prepare(self, mean: Any, covariance: Any) -> Samples:
        """Whitened rows with what a method may want to know about them."""
        split = self.split
        whitening = choose_whitening(split.x, mean, covariance)
        whole = split.num_rows == len(split.x)
        return Samples(
            x=whitening(split.x),
            y=split.y,
            num_rows=split.num_rows,
            whitening=whitening,
            gaussianity=check_gaussian(split.x, np.random.default_rng([self.seed, 3])),
            source=None if whole else split.rows,
            engine=self.engine,
            progress=self.progress,
        )

    def _precision(self) -> Precision:
        """How exact the answers can be: what the user said, or the rounding of their format."""
        y = self.split.y
        scale = float(np.sqrt(np.mean(np.var(y, axis=0))))
        if self.noise:
            return Precision(self.noise, scale, "noisy")
        single = bool(np.all(y == y.astype(np.float32)))
        size = float(np.sqrt(np.mean(y**2)))
        eps = 2.0**-23 if single else 2.0**-52
        return Precision(eps * size / np.sqrt(12), scale, "float32" if single else "float64")

    def _try(
        self, choice: SampleChoice, samples: Samples, precision: Precision, residuals: dict[str, float]
    ) -> Identification:
        problem = Problem(choice.activations, self.hidden, precision, self.seed, engine=self.engine)
        finding = choice.method.learn(samples, problem)
        if finding.noise is not None:
            precision = replace(precision, noise=finding.noise, kind="noisy")
        base = Identification(
            outcome=Outcome.NOT_IDENTIFIED,
            reason=finding.reason,
            ledger=self._ledger(samples),
            method=choice.method.name,
            method_reason=choice.reason,
            warnings=(*finding.warnings, *_assumption(choice.method, samples)),
            undetermined=finding.undetermined,
            alternatives={**residuals, **finding.alternatives},
            precision=precision,
            details={**finding.details, "conclusive": True} if finding.conclusive else finding.details,
        )
        if finding.network is None:
            return base
        samples.report("certificate")
        network, certificate, errors = self._certify(choice.method, finding, samples, precision)
        outcome, reason = judge(finding, certificate)
        undetermined = (*finding.undetermined, *certificate.undetermined)
        if self.activation not in ("auto", *network.activations[:-1]) and network.hidden:
            other = f"the units found are {network.activations[0]}, not {self.activation} as given"
            base = replace(base, warnings=(*base.warnings, other))
        details = base.details if errors is None else {**base.details, "standard_errors": errors}
        return replace(
            base,
            outcome=outcome,
            reason=_about_rows(reason),
            network=None if outcome is Outcome.NOT_IDENTIFIED else network,
            certificate=certificate,
            undetermined=undetermined,
            details=details,
        )

    def _certify(self, method: SampleMethod, finding: Finding, samples: Samples, precision: Precision):
        """The network in the original inputs, its certificate on the held-out rows, and its standard errors."""
        split, network = self.split, finding.network
        assert network is not None
        if isinstance(method, HeldOutCheck):
            certificate: Certificate = method.certify(finding, samples.whitening(split.held_x), split.held_y)
            return samples.whitening.undo(network), certificate, None
        network = samples.whitening.undo(network)
        if samples.whitening.num_lost == 0:
            network = network.normalised() if _rescalable(network) else network
        noise = precision.noise if precision.kind != "float64" else None
        rows = split.rows.fitting_chunks() if not samples.in_memory else [(split.x, split.y)]
        certificate, errors = certify_on_rows(network, split.held_x, split.held_y, rows, noise=noise)
        return network, certificate, errors

    def _ledger(self, samples: Samples) -> Ledger:
        return Ledger(None, {"fit": samples.num_rows, "held out": len(self.split.held_x)}, unit="rows")

    def _nothing(self, reason: str, precision: Precision) -> Identification:
        rows = Ledger(None, {"read": self.split.num_rows + len(self.split.held_x)}, unit="rows")
        return Identification(outcome=Outcome.NOT_IDENTIFIED, reason=reason, precision=precision, ledger=rows)


def choose_whitening(x: np.ndarray, mean: Any, covariance: Any) -> Whitening:
    """The given moments, or estimated ones where the rows do not look like N(0, I)."""
    n, d = x.shape
    if mean is not None or covariance is not None:
        mean = np.zeros(d) if mean is None else np.asarray(mean, dtype=np.float64).reshape(-1)
        covariance = np.eye(d) if covariance is None else covariance
        if mean.shape != (d,):
            raise InputError(f"mean has {len(mean)} entries but x has {d} columns; give one for each")
        return Whitening.of(mean, covariance, "given")
    middle = x.mean(axis=0)
    second = (x - middle).T @ (x - middle) / n
    shifted = np.max(np.abs(middle)) * np.sqrt(n)
    deviation = np.max(np.abs(second - np.eye(d))) * np.sqrt(n / 2)
    if shifted < 5 and deviation < 6:
        return Whitening.none(d)
    return Whitening.of(middle, second, "estimated")


def _assumption(method: SampleMethod, samples: Samples) -> tuple[str, ...]:
    """The warning a failed Gaussian check is worth to this method."""
    check = samples.gaussianity
    if check is None or check.passes or not method.needs_gaussian:
        return ()
    return (
        f"{check.describe()}: {method.name} assumes it, so its starts may be off; the fit does not need it",
    )


def _rescalable(network) -> bool:
    return all(act.get(name).degree == 1 for name in network.activations[:-1]) and network.num_layers > 1


def _about_rows(reason: str) -> str:
    return reason.replace("fresh answers differ", "held-out rows differ").replace(
        "a larger budget or another method= may help", "more rows or another method= may help"
    )


def _spell(method: SampleMethod) -> str:
    """The object as it is written in Python; its class where it does not tell its settings."""
    text = repr(method)
    return text if text.endswith(")") else f"{type(method).__name__}(...)"


def _check_widths(hidden: Sequence[int] | None, width: int | None) -> tuple[int, ...] | None:
    if hidden is not None and width is not None:
        raise InputError("give either hidden= or width=, not both")
    widths = (width,) if hidden is None else tuple(hidden)
    if widths == (None,):
        return None
    if not widths or any(not isinstance(w, int | np.integer) or w < 1 for w in widths):
        raise InputError(f"widths {list(widths)}: give one positive whole number for each hidden layer")
    return tuple(int(w) for w in widths if w is not None)
