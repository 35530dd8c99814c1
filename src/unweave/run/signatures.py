"""``identify`` and ``learn``: two signatures on one run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.deadline import Deadline
from unweave.core.domains import Domain
from unweave.core.engine import one_thread
from unweave.core.errors import InputError, NotIdentified
from unweave.core.memory import peak_memory
from unweave.core.oracle import Oracle
from unweave.core.progress import Progress, Watcher
from unweave.core.streams import fresh_entropy, stream
from unweave.evidence.data import Data
from unweave.evidence.journal import open_journal, run_facts
from unweave.evidence.kinds import Evidence
from unweave.evidence.ledger import check_budget
from unweave.evidence.meter import Meter
from unweave.evidence.rows import split_rows
from unweave.evidence.sources import open_source
from unweave.evidence.tables import Target
from unweave.methods.base import Method
from unweave.methods.choose import find_method
from unweave.models.framed import Framed, Scaled, frame_model, scale_model
from unweave.models.resolve import is_address, open_model, resolve
from unweave.result import Identification
from unweave.run.driver import Wishes, drive
from unweave.run.queries import Asking
from unweave.run.rows import Recorded
from unweave.run.with_data import AskingAmongRows, AskingScaled

COPYING = 0.4
"""Share of a time limit that is kept for a surrogate where one is wanted."""


def identify(
    model: Any,
    *,
    activation: str = "auto",
    hidden: Sequence[int] | None = None,
    budget: int | None = None,
    time_limit: float | None = None,
    surrogate: bool = False,
    domain: Domain | Data | None = None,
    method: str | Method = "auto",
    input_size: int | None = None,
    seed: int = 0,
    certificate_seed: int | None = None,
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
    time_limit
        Seconds for the whole run, which then ends with the best of what is known; without it every method keeps to a
        limit of its own, some minutes.
    surrogate
        Where nothing is identified, spend some more queries and seconds on a copy of the function:
        ``found.surrogate``, with its error on fresh queries.
    domain
        Where questions may be asked: ``Ball``, ``Box``, ``Normal``, or ``Data(rows)``, where your rows are; everywhere
        if not given.
    method
        "auto", the name of one method, or a ``Method``.
    input_size
        Number of inputs, for models that do not tell.
    seed
        Same seed, same questions, same network; all but the questions of the certificate.
    certificate_seed
        Where the questions of the certificate begin. Drawn from the system's entropy if not given, so that no model
        can know them before, and recorded in the result.
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
    wishes = _check_wishes(activation, hidden, method, Evidence.QUERIES, seed, engine, time_limit)
    if surrogate:
        spare = None if time_limit is None else Deadline(time_limit)
        early = wishes.deadline if time_limit is None else Deadline((1 - COPYING) * time_limit)
        wishes = replace(wishes, deadline=early, surrogate=Deadline() if spare is None else spare)
    check_budget(budget)
    place: Domain | None
    if isinstance(domain, Data):
        oracle = frame_model(model, domain, input_size=input_size, allow_pickle=allow_pickle)
        place = oracle.domain
    else:
        place = domain
        model = model if is_address(model) else open_model(model, allow_pickle)
        oracle = resolve(model, input_size=input_size, allow_pickle=allow_pickle, domain=domain)
        oracle = oracle if domain is not None else scale_model(model, oracle)
    asked = {"activation": wishes.activation, "hidden": wishes.hidden, "method": _spell(method)}
    with open_journal(journal, run_facts(oracle, place, seed, asked)) as book, one_thread():
        meter = Meter(
            oracle, domain=place, budget=budget, progress=progress, journal=book, deadline=wishes.deadline
        )
        entropy = fresh_entropy() if certificate_seed is None else int(certificate_seed)
        if book is not None and certificate_seed is None:
            entropy = int(book.keep("certificate_seed", entropy))
        if isinstance(oracle, Framed):
            side = AskingAmongRows.of(oracle, meter, book, seed, entropy)
        elif isinstance(oracle, Scaled):
            side = AskingScaled(meter, seed, entropy, frame=oracle)
        else:
            side = Asking(meter, seed, entropy)
        found = drive(side, wishes)
    asked |= {
        "model": _repeatable_name(model, oracle),
        "budget": budget,
        "certificate_seed": entropy,
        "domain": None if domain is None else repr(domain),
        "input_size": input_size,
    }
    warnings = (*found.warnings, *oracle.notes, *meter.warnings)
    return _finish(found, asked, seed, oracle.name, warnings, began, throw)


def learn(
    x: Any,
    y: Any = None,
    *,
    activation: str = "auto",
    hidden: Sequence[int] | None = None,
    width: int | None = None,
    method: str | Method = "auto",
    noise: float | None = None,
    mean: Any = None,
    covariance: Any = None,
    held_out: int | None = None,
    target: Target | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    engine: Executor | str | None = None,
    progress: Progress | None = None,
    throw: bool = False,
) -> Identification:
    """Recover a network from rows of inputs and answers alone.

    Parameters
    ----------
    x, y
        Inputs (n, d) and answers (n,) or (n, outputs); or, without y, a path (.npz, .csv, .parquet, a folder of such
        shards), a table (DataFrame, dictionary of columns), a pair, a data set or loader of torch, or an iterable of
        (x, y) chunks.
    activation
        The hidden activation, or "auto" to find it.
    hidden, width
        Widths of the hidden layers if known (``width=m`` is short for ``hidden=(m,)``); found otherwise.
    method
        "auto", the name of one method, or a ``Method``.
    noise
        Standard deviation of the error of one answer, if known; estimated otherwise.
    mean, covariance
        Moments of the inputs' distribution, if known; estimated where the rows do not look like N(0, I).
    held_out
        Rows kept from every fit for the certificate; a tenth of them, 16 to 1000, if not given.
    target
        Which columns of a table, or which array of an .npz file, are the answers.
    time_limit
        Seconds for the whole run; every method also keeps to a limit of its own.
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
    if hidden is not None and width is not None:
        raise InputError("give either hidden= or width=, not both")
    widths = hidden if width is None else (width,)
    wishes = _check_wishes(activation, widths, method, Evidence.ROWS, seed, engine, time_limit)
    if noise is not None and not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise={noise}: give the standard deviation of one answer, 0 or more")
    source = open_source(x, y, target=target)
    split = split_rows(source, stream(seed, "rows", "held out"), num_held_out=held_out)
    with one_thread():
        watcher = Watcher(progress)
        found = drive(Recorded(split, seed, noise, mean, covariance, watcher, engine), wishes)
    asked = {
        "call": "learn",
        "model": os.fspath(x) if isinstance(x, str | os.PathLike) else None,
        "activation": wishes.activation,
        "hidden": wishes.hidden,
        "method": _spell(method),
        "noise": noise,
        "held_out": held_out,
        "moments": None if mean is None and covariance is None else "given",
    }
    warnings = (*split.warnings, *found.warnings, *watcher.complaints)
    return _finish(found, asked, seed, source.name, warnings, began, throw)


