"""What an oracle is: a batch of inputs in, a batch of outputs out, and a few facts about the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from unweave.core.errors import OracleError


@runtime_checkable
class Oracle(Protocol):
    """Anything that answers f(x) in batches.

    ``dtype`` is the precision the model computes in as far as the adapter can tell ("float64" or "float32");
    the precision actually delivered is measured (``evidence.precision``). ``notes`` are sentences the verdict
    must repeat, for instance that log-odds stand in for logits.
    """

    name: str
    input_size: int
    output_size: int
    dtype: str
    notes: tuple[str, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Outputs (n, output_size) in float64 for inputs (n, input_size) in float64."""
        ...


@runtime_checkable
class AnswersInPieces(Protocol):
    """An oracle that answers a batch piece by piece, so that what is answered is kept when the rest fails."""

    def answer_in_pieces(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Answers to consecutive rows of ``x``, in order, as many at a time as one request brings."""
        ...


@runtime_checkable
class SnapsInputs(Protocol):
    """An oracle whose inputs are rounded in other coordinates than its own."""

    def snap(self, x: np.ndarray) -> np.ndarray:
        """The inputs nearest to the rows of ``x`` that the model takes without rounding."""
        ...


def as_real(answers: Any, name: str) -> np.ndarray:
    """A float64 copy of what a model answered; complex numbers are refused, not cut."""
    values = np.asarray(answers)
    if np.iscomplexobj(values):
        raise OracleError(f"{name} answered with complex numbers; let it return their real part")
    return np.array(values, dtype=np.float64)
