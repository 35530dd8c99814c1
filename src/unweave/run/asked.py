"""What the user said, in the types the run wants; refused in one line before any question where it cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.arguments import number, shown, whole
from unweave.core.deadline import Deadline
from unweave.core.domains import Domain
from unweave.core.errors import InputError
from unweave.core.oracle import Oracle
from unweave.core.progress import Progress, StageProgress
from unweave.evidence.data import Data
from unweave.evidence.kinds import Evidence
from unweave.evidence.ledger import check_budget
from unweave.methods.base import Method
from unweave.methods.choose import find_method
from unweave.models.http_model import HttpOracle
from unweave.models.http_served import DEFAULT_BUDGET
from unweave.models.resolve import is_address
from unweave.run.wishes import Wishes

Budget = int | str | None
"""Most queries; None: any number; "auto": any number of a model at hand, 10,000 of a served one."""


def check_wishes(
    activation: str,
    hidden: int | Sequence[int] | None,
    method: str | Method,
    evidence: Evidence,
    seed: int,
    engine: Executor | str | None,
    time_limit: float | None,
) -> Wishes:
    """Everything that queries and rows have in common."""
    name = "auto" if isinstance(activation, str) and activation == "auto" else act.get(activation).name
    if engine is not None and not isinstance(engine, Executor | str):
        raise InputError(f"engine={shown(engine)}: give threads, processes, a Dask address or an Executor")
    return Wishes(
        name,
        check_widths(hidden),
        find_method(method, evidence),
        whole("seed", seed),
        engine,
        check_limit(time_limit),
    )


def check_limit(time_limit: float | None) -> Deadline:
    """The moment at which a run that begins now must end."""
    return Deadline() if time_limit is None else Deadline(number("time_limit", time_limit, above=0))


def check_widths(hidden: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Widths of the hidden layers; a single number is one layer."""
    if hidden is None:
        return None
    remedy = f"hidden={shown(hidden)}: give one positive whole number for each hidden layer, (30, 9) say"
    if isinstance(hidden, str | bytes | dict | set | bool):
        raise InputError(remedy)
    try:
        widths = (hidden,) if isinstance(hidden, int | np.integer) else tuple(hidden)
    except TypeError as error:
        raise InputError(remedy) from error
    if not widths or any(
        isinstance(w, bool) or not isinstance(w, int | np.integer) or not 1 <= w < 10**7 for w in widths
    ):
        raise InputError(remedy)
    return tuple(int(w) for w in widths)


def check_place(domain: Any) -> Domain | Data | None:
    """Where questions may be asked."""
    if (
        domain is None
        or isinstance(domain, Data)
        or (isinstance(domain, Domain) and not isinstance(domain, type))
    ):
        return domain
    raise InputError(
        f"domain={shown(domain)}: give unweave.Ball(radius), unweave.Box(low, high), unweave.Normal() or "
        f"unweave.Data(rows)"
    )


def settle_budget(budget: Budget, model: Any) -> int | None:
    """The most queries of a run; "auto" is a number for models that somebody else serves."""
    if isinstance(budget, str) and budget == "auto":
        return DEFAULT_BUDGET if is_address(model) or isinstance(model, HttpOracle) else None
    if isinstance(budget, str):
        raise InputError(
            f"budget={shown(budget)}: give a whole number, at least 1, None for no limit, or auto"
        )
    check_budget(budget)
    return None if budget is None else int(budget)


def budget_note(budget: Budget, most: int | None, spent: int) -> tuple[str, ...]:
    """What a verdict says where nobody chose the budget and more than half of it is gone."""
    if budget != "auto" or most is None or 2 * spent < most:
        return ()
    return (
        f"{most:,} queries are the default budget of a served model: budget= allows more, budget=None any number",
    )


@contextmanager
def watched(
    progress: Progress | bool | None, unit: str, time_limit: float | None
) -> Iterator[Progress | None]:
    """Whoever looks on: a function, nobody, or with ``True`` a line on stderr."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with StageProgress(unit=unit, time_limit=time_limit, lines=True) as line:
            yield line
    elif callable(progress):
        yield progress
    else:
        raise InputError(f"progress={shown(progress)}: give True, or a function of (stage, spent, budget)")


def spell_method(method: str | Method) -> str:
    """The object as it is written in Python; its class where it does not tell its settings."""
    if isinstance(method, str):
        return method
    text = repr(method)
    return text if text.endswith(")") else f"{type(method).__name__}(...)"


def repeatable_name(model: Any, oracle: Oracle) -> str | None:
    """How to name the model in a command that repeats the run; addresses lose their user and query."""
    if is_address(model):
        return oracle.name
    return os.fspath(model) if isinstance(model, str | os.PathLike) else None
