"""The meter: every question to a model passes here.

It checks shapes and the domain, answers repeated questions from memory (no answer is paid for twice),
charges the ledger before asking, refuses answers that are not numbers, and keeps the transcript that later
stages fit. Answers of the stage ``certificate`` are kept apart: no fit ever sees them. With a journal, answers that an
earlier run has paid for are replayed, new ones are on disk before they are used, and a few replayed ones are asked
again to see that the model is still the same. A meter may look through a squashing at what stands before it: memory
and journal keep what the model said, what is returned is inverted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from unweave.core.deadline import Deadline
from unweave.core.domains import Domain, Everywhere
from unweave.core.errors import BeyondRange, InputError, JournalError, OutsideDomain
from unweave.core.oracle import Oracle, SnapsInputs
from unweave.core.outputs import Squashing
from unweave.core.progress import Progress, Watcher
from unweave.evidence.journal import Journal
from unweave.evidence.ledger import Ledger
from unweave.evidence.memory import Memory
from unweave.evidence.send import send

CERTIFICATE = "certificate"
"""The stage whose answers judge a network and are never evidence for one."""
BEYOND = 8
"""Units of rounding by which an answer may leave the range of what is taken to stand behind the last layer."""


class Meter:
    """An oracle with a ledger, a domain and a memory.

    ``progress(stage, spent, budget)`` is told of every batch. Without ``remember`` nothing is kept: a question asked
    twice is paid twice, and there is no transcript. After the ``deadline`` only certificates are asked for.
    """

    input_size: int
    output_size: int
    dtype: str
    ledger: Ledger
    deadline: Deadline

    def __init__(
        self,
        oracle: Oracle,
        *,
        domain: Domain | None = None,
        budget: int | None = None,
        progress: Progress | None = None,
        batch_size: int = 65_536,
        journal: Journal | None = None,
        remember: bool = True,
        deadline: Deadline | None = None,
    ):
        self.oracle = oracle
        self.input_size, self.output_size = oracle.input_size, oracle.output_size
        self.dtype = oracle.dtype
        self._squashing: Squashing | None = None
        self.refuted: bool = False
        """Whether an answer has shown that there is no such squashing."""
        self._raw_error = (0.0, 0.0)
        self.domain: Domain = Everywhere() if domain is None else domain
        self.whole: Domain = self.domain
        """The domain that was given, where questions keep to a part of it before a squashing."""
        self.ledger = Ledger(budget)
        self.deadline = Deadline() if deadline is None else deadline
        self._watcher = Watcher(progress)
        self._batch_size = batch_size
        self._remember = remember
        self._stage = "queries"
        self._since: float | None = None
        self._memory = Memory(self.input_size)
        self._warnings: list[str] = []
        self._journal = journal
        self._replayed: list[int] = []
        self._level: tuple[float, float] | None = None
        self._seam_checked = False
        if journal is not None:
            self.ledger.waiting = len(journal) + journal.num_extras

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the verdict must say about the journal, and about a ``progress`` that failed."""
        return (*self._warnings, *self._watcher.complaints)

    def look_through(
        self, squashing: Squashing | None, noise: float = 0.0, unit: float = 0.0, *, single: bool = False
    ) -> None:
        """Answer from now on with what stands before ``squashing``, or with the model's own answers.

        ``noise`` and ``unit`` are the absolute and the relative error of the model's answers; ``single``: they are
        float32 numbers, and so are the questions from now on.
        """
        raw = self.oracle.output_size
        self._squashing, self._raw_error, self.refuted = squashing, (noise, unit), False
        self.output_size = raw if squashing is None else squashing.num_inner(raw)
        self.dtype = "float32" if single else self.oracle.dtype

    def look_like(self, other: Meter) -> None:
        """See the answers as another meter of the same model does."""
        noise, unit = other._raw_error
        self.look_through(other._squashing, noise, unit, single=other.dtype == "float32")

    def blur(self, answers: np.ndarray) -> np.ndarray:
        """Errors (n,) that the inverse of a squashing makes of the errors of the model's answers.

        ``answers`` are as returned, inverted. Infinite at the end of the range; zero where there is no squashing.
        """
        if self._squashing is None:
            return np.zeros(len(answers))
        return self._squashing.errors(self._squashing.restore(answers), *self._raw_error)

    @property
    def is_squashed(self) -> bool:
        """Whether the answers are inverted, so that their errors differ from one to the next (``blur``)."""
        return self._squashing is not None

    def raw(self, x: np.ndarray) -> np.ndarray:
        """What the model itself answers, whatever the meter looks through."""
        kept, self._squashing = self._squashing, None
        try:
            return self.ask(x)
        finally:
            self._squashing = kept

    @property
    def current_stage(self) -> str:
        """What questions are charged to now."""
        return self._stage

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

    @contextmanager
    def allow(self, who: str, num_queries: int) -> Iterator[None]:
        """Let ``who`` ask so many questions inside; one more raises ``AllowanceSpent``."""
        outer = self.ledger.allowance
        most = self.ledger.total - self.ledger.overhead + num_queries
        if outer is None or most < outer[1]:
            self.ledger.allowance = who, most
        try:
            yield
        finally:
            self.ledger.allowance = outer

    def check_time(self) -> None:
        """Raise ``TimeSpent`` after the deadline; long computations between questions call it too."""
        if self._stage != CERTIFICATE:  # what was found in time is still checked
            self.deadline.check()

    def snap(self, x: np.ndarray) -> np.ndarray:
        """The inputs as the model will see them: rounded to float32 for a float32 model, and never out of the domain.

        A point that only rounding has carried across the boundary is moved inside; others outside stay and are refused.
        """
        x = np.asarray(x, dtype=np.float64) + 0.0  # minus zero is the same question as zero
        seen = self._round(x)
        if x.ndim != 2 or x.shape[1] != self.input_size:
            return seen
        rows = np.flatnonzero(~self.domain.contains(seen, 0.0))
        if len(rows):
            single = self.dtype == "float32"
            rows = rows[self.domain.contains(x[rows], 2.0**-22 if single else 1e-12)]
            moved = self._round(self.domain.nearest(x[rows], 2.0**-24 if single else 0.0))
            inside = self.domain.contains(moved, 0.0)
            seen[rows[inside]] = moved[inside]
        return seen

    def _round(self, x: np.ndarray) -> np.ndarray:
        if isinstance(self.oracle, SnapsInputs):
            return self.oracle.snap(x) if x.ndim == 2 and x.shape[1] == self.input_size else x
        return x.astype(np.float32).astype(np.float64) if self.dtype == "float32" else x.copy()

    def ask(self, x: np.ndarray) -> np.ndarray:
        """Answers (n, outputs) to the rows of ``x``; only rows never asked before are charged and sent."""
        x = self.snap(x)
        if x.ndim != 2 or x.shape[1] != self.input_size:
            raise InputError(f"expected questions of shape (n, {self.input_size}), got {x.shape}")
        if not np.all(np.isfinite(x)):
            raise OutsideDomain("a question contains NaN or infinity; nothing was asked")
        inside = self.domain.contains(x, 0.0)
        if not np.all(inside):
            raise OutsideDomain(
                f"{int((~inside).sum())} of {len(x)} questions lie outside the domain {self.domain}"
            )
        self.check_time()
        if not self._remember:
            self.ledger.charge(self._stage, len(x), 0)
            return self._inverted(np.concatenate(list(send(self.oracle, x))))
        keys = [row.tobytes() for row in np.ascontiguousarray(x)]
        fresh: dict[bytes, int] = {}
        memory = self._memory
        for i, key in enumerate(keys):
            if key not in memory and key not in fresh:
                fresh[key] = i
            elif key in memory and self._stage != CERTIFICATE == memory.stages[memory.place(key)]:
                memory.stages[memory.place(key)] = self._stage  # a method came to the same question by itself
        rows = list(fresh.values())
        stored = {} if self._journal is None else self._journal.recall(fresh)
        self.ledger.charge(self._stage, len(rows), len(stored))
        for start in range(0, len(rows), self._batch_size):
            batch = x[rows[start : start + self._batch_size]]
            answers = self._answer(batch, stored)
            for row, answer in zip(batch, answers, strict=True):
                place = memory.keep(self._stage, row, answer)
                if row.tobytes() in stored:
                    self._replayed.append(place)
            self._report()
        raw = memory.recall(keys)
        self._check_range(raw)
        return self._inverted(raw)

    def transcript(self, *stages: str) -> tuple[np.ndarray, np.ndarray]:
        """The evidence: every question asked so far with its answer, or those of the named stages.

        What was asked for a certificate is not among it.
        """
        asked = enumerate(self._memory.stages)
        chosen = [i for i, stage in asked if stage != CERTIFICATE and (not stages or stage in stages)]
        return self._answered(chosen)

    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """Everything ever asked with its answer, certificates included: to judge a network by, never to fit one."""
        return self._answered(range(len(self._memory)))

    def _answered(self, chosen: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        x, y = self._memory.at(chosen)
        if self._squashing is not None and len(x):  # the domain may have been narrowed since
            inside = self.domain.contains(x, 0.0)
            x, y = x[inside], y[inside]
        return x, self._inverted(y)

    def _check_range(self, raw: np.ndarray) -> None:
        """An exact answer beyond the range of the squashing looked through says to a method that there is none."""
        noise, unit = self._raw_error
        if self._squashing is None or noise > 0 or not len(raw) or self.ledger.allowance is None:
            return
        low, high = self._squashing.range
        slack = BEYOND * unit * max(abs(b) for b in (low, high, 1.0) if np.isfinite(b))
        if np.min(raw) < low - slack or np.max(raw) > high + slack:
            self.refuted = True
            raise BeyondRange(
                f"an answer lies beyond the range of {self._squashing.name}: the outputs are plain"
            )

    def _inverted(self, answers: np.ndarray) -> np.ndarray:
        answers = answers.reshape(-1, self.oracle.output_size)
        return answers if self._squashing is None else self._squashing.invert(answers)

    def is_new(self, x: np.ndarray) -> np.ndarray:
        """Which rows of ``x`` were never asked, and are not the repetition of an earlier row."""
        keys = [row.tobytes() for row in np.ascontiguousarray(self.snap(x))]
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        return np.array(
            [first[key] == i and key not in self._memory for i, key in enumerate(keys)], dtype=bool
        )

    def charge_probes(self, num_probes: int) -> None:
        """Charge what was asked before there was a meter, in this run and in earlier ones of the journal."""
        if self._journal is not None:
            earlier = self._journal.num_extras
            self._journal.charge("shape", num_probes)
            if earlier:
                self.ledger.charge_overhead("earlier runs", earlier, earlier)
        if num_probes:
            self.ledger.charge("shape", num_probes, opening=True)

    def check_replayed(self, noise: float, scale: float) -> None:
        """Ask a few of the replayed questions again: has the model changed since their answers were stored?

        ``noise`` and ``scale`` are the measured error and spread of the answers. The last replayed questions
        are asked again as well, when the first new one comes up.
        """
        self._level = noise, scale
        if self._journal is not None and self._replayed:
            if self._journal.model != self.oracle.name:
                self._warnings.append(f"the journal was begun with {self._journal.model}")
            chosen = np.linspace(0, len(self._replayed) - 1, num=4).astype(int)
            self._spot_check([self._replayed[i] for i in np.unique(chosen)])

    def _spot_check(self, chosen: list[int]) -> None:
        assert self._journal is not None
        assert self._level is not None
        ledger = self.ledger
        if ledger.unpaid < len(chosen):
            self._warnings.append("the journal was not checked against the model: the budget is spent")
            return
        with self.stage("spot check"):
            ledger.charge_overhead("spot check", len(chosen))
            self._journal.charge("spot check", len(chosen))
            x, before = self._memory.at(chosen)
            now = np.concatenate(list(send(self.oracle, x)))
        noise, scale = self._level
        far = np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(self.input_size)
        size = np.abs(before)
        allowed = 30 * noise * (1 + size / max(scale, 1e-300) + far) + 1e-9 * size
        if np.any(np.abs(now - before) > allowed):
            raise JournalError(
                f"{self.oracle.name} no longer answers as {self._journal.path} says "
                f"(a change of {np.max(np.abs(now - before)):.1e} on {len(x)} points); the model has changed: "
                f"name another journal, or delete this one to begin anew"
            )

    def _answer(self, batch: np.ndarray, stored: dict[bytes, np.ndarray]) -> np.ndarray:
        """Answers to new questions: those in ``stored``, and the model's, each on disk before it is used."""
        if self._journal is None:
            return np.concatenate(list(send(self.oracle, batch)))
        keys = [row.tobytes() for row in batch]
        answers = np.array([stored.get(key, np.full(self.oracle.output_size, np.nan)) for key in keys])
        live = np.array([i for i, key in enumerate(keys) if key not in stored], dtype=int)
        if len(live) and self._replayed and self._level is not None and not self._seam_checked:
            self._seam_checked = True
            self._spot_check(self._replayed[-2:])
        done = 0
        for piece in send(self.oracle, batch[live]) if len(live) else ():
            rows = live[done : done + len(piece)]
            self._journal.record(self._stage, [keys[i] for i in rows], piece)
            answers[rows] = piece
            done += len(piece)
        return answers

    def _clock(self) -> None:
        """Put the time since the last change of stage on the present one's account."""
        now = time.monotonic()
        if self._since is not None:
            self.ledger.seconds[self._stage] = self.ledger.seconds.get(self._stage, 0.0) + now - self._since
            self._since = now

    def _report(self) -> None:
        self._watcher(self._stage, self.ledger.total, self.ledger.budget)
