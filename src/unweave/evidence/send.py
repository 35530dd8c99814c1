"""A batch of questions to a model, its answers checked: shape, that they are numbers; its failures become ours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unweave.core import clock
from unweave.core.errors import NotANumber, OracleError, UnweaveError
from unweave.core.oracle import AnswersInPieces, Oracle, as_real

LARGEST_ANSWER = 1e150
"""Larger answers cannot be squared, and count as infinite."""


def send(oracle: Oracle, batch: np.ndarray) -> Iterator[np.ndarray]:
    """The model's answers, piece by piece, each checked."""
    done = 0
    for piece in _pieces(oracle, batch):
        if piece.ndim != 2 or piece.shape[1] != oracle.output_size or not 0 < len(piece) <= len(batch) - done:
            raise OracleError(
                f"{oracle.name} answered with shape {piece.shape}; "
                f"expected {(len(batch), oracle.output_size)}"
            )
        usable = np.abs(piece) < LARGEST_ANSWER
        if not np.all(usable):
            bad = int((~usable).any(axis=1).sum())
            what = f"more than {LARGEST_ANSWER:.0e}" if np.all(np.isfinite(piece)) else "NaN or infinity"
            raise NotANumber(
                f"{oracle.name} answered {what} to {bad} of {len(piece)} questions; "
                f"restrict domain=, to less than now"
            )
        done += len(piece)
        yield piece
    if done != len(batch):
        raise OracleError(f"{oracle.name} answered {done} of {len(batch)} questions")


def _pieces(oracle: Oracle, batch: np.ndarray) -> Iterator[np.ndarray]:
    """Whatever the model answers; its failures become ours.

    It is given a copy, and its answers are copied: it may work in place.
    """
    try:
        if isinstance(oracle, AnswersInPieces):
            with clock.waiting():
                yield from oracle.answer_in_pieces(batch.copy())
        else:
            with clock.waiting():
                answers = as_real(oracle(batch.copy()), oracle.name)
            yield answers
    except UnweaveError:
        raise
    except Exception as error:
        raise OracleError(
            f"{oracle.name} failed on a batch of shape {batch.shape}: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
