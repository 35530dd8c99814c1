"""Progress by stage on stderr: the stage at work, queries spent and the budget; silent when nobody looks."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


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
