"""The clock that limits are measured by: seconds of work, not seconds on the wall.

While unweave computes, the processor time of this process counts, so that other work on the machine does not change
what a run has come to when its limit is over. While it waits for somebody else (a server, an accelerator, workers),
time on the wall counts. In no interval more than time on the wall: threads of a model are not counted twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class Clock:
    """Readings grow by the lesser of processor and wall time; inside ``waiting`` by wall time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._reading = self._wall
        self._num_waiting = 0

    def now(self) -> float:
        """Seconds from an arbitrary beginning."""
        with self._lock:
            wall, cpu = time.monotonic(), time.process_time()
            passed = wall - self._wall
            self._reading += passed if self._num_waiting else min(passed, cpu - self._cpu)
            self._wall, self._cpu = wall, cpu
            return self._reading

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, somebody else is at work."""
        self.now()
        self._num_waiting += 1
        try:
            yield
        finally:
            self.now()
            self._num_waiting -= 1


_CLOCK = Clock()


def now() -> float:
    """Seconds from an arbitrary beginning."""
    return _CLOCK.now()


def waiting() -> AbstractContextManager[None]:
    """Inside, somebody else is at work."""
    return _CLOCK.waiting()
