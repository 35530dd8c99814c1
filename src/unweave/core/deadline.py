"""When a run must end: one moment shared by every stage and method of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from unweave.core import clock
from unweave.core.errors import InputError, TimeSpent

RATE = 2e10
"""Floating-point operations a second that may be counted on: of one core in large products of matrices."""
GRACE = 0.08
"""Share of the limit that what checks a result may take beyond it; with what follows that stays below a tenth."""
MORE_TIME = "allow more with time_limit="
"""What helps where time was too short, said once in a reason."""


@dataclass(frozen=True)
class Deadline:
    """A number of seconds from now on, by ``core.clock``; infinite: never."""

    seconds: float = math.inf
    stated: float | None = None
    """The time limit that this is the first part of, if it is: what is said of it."""
    _began: float = field(default_factory=clock.now, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InputError(f"time_limit={self.seconds}: give a positive number of seconds")

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(self._began + self.seconds - clock.now(), 0.0)

    @property
    def passed(self) -> bool:
        return self.left <= 0

    def check(self) -> None:
        """Raise ``TimeSpent`` once it has passed; for computations that ask nothing in between."""
        if self.passed:
            raise TimeSpent(self.words)

    @property
    def words(self) -> str:
        """What is said once it has passed."""
        return f"the time limit of {self.stated or self.seconds:g} s is over; {MORE_TIME}"

    def allows(self, operations: float, *, late: bool = False) -> bool:
        """Whether a computation that cannot be broken off, of so many additions and products, ends in time.

        ``late``: it checks a result, which may take a little more (``GRACE``).
        """
        return self.seconds == math.inf or operations <= RATE * (self.grace if late else self.left)

    @property
    def grace(self) -> float:
        """Seconds that a wait may still take: what is left, and a share of the limit for what checks a result."""
        return max(self.left, GRACE * self.seconds)


_HELD: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def hold(deadline: Deadline) -> Iterator[None]:
    """Inside, fits and waits for a server, which are told of no deadline, keep to this one."""
    token = _HELD.set(deadline)
    try:
        yield
    finally:
        _HELD.reset(token)


def held() -> Deadline:
    """The deadline of the run that this is part of, or one that never comes."""
    return _HELD.get() or Deadline()
