"""identify: from anything that answers f(x) to its weights, one call a stage.

resolve -> meter -> precision -> growth -> choose -> recover -> certify -> Identification
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unweave.certificates.certificate import NUM_POINTS, Certificate, active_points, certify
from unweave.core import activations as act
from unweave.core.domains import Domain
from unweave.core.engine import one_thread
from unweave.core.errors import BudgetSpent, InputError, NotIdentified, Outcome
from unweave.core.network import Network
from unweave.core.oracle import Oracle
from unweave.evidence.journal import open_journal, run_facts
from unweave.evidence.meter import Meter, Progress
from unweave.evidence.precision import Precision, measure_precision
from unweave.methods.base import Finding, Problem
from unweave.methods.choose import Choice, Traits, check_method, choose
from unweave.models.resolve import is_address, num_probes, resolve
from unweave.probes.growth import Growth, observe_growth
from unweave.probes.piecewise_linear import is_piecewise_linear
from unweave.result import Identification
from unweave.solve.weighted import weighted_polish

PARTLY = 1e-3
"""A network whose fresh error is above this is not worth returning as partly identified."""


def identify(
    model: Any,
    *,
    activation: str = "auto",
    hidden: Sequence[int] | None = None,
    budget: int | None = None,
    domain: Domain | None = None,
    method: str = "auto",
    input_size: int | None = None,
    seed: int = 0,
    engine: Executor | str | None = None,
    progress: Progress | None = None,
    throw: bool = False,
    allow_pickle: bool = False,
    journal: str | os.PathLike[str] | None = None,
) -> Identification:
    """Recover the weights and biases of ``model`` from its answers.

    Parameters
    ----------
    model
        Anything ``resolve`` accepts: a torch module, an ``.onnx`` file, a scikit-learn model, a function, the
        address of a served model, ...
    activation
        The hidden activation, or "auto" to find it.
    hidden
        Widths of the hidden layers if known; found otherwise.
    budget
        The most queries that may be asked.
    domain
        Where questions may be asked: ``Ball``, ``Box``, ``Normal``; everywhere if not given.
    method
        "auto", or the name of one method.
    input_size
        Number of inputs, for models that do not tell.
    seed
        Same seed, same questions, same result.
    engine
        Where independent fits may run.
    progress
        Called with (stage, queries spent, budget) after every batch.
    throw
        Raise ``NotIdentified`` unless the outcome is identified.
    allow_pickle
        Load pickled model files, which can run any code they contain.
    journal
        A file that keeps every paid answer. The same call with the same journal replays them at no cost and
        goes on where the last run stopped; all runs together stay within the budget.
    """
    began = time.monotonic()
    if activation != "auto":
        activation = act.get(activation).name
    widths = _check_widths(hidden)
    check_method(method)
    oracle = resolve(model, input_size=input_size, allow_pickle=allow_pickle, domain=domain)
    settings = {"activation": activation, "hidden": widths, "method": method}
    with open_journal(journal, run_facts(oracle, domain, seed, settings)) as book, one_thread():
        meter = Meter(oracle, domain=domain, budget=budget, progress=progress, journal=book)
        found = _Run(meter, activation, widths, method, seed, engine).identify()
    asked = {
        "model": _repeatable_name(model, oracle),
        "activation": activation,
        "hidden": widths,
        "budget": budget,
        "domain": None if domain is None else repr(domain),
        "method": method,
        "input_size": input_size,
    }
    found = replace(
        found,
        details={**found.details, "asked": asked},
        ledger=meter.ledger,
        seconds=time.monotonic() - began,
        seed=seed,
        model_name=oracle.name,
        warnings=(*found.warnings, *oracle.notes, *meter.warnings),
    )
    if throw and not found.identified:
        raise NotIdentified(f"{found.outcome}: {found.reason}")
    return found


@dataclass
class _Run:
    meter: Meter
    activation: str
    hidden: tuple[int, ...] | None
    method: str
    seed: int
    engine: Executor | str | None
    num_certificates: int = 0

    def identify(self) -> Identification:
        """Every stage in order; a spent budget ends it with what is known."""
        precision, choice, best = None, None, None
        try:
            self.meter.charge_probes(num_probes(self.meter.oracle))
            precision = measure_precision(self.meter, self._rng(1))
            self.meter.check_replayed(precision.noise, precision.scale)
            growth = observe_growth(self.meter, precision, self._rng(2))
            if growth is Growth.CONSTANT and not self._two_valued():
                return _nothing(
                    "the answers are the same everywhere: a constant has no units to find", precision
                )
            choices = self._choose(precision, growth)
            for choice in choices:
                found = self._try(choice, precision)
                best = found if best is None else _better(best, found)
                if best.identified or best.details.get("conclusive") or self.meter.ledger.left == 0:
                    break
        except BudgetSpent as error:
            if best is None:
                method = "" if choice is None else choice.method.name
                reason = "" if choice is None else choice.reason
                return replace(_nothing(str(error), precision), method=method, method_reason=reason)
            return replace(best, warnings=(*best.warnings, str(error)))
        if best is None:
            return _nothing("no method serves this model yet; name one with method=", precision)
        return best

    def _two_valued(self) -> bool:
        """Whether exactly two different answers were seen so far: a decision, not a number."""
        return self.meter.output_size == 1 and len(np.unique(self.meter.transcript()[1])) == 2

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])

    def _choose(self, precision: Precision, growth: Growth) -> list[Choice]:
        """Look at what the choice depends on, asking no more than it needs."""
        piecewise_linear, exact = False, precision.kind == "float64"
        undecided = self.method == "auto" and self.activation == "auto"
        two_valued = self._two_valued()
        if undecided and not two_valued and growth in (Growth.LINEAR, Growth.UNSEEN):
            num_segments = 6 if exact else 12
            piecewise_linear = is_piecewise_linear(
                self.meter, precision, self._rng(6), num_segments=num_segments
            )
        reach = self.meter.domain.reach(self.meter.input_size)
        traits = Traits(growth, reach, exact, piecewise_linear, self.meter.input_size, two_valued)
        return choose(self.method, self.activation, traits)

    def _try(self, choice: Choice, precision: Precision) -> Identification:
        problem = Problem(choice.activations, self.hidden, precision, self.seed, engine=self.engine)
        finding = choice.method.recover(self.meter, problem)
        base = Identification(
            outcome=Outcome.NOT_IDENTIFIED,
            reason=finding.reason,
            method=choice.method.name,
            method_reason=choice.reason,
            warnings=finding.warnings,
            undetermined=finding.undetermined,
            alternatives=finding.alternatives,
            precision=precision,
            details={**finding.details, "conclusive": True} if finding.conclusive else finding.details,
        )
        if finding.network is None:
            return base
        network = finding.network
        certificate = self._certify(network, precision)
        if not network.is_open and not certificate.agrees and certificate.max_relative_error < PARTLY:
            network = self._sharpen(network, precision)
            certificate = self._certify(network, precision)
        if _is_rough(network, certificate, precision):
            network = self._spread_out(network, precision)
            certificate = self._certify(network, precision)
        outcome, reason = judge(finding, certificate)
        network = None if outcome is Outcome.NOT_IDENTIFIED else network
        undetermined = (*finding.undetermined, *certificate.undetermined)
        if network is not None and self.hidden not in (None, network.hidden):
            widths = f"the hidden widths found, {list(network.hidden)}, differ from those given"
            base = replace(base, warnings=(*base.warnings, widths))
        return replace(
            base,
            outcome=outcome,
            reason=reason,
            network=network,
            certificate=certificate,
            undetermined=undetermined,
        )

    def _certify(self, network: Network, precision: Precision) -> Certificate:
        """A certificate on points of its own: no other one of this run has asked them, and no fit will see them."""
        self.num_certificates += 1
        rng = np.random.default_rng([self.seed, 3, self.num_certificates])
        return certify(network, self.meter, precision, rng)

    def _spread_out(self, network: Network, precision: Precision) -> Network:
        """Two more answers a parameter from all over the domain, and a fit on everything asked.

        As few answers as let a network fit leave one of rounded or noisy answers open where none was asked.
        """
        size, rng = self.meter.input_size, self._rng(7)
        room = self.meter.ledger.left - NUM_POINTS
        num_points = int(max(min(network.num_parameters, room / 2), 0))
        points = np.concatenate(
            [
                self.meter.domain.sample(num_points, size, rng),
                self.meter.domain.edge(num_points // 2, size, rng),
                active_points(network, num_points // 2, rng),
            ]
        )
        with self.meter.stage("sharpen"):
            self.meter.ask(points[self.meter.domain.contains(points)])
        return weighted_polish(
            network, *self.meter.transcript(), precision.noise, unit=precision.unit, max_steps=10
        )

    def _sharpen(self, network: Network, precision: Precision) -> Network:
        """One more answer a parameter where the units are active, and a weighted fit on everything asked."""
        points = active_points(network, network.num_parameters, self._rng(5))
        points = points[self.meter.domain.contains(points)]
        with self.meter.stage("sharpen"):
            self.meter.ask(points)
        return weighted_polish(
            network, *self.meter.transcript(), precision.noise, unit=precision.unit, max_steps=6
        )


def judge(finding: Finding, certificate: Certificate) -> tuple[Outcome, str]:
    """The outcome that the certificate supports, and the reason when it is not ``identified``."""
    if "num_planes_confirmed" in certificate.checks:
        missing, shown = (
            int(certificate.checks[f"num_planes_{kind}"]) for kind in ("unconfirmed", "confirmed")
        )
        if missing >= shown:
            reason = (
                f"{missing} of {missing + shown} hyperplanes of the first layer do not show on fresh lines"
            )
            return Outcome.NOT_IDENTIFIED, f"{finding.reason}; {reason}"
        return Outcome.PARTLY, finding.reason
    kinks = int(certificate.checks.get("num_unexplained_kinks", 0))
    if kinks:
        return (
            Outcome.PARTLY,
            f"{kinks} kinks on fresh lines are not explained by the network: a unit is missing",
        )
    if not certificate.agrees:
        reason = (
            f"fresh answers differ by up to {certificate.max_relative_error:.1e} (allowed "
            f"{certificate.tolerance:.1e}); a larger budget or another method= may help"
        )
        partly = certificate.max_relative_error <= PARTLY
        return (Outcome.PARTLY if partly else Outcome.NOT_IDENTIFIED), f"{finding.reason} {reason}".strip()
    if not certificate.complete:
        reason = f"the budget left only {certificate.num_points} fresh queries for the certificate; raise the budget"
        return Outcome.PARTLY, f"{finding.reason}; {reason}" if finding.reason else reason
    if finding.undetermined or certificate.undetermined:
        count = len(finding.undetermined) + len(certificate.undetermined)
        reason = f"the function is recovered, but {count} of its parts are not determined by the answers"
        return Outcome.PARTLY, finding.reason or reason
    return Outcome.IDENTIFIED, finding.reason


def _is_rough(network: Network, certificate: Certificate, precision: Precision) -> bool:
    """Whether a smooth network of inexact answers is wrong on fresh points but may only lack answers."""
    smooth = not network.is_open and not any(
        name.startswith(("relu", "leaky_relu")) for name in network.activations
    )
    inexact = precision.kind in ("rounded", "noisy", "float32")
    return smooth and inexact and not certificate.agrees and certificate.max_relative_error < 1


def _repeatable_name(model: Any, oracle: Oracle) -> str | None:
    """How to name the model in a command that repeats the run; addresses lose their user and query."""
    if is_address(model):
        return oracle.name
    return os.fspath(model) if isinstance(model, str | os.PathLike) else None


def _better(earlier: Identification, later: Identification) -> Identification:
    """The one that reached more. Of two that found nothing the later: what sent the model on to it is history."""
    gained = later.outcome.rank - earlier.outcome.rank
    nothing = earlier.network is None and later.network is None
    return later if gained > 0 or (gained == 0 and nothing) else earlier


def _nothing(reason: str, precision: Precision | None) -> Identification:
    return Identification(outcome=Outcome.NOT_IDENTIFIED, reason=reason, precision=precision)


def _check_widths(hidden: Sequence[int] | None) -> tuple[int, ...] | None:
    if hidden is None:
        return None
    widths = tuple(int(w) for w in hidden)
    if not widths or any(w < 1 for w in widths):
        raise InputError(f"hidden={list(hidden)}: give one positive width for each hidden layer")
    return widths
