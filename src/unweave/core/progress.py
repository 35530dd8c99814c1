"""Progress by stage on stderr: the stage at work, queries spent and the budget; silent when nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

Progress = Callable[[str, int, int | None], None]
"""Called with (stage, questions or rows so far, budget)."""


class Watcher:
    """Whoever was given as ``progress=``, unable to end a run: what it raises is noted, and it is not called again."""

    def __init__(self, progress: Progress | None):
        self._progress = progress
        self.complaints: tuple[str, ...] = ()
        """What the verdict must say of it."""

    def __call__(self, stage: str, spent: int, budget: int | None) -> None:
        if self._progress is None:
            return
        try:
            self._progress(stage, spent, budget)
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self.complaints = (f"progress raised {reason} and was not called again",)
            self._progress = None


class StageProgress:
    """A context manager to pass as ``progress=``; shows one line that is erased at the end.

    Nothing is shown with ``quiet`` or when stderr is not a terminal.
    """

    def __init__(self, *, quiet: bool = False, unit: str = "queries"):
        self._unit = unit
        self._status: Any = None
        if not quiet and sys.stderr.isatty():
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
            from rich.markup import escape

            limit = "" if budget is None else f" of {budget:,}"
            self._status.update(escape(f"{stage}: {spent:,}{limit} {self._unit}"))

    def line(self, text: str) -> None:
        """Show a text of one's own."""
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(text))
