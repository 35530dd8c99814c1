"""Python functions as oracles, and the one oracle class every adapter returns.

A function must map a batch (n, inputs) to answers (n, outputs) or (n,). Where no framework tells the number
of outputs, one question is asked for it, at a point of the domain; ``probes`` says so, for the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.core.arguments import shown
from unweave.core.domains import Domain
from unweave.core.errors import InputError, OracleError, UnweaveError
from unweave.core.oracle import as_real
from unweave.evidence.data import Data

MOST_INPUTS = 10**9
"""Larger questions fit into no memory."""


@dataclass
class CallableOracle:
    """Any batched function with the facts an oracle must state."""

    name: str
    input_size: int
    output_size: int
    dtype: str
    evaluate: Callable[[np.ndarray], Any]
    notes: tuple[str, ...] = ()
    probes: int = 0
    """Questions asked while the oracle was made, to learn its number of outputs."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return as_matrix(self.evaluate(x), len(x), self.name)


class WordOracle(CallableOracle):
    """The same for answers that are words; its notes tell their numbers."""

    notes: tuple[str, ...] = ()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        answers = super().__call__(x)
        if isinstance(self.evaluate, Words):
            self.notes = (self.evaluate.note,)
        return answers


def from_callable(
    function: Callable[[np.ndarray], Any],
    *,
    input_size: int | None,
    output_size: int | None = None,
    name: str | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from a batched function; one question tells its number of outputs and its precision."""
    name = name or f"function {getattr(function, '__qualname__', type(function).__name__)}"
    if input_size is None:
        raise InputError(f"{name}: the number of inputs is not known; pass input_size=...")
    raw = ask_once(function, input_size, name, domain)
    if answers_with_words(raw):
        words = Words(function)
        words.numbers[str(np.asarray(raw).item())] = 0
        return WordOracle(name, input_size, 1, "float64", words, (words.note,), probes=1)
    answers = as_matrix(raw, 1, name)
    check_size(name, "output_size", output_size, answers.shape[1])
    # JAX without x64 and float32 code generally answer in their own precision, and round their inputs to it.
    single = np.asarray(raw).dtype in (np.float32, np.float16)
    dtype = "float32" if single else "float64"
    return CallableOracle(name, input_size, answers.shape[1], dtype, function, probes=1)


class Words:
    """A function that answers with words, answering with a number for each: labels are numbered as they come up."""

    def __init__(self, function: Callable[[np.ndarray], Any]):
        self._function = function
        self.numbers: dict[str, int] = {}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        words = np.asarray(self._function(x))
        return np.array([self.numbers.setdefault(str(word), len(self.numbers)) for word in words.ravel()])

    @property
    def note(self) -> str:
        """Which number stands for which word."""
        return "labels by number: " + ", ".join(f"{number} {word}" for word, number in self.numbers.items())


def answers_with_words(raw: Any) -> bool:
    """Whether an answer is text, one word a question."""
    answers = np.asarray(raw)
    return (answers.size == 1 and answers.dtype.kind in "US") or (
        answers.dtype == object and answers.size == 1 and isinstance(answers.item(), str)
    )


def ask_once(
    function: Callable[[np.ndarray], Any], input_size: int, name: str, domain: Domain | Data | None
) -> Any:
    """The raw answer of ``function`` to one point of the domain (the origin where there is none)."""
    check_count(name, "input_size", input_size)
    if domain is None:
        point = np.zeros((1, input_size))
    else:
        point = domain.sample(1, input_size, np.random.default_rng(0))
        point = point if point.dtype == object else np.asarray(point, dtype=np.float64)
    try:
        return function(point)
    except UnweaveError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise OracleError(
            f"{name} failed on one point of shape (1, {input_size}): {type(error).__name__}: {reason}; "
            f"check input_size=, and that it maps (n, {input_size}) to (n, outputs)"
        ) from error


def as_matrix(answers: Any, num_rows: int, name: str) -> np.ndarray:
    """Answers as float64 (n, outputs): (n,) becomes one column, further dimensions are flattened."""
    try:
        values = as_real(answers, name)
    except OracleError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise OracleError(
            f"{name} did not answer with numbers ({error}); return an array (n, outputs)"
        ) from error
    if values.ndim == 0 or values.shape[0] != num_rows or values.size == 0:
        raise OracleError(
            f"{name} answered {num_rows} questions with shape {values.shape}; it must map (n, inputs) to "
            f"(n, outputs): for a function of one point pass lambda x: np.array([f(row) for row in x])"
        )
    return values.reshape(num_rows, -1)


def check_count(name: str, what: str, value: int) -> None:
    """Refuse sizes that are not positive whole numbers."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MOST_INPUTS:
        raise InputError(f"{name}: {what}={shown(value)} must be a positive whole number")


def check_size(name: str, what: str, given: int | None, actual: int) -> None:
    """Refuse a size given by the user that contradicts the model's own."""
    if given is not None and given != actual:
        raise InputError(f"{name}: {what}={given} does not fit the model, which has {actual}; leave it out")
