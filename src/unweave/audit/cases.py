"""audit: identify a model behind one defence after the other, and say how much of it comes back.

Every case is an ordinary ``identify`` on the defended model, with a time of its own. What came back is compared with
the model's own network where that can be read, else with what was identified without a defence: the share of hidden
units that match to ``TOLERANCE``, the largest error of their parameters, how far the outputs are off at fresh points
(``fidelity``; of a surrogate where nothing was identified), the queries and their price. Query limits are cases too: no
defence, and fractions of what the undefended model took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.comparison import compare
from unweave.core import clock
from unweave.core.arguments import listener, number, shown, whole
from unweave.core.domains import Domain, Everywhere
from unweave.core.errors import InputError, Outcome, UnweaveError
from unweave.core.network import Network
from unweave.core.oracle import Oracle
from unweave.models.defended import Defence, Defended, parse_defence
from unweave.models.resolve import resolve, resolve_network
from unweave.result import Identification
from unweave.run import identify
from unweave.run.asked import Budget, check_place, settle_budget

DEFENCES = (
    "none",
    "float32",
    "decimals=6",
    "decimals=4",
    "decimals=3",
    "decimals=2",
    "noise=1e-6",
    "noise=1e-4",
    "noise=1e-2",
    "clip=1",
    "labels",
)
LIMITS = (0.5, 0.25)
"""Query limits that are tried, as fractions of what the undefended model took."""
TOLERANCE = 1e-2
"""Relative error up to which a unit counts as recovered."""
NUM_FRESH = 500


@dataclass(frozen=True)
class Case:
    """One defence and what came back behind it."""

    defence: str
    outcome: Outcome
    found: str
    """The network that was found, in short; empty without one."""
    recovered: float
    """Share of the hidden units that match to 1 %."""
    parameter_error: float | None
    """Largest relative error of a matched unit's parameters."""
    fidelity: float | None
    """Root mean square difference of the outputs on fresh points, relative to their spread."""
    queries: int
    seconds: float
    price: float | None
    reason: str


