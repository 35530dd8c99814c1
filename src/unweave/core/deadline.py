"""When a run must end: one moment shared by every stage and method of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from unweave.core.errors import InputError


@dataclass(frozen=True)
class Deadline:
    """A number of seconds from now on; infinite: never."""

    seconds: float = math.inf
    _began: float = field(default_factory=time.monotonic, repr=False, compare=False)

    def __post_init__(self):
        if not self.seconds > 0:
            raise InputError(f"time_limit={self.seconds}: give a positive number of seconds")

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(self._began + self.seconds - time.monotonic(), 0.0)

    @property
    def passed(self) -> bool:
        return self.left <= 0