def _finish(
    found: Identification,
    asked: dict[str, Any],
    seed: int,
    name: str,
    warnings: tuple[str, ...],
    began: float,
    throw: bool,
) -> Identification:
    found = replace(
        found,
        details={**found.details, "asked": asked},
        seconds=time.monotonic() - began,
        peak_memory=peak_memory(),
        seed=seed,
        model_name=name,
        warnings=warnings,
    )
    if throw and not found.identified:
        raise NotIdentified(f"{found.outcome}: {found.reason}")
    return found


def _check_wishes(
    activation: str,
    hidden: Sequence[int | None] | None,
    method: str | Method,
    evidence: Evidence,
    seed: int,
    engine: Executor | str | None,
    time_limit: float | None,
) -> Wishes:
    """What the user said, refused before any question where it cannot be used."""
    if activation != "auto":
        activation = act.get(activation).name
    deadline = Deadline() if time_limit is None else Deadline(time_limit)
    return Wishes(activation, _check_widths(hidden), find_method(method, evidence), seed, engine, deadline)


def _check_widths(hidden: Sequence[int | None] | None) -> tuple[int, ...] | None:
    if hidden is None:
        return None
    widths = tuple(hidden)
    if not widths or any(not isinstance(w, int | np.integer) or w < 1 for w in widths):
        raise InputError(f"widths {list(widths)}: give one positive whole number for each hidden layer")
    return tuple(int(w) for w in widths if w is not None)


def _spell(method: str | Method) -> str:
    """The object as it is written in Python; its class where it does not tell its settings."""
    if isinstance(method, str):
        return method
    text = repr(method)
    return text if text.endswith(")") else f"{type(method).__name__}(...)"


def _repeatable_name(model: Any, oracle: Oracle) -> str | None:
    """How to name the model in a command that repeats the run; addresses lose their user and query."""
    if is_address(model):
        return oracle.name
    return os.fspath(model) if isinstance(model, str | os.PathLike) else None
