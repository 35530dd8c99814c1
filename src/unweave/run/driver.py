"""The driver of a run: evidence in, an Identification out.

begin (measure what can be known before) -> traits -> choose methods -> recover -> certify -> claim, and the next method
where nothing was identified. What differs between questions to a model and recorded rows is behind ``Side``
(``run.queries``, ``run.rows``). A spent budget ends a run with what is known; a method that fails or runs out of memory
ends its attempt, not the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from unweave.certificates.certificate import Certificate
from unweave.certificates.claim import judge
from unweave.core.deadline import MORE_TIME, Deadline, hold
from unweave.core.errors import (
    AllowanceSpent,
    BeyondRange,
    BudgetSpent,
    InputError,
    JournalError,
    MissingExtra,
    NotANumber,
    OracleError,
    Outcome,
    OutsideDomain,
)
from unweave.core.network import Network
from unweave.core.progress import LOG
from unweave.evidence.kinds import Evidence
from unweave.evidence.ledger import Ledger
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding, Method, Problem, Traits
from unweave.methods.choose import Choice, asked_for, choose
from unweave.result import Identification
from unweave.run.certify import MOST_NOISE
from unweave.run.copies import USEFUL, Copy, keep_refused
from unweave.run.memory import nothing_fits, too_large
from unweave.run.wishes import Wishes

MOST_LOOKS = 3
"""How often a method goes on where a search has found disagreement; once where it begins from nothing."""


class Side(Protocol):
    """What the driver needs of questions to a model, or of recorded rows."""

    kind: Evidence

    @property
    def evidence(self) -> Any:
        """What a method is given."""
        ...

    @property
    def input_size(self) -> int: ...

    @property
    def precision(self) -> Precision | None: ...

    @property
    def ledger(self) -> Ledger: ...

    def begin(self, activation: str) -> str:
        """Measure what can be known before any method; the reason why none need be tried, or nothing."""
        ...

    def explain(self) -> str:
        """Why no method has found anything, where a few more questions tell."""
        ...

    def traits(self, activation: str, hidden: tuple[int, ...] | None) -> Traits: ...

    def warnings(self, method: Method) -> tuple[str, ...]: ...

    def allow(self, method: Method) -> AbstractContextManager[None]:
        """Inside, the method may cost what it states, and no more."""
        ...

    def change_view(self) -> bool:
        """Read the answers in another way, if one is plausible: behind a squashing, or as they are."""
        ...

    def outward(self, network: Network) -> Network:
        """The network that answers as the evidence does."""
        ...

    def nearby(self, x: np.ndarray) -> np.ndarray:
        """Points that may be asked close to ``x``, but not these: answers of a certificate reach no fit."""
        ...

    def distil(self, deadline: Deadline, students: Sequence[Network] = ()) -> Copy | None:
        """A copy of the function and its error on fresh evidence, where one can be made."""
        ...

    def certify(self, finding: Finding, precision: Precision) -> tuple[Network, Certificate, dict[str, Any]]:
        """The network as it is returned, its certificate, and details worth keeping."""
        ...


def drive(side: Side, wishes: Wishes) -> Identification:
    """Every stage in order, one method after the other until one identifies; a spent budget ends it."""
    progress = _Progress()
    try:
        named = None if wishes.method is None else wishes.method.name
        reason = nothing_fits(named, side.kind, side.input_size) or side.begin(wishes.activation)
        if reason:
            return _with_copy(_nothing(reason, side), side, wishes if wishes.surrogate_of_strangers else None)
        _try_methods(side, wishes, progress)
        while not _is_over(side, wishes, progress) and side.change_view():
            _try_methods(side, wishes, progress)
        if progress.best is not None and progress.best.network is None and not wishes.deadline.passed:
            told = side.explain()
            progress.best = replace(progress.best, reason=told) if told else progress.best
    except BudgetSpent as error:
        if progress.best is None:
            choice = progress.choice
            method = "" if choice is None else choice.method.name
            why = "" if choice is None else choice.reason
            progress.best = replace(_nothing(str(error), side), method=method, method_reason=why)
        else:
            progress.best = replace(progress.best, warnings=(*progress.best.warnings, str(error)))
    best = progress.best or _nothing("no method serves this model yet; name one with method=", side)
    best = _with_copy(best, side, wishes, progress.students)
    untold = tuple(trouble for trouble in progress.troubles if trouble not in best.reason)
    return replace(best, ledger=side.ledger, warnings=(*best.warnings, *untold))


def _with_copy(
    best: Identification, side: Side, wishes: Wishes | None, students: Sequence[Network] = ()
) -> Identification:
    """With a surrogate where there is neither a network nor a copy, and one is wanted."""
    if wishes is None or wishes.surrogate is None or best.surrogate is not None:
        return best
    try:
        with hold(wishes.surrogate):
            copy = side.distil(wishes.surrogate, students)
    except (NotANumber, OutsideDomain):  # the result stands without a copy
        return best
    if copy is None or (copy.error > USEFUL and not wishes.surrogate_of_strangers):
        return best
    return replace(best, details={**best.details, **copy.as_details()}, ledger=side.ledger)


@dataclass
class _Progress:
    """What a run has come to."""

    best: Identification | None = None
    choice: Choice | None = None
    troubles: list[str] = field(default_factory=list)
    students: list[Network] = field(default_factory=list)
    """What methods without a network ended with, as the answers are read now."""
    settled: bool = False
    """Whether there is a network that passes every check, of which nothing can tell more."""


def _try_methods(side: Side, wishes: Wishes, progress: _Progress) -> None:
    """One method after the other, as the answers are read now."""
    progress.students = []
    for choice, ranking in _choices(side, wishes):
        progress.choice = choice
        LOG.info("method %s: %s", choice.method.name, choice.reason)
        tight = too_large(choice.method.name, side.kind, side.input_size)
        if tight:
            if not any("takes at least" in told for told in progress.troubles):
                refused = replace(_nothing(tight, side), method=choice.method.name)
                progress.best = refused if progress.best is None else _better(progress.best, refused)
                progress.troubles.append(tight)
            continue
        attempt = _attempt(side, choice, wishes, ranking)
        progress.students += [] if attempt.student is None else [attempt.student]
        best = attempt.found if progress.best is None else _better(progress.best, attempt.found)
        progress.best = best
        for _ in range(MOST_LOOKS):
            looks_again = choice.method.serves.suspects or attempt.kept is not None
            suspects = _suspects(side, choice, attempt.found) if looks_again else None
            if suspects is None or wishes.deadline.passed:
                break
            # its earlier questions are remembered and cost nothing
            earlier, attempt = attempt, _attempt(side, choice, wishes, ranking, suspects, attempt.kept)
            progress.best = best = _better(best, attempt.found)
            if earlier.kept is None:  # it began from nothing
                break
        progress.troubles += [attempt.trouble] if attempt.trouble else []
        progress.settled = attempt.conclusive and not _num_failed(attempt.found)
        if attempt.conclusive or _is_over(side, wishes, progress):
            break


def _is_over(side: Side, wishes: Wishes, progress: _Progress) -> bool:
    """Whether nothing more need or can be tried."""
    best = progress.best
    if (best is not None and best.identified) or progress.settled or side.ledger.left == 0:
        return True
    if wishes.deadline.passed and best is not None:
        if MORE_TIME not in best.reason:
            late = wishes.deadline.words
            progress.best = replace(best, reason=f"{best.reason}; {late}".lstrip("; "))
        return True
    return False


@dataclass(frozen=True)
class _Attempt:
    """What came of one method."""

    found: Identification
    conclusive: bool = False
    """Whether its reason rules out every other method."""
    trouble: str = ""
    """How it broke off, if it did."""
    student: Network | None = None
    kept: Any = None
    """What the method takes up where it looks again."""


def _choices(side: Side, wishes: Wishes) -> list[tuple[Choice, dict[str, float]]]:
    """Methods to try, in order, with the residuals that ranked them."""
    if wishes.method is not None:
        return [(asked_for(wishes.method, wishes.activation), {})]
    traits = side.traits(wishes.activation, wishes.hidden)
    return [(choice, dict(traits.ranking)) for choice in choose(traits)]


def _attempt(
    side: Side,
    choice: Choice,
    wishes: Wishes,
    ranking: dict[str, float],
    suspects: np.ndarray | None = None,
    kept: Any = None,
) -> _Attempt:
    """What one method finds, and what may be claimed of it."""
    precision = side.precision
    assert precision is not None
    problem = Problem(
        choice.activations,
        wishes.hidden,
        precision,
        wishes.seed,
        engine=wishes.engine,
        deadline=wishes.deadline,
        suspects=suspects,
        kept=kept,
    )
    base = Identification(
        outcome=Outcome.NOT_IDENTIFIED,
        method=choice.method.name,
        method_reason=choice.reason,
        precision=precision,
    )
    try:
        with side.allow(choice.method):
            finding = choice.method.recover(side.evidence, problem)
        if finding.noise is not None:
            measured = precision.noise if side.kind is Evidence.QUERIES else np.inf
            precision = replace(precision, noise=min(finding.noise, MOST_NOISE * measured), kind="noisy")
        base = replace(
            base,
            reason=finding.reason,
            warnings=(*finding.warnings, *side.warnings(choice.method)),
            undetermined=finding.undetermined,
            alternatives={**ranking, **finding.alternatives},
            precision=precision,
            details=finding.details,
        )
        if finding.network is None:
            return _Attempt(base, finding.conclusive, student=finding.student)
        network, certificate, details = side.certify(finding, precision)
    except AllowanceSpent as error:
        refuted = isinstance(error, BeyondRange)  # as the answers are read now, no method finds anything
        return _Attempt(replace(base, reason=str(error)), refuted, "" if refuted else str(error))
    except (BudgetSpent, InputError, JournalError, MissingExtra, OracleError):
        raise
    except Exception as error:
        trouble = _failure(choice.method, error)
        details = {**base.details, "traceback": traceback.format_exc()}
        return _Attempt(replace(base, reason=trouble, details=details), trouble=trouble)
    outcome, reason = judge(
        network,
        certificate,
        side.kind,
        has_budget=side.ledger.budget is not None,
        reason=finding.reason,
        undetermined=finding.undetermined,
    )
    found = replace(
        base,
        outcome=outcome,
        reason=reason,
        network=None if outcome is Outcome.NOT_IDENTIFIED else side.outward(network),
        certificate=certificate,
        undetermined=(*finding.undetermined, *certificate.undetermined),
        warnings=(*base.warnings, *wishes.differences(network, outcome)),
        details={**base.details, **details, **keep_refused(side.outward(network), certificate, outcome)},
    )
    return _Attempt(found, finding.conclusive and certificate.points_agree, kept=finding.kept)


def _suspects(side: Side, choice: Choice, found: Identification) -> np.ndarray | None:
    """Points close to those where a search has found disagreement; none was asked."""
    certificate = found.certificate
    if found.identified or certificate is None or not side.ledger.left:
        return None
    places = certificate.fresh.get("suspects")
    return None if places is None or not certificate.points_agree else side.nearby(places)


def _failure(method: Method, error: Exception) -> str:
    """A method that broke off, in one line with what would help."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(": ")
    memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower()
    if memory:
        return (
            f"{method.name} ran out of memory ({text}); run it where there is more, or name another method="
        )
    return f"{method.name} broke off ({text}); name another method=, and report it: this should not happen"


def _better(earlier: Identification, later: Identification) -> Identification:
    """The one that reached more, or fails fewer checks.

    Of two that found nothing the later: what sent the model on to it is history.
    """
    gained = later.outcome.rank - earlier.outcome.rank
    if not gained and earlier.network is not None and later.network is not None:
        gained = int(_num_failed(later) < _num_failed(earlier))
    nothing = earlier.network is None and later.network is None
    better = later if gained > 0 or (gained == 0 and nothing) else earlier
    copies = [r.details["surrogate"] for r in (earlier, later) if "surrogate" in r.details]
    if better.network is not None or not copies:
        return better
    return replace(better, details={**better.details, "surrogate": min(copies, key=lambda c: c["error"])})


def _num_failed(found: Identification) -> float:
    """How many checks of its certificate a network does not pass; no number is as bad as no network."""
    certificate = found.certificate
    if certificate is None or found.network is None or found.network.is_open:
        return np.inf
    return int(not certificate.points_agree) + sum(not check.passed for check in certificate.checks)


def _nothing(reason: str, side: Side) -> Identification:
    return Identification(
        outcome=Outcome.NOT_IDENTIFIED, reason=reason, precision=side.precision, ledger=side.ledger
    )
