"""Progress by stage on stderr and in the log: what is at work, what it has cost, how long it took and may take.

On a terminal, and in a notebook, one line that is erased at the end; elsewhere nothing, or a line a stage where it is
asked for. The logger ``unweave`` hears of every stage at level INFO and of every batch at level DEBUG.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

Progress = Callable[[str, int, int | None], None]
"""Called with (stage, questions or rows so far, budget)."""

LOG = logging.getLogger("unweave")
LOG.addHandler(logging.NullHandler())


class Watcher:
    """Whoever was given as ``progress=``, unable to end a run: what it raises is noted, and it is not called again."""

    def __init__(self, progress: Progress | None):
        self._progress = progress
        self._stage = ""
        self.complaints: tuple[str, ...] = ()
        """What the verdict must say of it."""

    def __call__(self, stage: str, spent: int, budget: int | None) -> None:
        LOG.log(logging.DEBUG if stage == self._stage else logging.INFO, "%s: %d so far", stage, spent)
        self._stage = stage
        if self._progress is None:
            return
        try:
            self._progress(stage, spent, budget)
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self.complaints = (f"progress raised {reason} and was not called again",)
            self._progress = None


class StageProgress:
    """A context manager to pass as ``progress=``.

    Nothing is shown with ``quiet``; where stderr is no terminal only with ``lines``, one for every stage. What is left
    of the time is that of ``time_limit``, or what the rest of the budget takes at the speed so far, if that is less.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        unit: str = "queries",
        time_limit: float | None = None,
        lines: bool = False,
    ):
        self._unit = unit
        self._limit = math.inf if time_limit is None else time_limit
        self._began = time.monotonic()
        self._stage = ""
        self._status: Any = None
        terminal = sys.stderr.isatty()
        self._lines = lines and not quiet and not terminal
        if not quiet and terminal:
            from rich.console import Console

            self._status = Console(stderr=True).status("starting")

    def __enter__(self) -> StageProgress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, stage: str, spent: int, budget: int | None) -> None:
        if self._status is not None:
            self.line(self._text(stage, spent, budget))
        elif self._lines and stage != self._stage:
            self._stage = stage
            print(f"unweave: {self._text(stage, spent, budget)}", file=sys.stderr, flush=True)

    def line(self, text: str) -> None:
        """Show a text of one's own."""
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(text))

    def _text(self, stage: str, spent: int, budget: int | None) -> str:
        elapsed = time.monotonic() - self._began
        left = self._limit - elapsed
        if budget is not None and spent:
            left = min(left, (budget - spent) * elapsed / spent)
        limit = "" if budget is None else f" of {budget:,}"
        rest = f", at most {_spell(max(left, 0.0))} left" if math.isfinite(left) else ""
        return f"{stage}: {spent:,}{limit} {self._unit}, {_spell(elapsed)}{rest}"


def _spell(seconds: float) -> str:
    """``8 s``, ``1:05 min`` or ``2:10 h``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
