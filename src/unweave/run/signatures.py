"""``identify`` and ``learn``: two signatures on one run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from unweave.core.arguments import file, flag, number, whole
from unweave.core.deadline import Deadline, hold
from unweave.core.domains import Box, Domain
from unweave.core.engine import one_thread
from unweave.core.errors import InputError, NotIdentified
from unweave.core.memory import peak_memory
from unweave.core.progress import LOG, Progress, Watcher
from unweave.core.streams import fresh_entropy, stream
from unweave.evidence.data import Data
from unweave.evidence.journal import open_journal, run_facts
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.evidence.rows import split_rows
from unweave.evidence.sources import open_source
from unweave.evidence.tables import Target
from unweave.methods.base import Method
from unweave.models.framed import Framed, Scaled, frame_box, frame_model, scale_model
from unweave.models.resolve import is_address, open_model, resolve
from unweave.result import Identification
from unweave.run.asked import (
    Budget,
    budget_note,
    check_place,
    check_wishes,
    repeatable_name,
    settle_budget,
    spell_method,
    watched,
)
from unweave.run.driver import drive
from unweave.run.queries import Asking
from unweave.run.rows import Recorded
from unweave.run.with_data import AskingAmongRows, AskingScaled

COPYING, IN_CASE = 0.4, 0.1
"""Shares of a time limit that are kept for a surrogate: where one is wanted, and where nobody said."""


def identify(
    model: Any,
    *,
    activation: str = "auto",
    hidden: int | Sequence[int] | None = None,
    budget: Budget = "auto",
    time_limit: float | None = None,
    surrogate: bool | None = None,
    domain: Domain | Data | None = None,
    method: str | Method = "auto",
    input_size: int | None = None,
    seed: int = 0,
    certificate_seed: int | None = None,
    engine: Executor | str | None = None,
    progress: Progress | bool | None = None,
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
        The hidden activation, or "auto" to find it; "ReLU" and "relu" are the same.
    hidden
        Widths of the hidden layers if known, a single number for one layer; found otherwise.
    budget
        The most queries that may be asked. None: any number. "auto", the default: any number of a model at hand, and
        10,000 of a served one.
    time_limit
        Seconds of work for the whole run, which then ends with the best of what is known; without it every method
        keeps to a limit of its own, some minutes. Processor time counts while unweave computes and time on the wall
        while it waits for the model, so that other work on the machine does not change the result.
    surrogate
        Whether to spend some more queries and seconds on a copy of the function where nothing is identified:
        ``found.surrogate``, with its error on fresh queries and on your rows. By default when the choice of the
        method is ours, unless the model is known not to be a network; False: never; True: always.
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
        True for a line on stderr with what is at work, what it cost, elapsed and remaining time; or a function, called
        with (stage, queries spent, budget) after every batch.
    throw
        Raise ``NotIdentified`` unless the outcome is identified.
    allow_pickle
        Load pickled model files, which can run any code they contain.
    journal
        A file that keeps every paid answer. The same call with the same journal replays them at no cost and
        goes on where the last run stopped; all runs together stay within the budget.

    Returns
    -------
    Identification
        The outcome, the network with its certificate, or the reason why there is none, and what it cost.

    Raises
    ------
    UnweaveError
        ``InputError`` for what cannot be used, before anything is asked; ``OracleError`` when the model fails;
        ``MissingExtra`` when its framework is not installed; ``JournalError`` when the journal does not belong to the
        model; ``NotIdentified`` with ``throw=True``.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> found = unweave.identify(lambda x: np.tanh(x @ [[1, 0.5], [-2, 1]] + 0.3) @ [1, 3], input_size=2)
    >>> found.identified, found.network
    (True, Network(2-2-1 tanh, 9 parameters))
    """
    began = time.monotonic()
    wishes = check_wishes(activation, hidden, method, Evidence.QUERIES, seed, engine, time_limit)
    domain, most = check_place(domain), settle_budget(budget, model)
    if journal is not None:
        journal = file("journal", journal)
    flag("throw", throw)
    if method == "auto" if surrogate is None else flag("surrogate", surrogate):
        spare = Deadline() if time_limit is None else Deadline(time_limit)
        share = COPYING if surrogate else IN_CASE
        early = wishes.deadline if time_limit is None else Deadline((1 - share) * time_limit, time_limit)
        wishes = replace(wishes, deadline=early, surrogate=spare, surrogate_of_strangers=bool(surrogate))
    place: Domain | None
    with hold(wishes.deadline):
        if isinstance(domain, Data):
            oracle = frame_model(model, domain, input_size=input_size, allow_pickle=allow_pickle)
            place = oracle.domain
        else:
            place = domain
            model = model if is_address(model) else open_model(model, allow_pickle)
            oracle = resolve(model, input_size=input_size, allow_pickle=allow_pickle, domain=domain)
            place = place if place is not None else getattr(oracle, "within", None)
            if isinstance(place, Box):
                oracle = frame_box(oracle, place)
                place = oracle.frame.box if isinstance(oracle, Scaled) else place
            elif place is None:
                oracle = scale_model(model, oracle)
    asked = {"activation": wishes.activation, "hidden": wishes.hidden, "method": spell_method(method)}
    with (
        watched(progress, "queries", time_limit) as onlooker,
        open_journal(journal, run_facts(oracle, place, seed, asked)) as book,
        one_thread(),
        hold(wishes.deadline),
    ):
        meter = Meter(
            oracle, domain=place, budget=most, progress=onlooker, journal=book, deadline=wishes.deadline
        )
        entropy = fresh_entropy() if certificate_seed is None else whole("certificate_seed", certificate_seed)
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
        "model": repeatable_name(model, oracle),
        "budget": budget,
        "certificate_seed": entropy,
        "domain": None if domain is None else repr(domain),
        "input_size": input_size,
    }
    warnings = (*found.warnings, *oracle.notes, *meter.warnings)
    if not found.identified:
        warnings += budget_note(budget, most, found.ledger.total)
    return _finish(found, asked, seed, oracle.name, warnings, began, throw)