@dataclass(frozen=True)
class Audit:
    """Every case of an audit, in order."""

    model: str
    reference: str
    """What the cases are compared with."""
    cases: tuple[Case, ...]
    cost: float | None = None
    """Price of one query."""

    def table(self) -> str:
        """One line a case, as the command prints it."""
        head = (
            "defence",
            "outcome",
            "network",
            "units",
            "parameters",
            "outputs",
            "queries",
            "seconds",
            "price",
        )
        rows = [head, *(self._row(case) for case in self.cases)]
        used = [i for i in range(len(head)) if head[i] != "price" or self.cost is not None]
        widths = [max(len(row[i]) for row in rows) for i in used]
        lines = [
            "  ".join(row[i].ljust(width) for i, width in zip(used, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        cases = [{**asdict(case), "outcome": str(case.outcome)} for case in self.cases]
        return {"model": self.model, "reference": self.reference, "cost": self.cost, "cases": cases}

    def report(self, path: str | Path) -> Path:
        """Write the audit as one self-contained HTML page."""
        from unweave.audit.page import write_page

        return write_page(self, Path(path))

    def _row(self, case: Case) -> tuple[str, ...]:
        return (
            case.defence,
            str(case.outcome),
            case.found or "-",
            f"{case.recovered:.0%}",
            "-" if case.parameter_error is None else f"{case.parameter_error:.1e}",
            "-" if case.fidelity is None else f"{case.fidelity:.1e}",
            f"{case.queries:,}",
            f"{case.seconds:.1f}",
            "-" if case.price is None else f"{case.price:,.2f}",
        )


def audit(
    model: Any,
    *,
    defences: Sequence[str | Defence] | None = None,
    limits: Sequence[float] = LIMITS,
    domain: Domain | None = None,
    budget: Budget = "auto",
    time_limit: float = 12.0,
    cost: float | None = None,
    input_size: int | None = None,
    seed: int = 0,
    allow_pickle: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Audit:
    """Identify ``model`` behind each defence and say what came back.

    Parameters
    ----------
    model
        Anything ``identify`` takes.
    defences
        Defences to try, such as "decimals=3" or "noise=1e-3"; the usual ones if not given.
    limits
        Query limits to try without a defence, as fractions of what the undefended model took.
    domain, budget, input_size, seed, allow_pickle
        As for ``identify``; the budget is that of each case.
    time_limit
        Seconds for each case.
    cost
        Price of one query, for the table.
    progress
        Called with (case, its number, how many there are) when a case begins.

    Returns
    -------
    Audit
        One case a defence; ``table()``, ``report(path)`` and ``to_json()`` tell it.

    Raises
    ------
    UnweaveError
        As ``identify``; ``InputError`` for a defence or limit that is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from unweave.audit import audit
    >>> model = lambda x: np.tanh(x @ [[1, 0.5], [-2, 1]] + 0.3) @ [1, 3]
    >>> found = audit(model, input_size=2, defences=["none", "labels"], limits=[])
    >>> [(case.defence, case.recovered) for case in found.cases]
    [('none', 1.0), ('labels', 0.0)]
    """
    check_place(domain)
    whole("seed", seed)
    cost = None if cost is None else number("cost", cost, least=0)
    listener("progress", progress)
    for name, given in (("defences", () if defences is None else defences), ("limits", limits)):
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise InputError(f"{name}={shown(given)}: give a list")
    limits = [number("limits", share, above=0) for share in limits]
    most = settle_budget(budget, model)
    oracle = resolve(model, input_size=input_size, allow_pickle=allow_pickle, domain=domain)
    chosen = [d if isinstance(d, Defence) else parse_defence(d) for d in (defences or _usual(oracle))]
    if any(not 0 < share < 1 for share in limits):
        raise InputError(f"limits={list(limits)}: give fractions between 0 and 1")
    judge = _Judge(oracle, _readable(model, allow_pickle), domain or Everywhere(), cost, seed)
    names = [str(d) for d in chosen] + [f"at most {share:.0%} of the queries" for share in limits]
    settings: dict[str, Any] = {"domain": domain, "seed": seed, "time_limit": time_limit}
    cases: list[Case] = []
    undefended: int | None = None
    for i, defence in enumerate(chosen):
        if progress is not None:
            progress(names[i], i + 1, len(names))
        found, seconds = _timed(Defended(oracle, defence, seed=seed), budget=most, **settings)
        cases.append(judge.case(names[i], found, seconds))
        if defence.kind == "none":
            undefended = found.ledger.total
    for name, share in zip(names[len(chosen) :], limits, strict=True):
        if undefended is None:
            break
        if progress is not None:
            progress(name, len(cases) + 1, len(names))
        found, seconds = _timed(oracle, budget=max(int(share * undefended), 1), **settings)
        cases.append(judge.case(name, found, seconds))
    return Audit(oracle.name, judge.kind, tuple(cases), cost)


class _Judge:
    """Compares what a case found with the model itself."""

    def __init__(
        self, oracle: Oracle, reference: Network | None, domain: Domain, cost: float | None, seed: int
    ):
        self.kind = (
            "the model's own network" if reference is not None else "what was identified without a defence"
        )
        self._reference, self._cost = reference, cost
        self._x = domain.sample(NUM_FRESH, oracle.input_size, np.random.default_rng([seed, NUM_FRESH]))
        self._y = oracle(self._x)

    def case(self, name: str, found: Identification, seconds: float) -> Case:
        network = found.network
        if self._reference is None and network is not None and found.identified and name == "none":
            self._reference = network
        recovered, error = (0.0, None) if network is None else self._against_reference(network)
        return Case(
            defence=name,
            outcome=found.outcome,
            found="" if network is None else network.describe(),
            recovered=recovered,
            parameter_error=error,
            fidelity=None if found.surrogate is None else self._fidelity(found.surrogate),
            queries=found.ledger.total,
            seconds=seconds,
            price=None if self._cost is None else self._cost * found.ledger.total,
            reason="" if found.identified else found.reason,
        )

    def _against_reference(self, network: Network) -> tuple[float, float | None]:
        """Share of the reference's hidden units that came back, and their largest error."""
        reference = self._reference
        if reference is None or network.input_size != reference.input_size:
            return 0.0, None
        hidden = compare(reference, network).per_layer[: len(reference.hidden)]
        errors = (
            np.concatenate([np.asarray(layer.unit_errors) for layer in hidden]) if hidden else np.zeros(0)
        )
        good = errors[errors <= TOLERANCE]
        share = len(good) / max(sum(reference.hidden), 1)
        return share, float(good.max()) if len(good) else None

    def _fidelity(self, network: Network) -> float | None:
        if network.is_open or network.output_size != self._y.shape[1]:
            return None
        spread = float(np.sqrt(np.mean(np.var(self._y, axis=0))))
        return float(np.sqrt(np.mean((network(self._x) - self._y) ** 2))) / max(spread, 1e-300)


def _usual(oracle: Oracle) -> list[str]:
    """The defences worth trying: top-k only where there are several outputs."""
    return [*DEFENCES, "top=1"] if oracle.output_size > 2 else list(DEFENCES)


def _readable(model: Any, allow_pickle: bool) -> Network | None:
    """The model's own network, where its parameters can be read."""
    try:
        return resolve_network(model, allow_pickle=allow_pickle)
    except UnweaveError:
        return None


def _timed(model: Any, **settings: Any) -> tuple[Identification, float]:
    began = clock.now()
    return identify(model, **settings), clock.now() - began
