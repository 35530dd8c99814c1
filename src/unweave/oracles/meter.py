"""The meter: every question to a model passes here.

It checks shapes and the domain, answers repeated questions from memory (no answer is paid for twice),
charges the ledger before asking, refuses answers that are not numbers, and keeps the transcript that later
stages fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from unweave.domains import Domain, Everywhere
from unweave.errors import InputError, OracleError, OutsideDomain, UnweaveError
from unweave.oracles.base import Oracle
from unweave.oracles.ledger import Ledger

Progress = Callable[[str, int, int | None], None]


class Meter:
    """An oracle with a ledger, a domain and a memory.

    ``progress(stage, spent, budget)`` is told of every batch.
    """

    def __init__(
        self,
        oracle: Oracle,
        *,
        domain: Domain | None = None,
        budget: int | None = None,
        progress: Progress | None = None,
        batch_size: int = 65_536,
    ):
        self.oracle = oracle
        self.domain: Domain = Everywhere() if domain is None else domain
        self.ledger = Ledger(budget)
        self._progress = progress
        self._batch_size = batch_size
        self._stage = "queries"
        self._since: float | None = None
        self._index: dict[bytes, int] = {}
        self._x: list[np.ndarray] = []
        self._y: list[np.ndarray] = []
        self._stages: list[str] = []

    @property
    def input_size(self) -> int:
        return self.oracle.input_size

    @property
    def output_size(self) -> int:
        return self.oracle.output_size

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charge the questions asked inside to ``name``."""
        outer, inside = self._stage, self._since is not None
        self._clock()
        self._stage, self._since = name, time.monotonic()
        self._report()
        try:
            yield
        finally:
            self._clock()
            self._stage = outer
            self._since = self._since if inside else None

    def snap(self, x: np.ndarray) -> np.ndarray:
        """The inputs as the model will see them: rounded to float32 for a float32 model."""
        x = np.asarray(x, dtype=np.float64) + 0.0  # minus zero is the same question as zero
        return x.astype(np.float32).astype(np.float64) if self.oracle.dtype == "float32" else x

    def ask(self, x: np.ndarray) -> np.ndarray:
        """Answers (n, outputs) to the rows of ``x``; only rows never asked before are charged and sent."""
        x = self.snap(x)
        if x.ndim != 2 or x.shape[1] != self.input_size:
            raise InputError(f"expected questions of shape (n, {self.input_size}), got {x.shape}")
        if not np.all(np.isfinite(x)):
            raise InputError("a question contains NaN or infinity")
        # A float32 model rounds its inputs, and may carry a point of the boundary across it.
        inside = self.domain.contains(x, 2.0**-23 if self.oracle.dtype == "float32" else 1e-12)
        if not np.all(inside):
            raise OutsideDomain(
                f"{int((~inside).sum())} of {len(x)} questions lie outside the domain {self.domain}"
            )
        keys = [row.tobytes() for row in np.ascontiguousarray(x)]
        fresh: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self._index and key not in fresh:
                fresh[key] = i
        rows = list(fresh.values())
        self.ledger.charge(self._stage, len(rows))
        for start in range(0, len(rows), self._batch_size):
            batch = x[rows[start : start + self._batch_size]]
            answers = self._send(batch)
            for row, answer in zip(batch, answers, strict=True):
                self._index[row.tobytes()] = len(self._x)
                self._x.append(row)
                self._y.append(answer)
                self._stages.append(self._stage)
            self._report()
        return np.array([self._y[self._index[key]] for key in keys]).reshape(len(x), self.output_size)

    def transcript(self, *stages: str) -> tuple[np.ndarray, np.ndarray]:
        """Every question asked so far with its answer, or those of the named stages."""
        chosen = [i for i, s in enumerate(self._stages) if not stages or s in stages]
        x = np.array([self._x[i] for i in chosen]).reshape(len(chosen), self.input_size)
        return x, np.array([self._y[i] for i in chosen]).reshape(len(chosen), self.output_size)

    def _send(self, batch: np.ndarray) -> np.ndarray:
        try:
            answers = np.asarray(self.oracle(batch), dtype=np.float64)
        except UnweaveError:
            raise
        except Exception as error:
            raise OracleError(
                f"{self.oracle.name} failed on a batch of shape {batch.shape}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        if answers.shape != (len(batch), self.output_size):
            raise OracleError(
                f"{self.oracle.name} answered with shape {answers.shape}; "
                f"expected {(len(batch), self.output_size)}"
            )
        if not np.all(np.isfinite(answers)):
            bad = int((~np.isfinite(answers)).any(axis=1).sum())
            raise OracleError(
                f"{self.oracle.name} answered NaN or infinity to {bad} of {len(batch)} questions; "
                f"restrict the domain (for instance --radius 10)"
            )
        return answers

    def _clock(self) -> None:
        """Put the time since the last change of stage on the present one's account."""
        now = time.monotonic()
        if self._since is not None:
            self.ledger.seconds[self._stage] = self.ledger.seconds.get(self._stage, 0.0) + now - self._since
            self._since = now

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._stage, self.ledger.total, self.ledger.budget)