def learn(
    x: Any,
    y: Any = None,
    *,
    activation: str = "auto",
    hidden: int | Sequence[int] | None = None,
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
    progress: Progress | bool | None = None,
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
        True for a line on stderr, or a function, called with (stage, rows, None) when a stage begins.
    throw
        Raise ``NotIdentified`` unless the outcome is identified.

    Returns
    -------
    Identification
        As of ``identify``; the certificate is that of the rows held out.

    Raises
    ------
    UnweaveError
        ``InputError`` for rows or settings that cannot be used; ``NotIdentified`` with ``throw=True``.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> x = np.random.default_rng(0).normal(size=(400, 2))
    >>> found = unweave.learn(x, np.tanh(x @ [1.0, -2.0] + 0.3))
    >>> found.identified, found.hidden
    (True, (1,))
    """
    began = time.monotonic()
    if hidden is not None and width is not None:
        raise InputError("give either hidden= or width=, not both")
    widths = hidden if width is None else (whole("width", width, 1),)
    flag("throw", throw)
    wishes = check_wishes(activation, widths, method, Evidence.ROWS, seed, engine, time_limit)
    noise = None if noise is None else number("noise", noise, least=0)
    held_out = None if held_out is None else whole("held_out", held_out, 1)
    source = open_source(x, y, target=target)
    split = split_rows(source, stream(seed, "rows", "held out"), num_held_out=held_out)
    with watched(progress, "rows", time_limit) as onlooker, one_thread(), hold(wishes.deadline):
        watcher = Watcher(onlooker)
        found = drive(Recorded(split, seed, noise, mean, covariance, watcher, engine), wishes)
    asked = {
        "call": "learn",
        "model": os.fspath(x) if isinstance(x, str | os.PathLike) else None,
        "activation": wishes.activation,
        "hidden": wishes.hidden,
        "method": spell_method(method),
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
    LOG.info("%r in %.1f s", found, found.seconds)
    if throw and not found.identified:
        raise NotIdentified(f"{found.outcome}: {found.reason}")
    return found
