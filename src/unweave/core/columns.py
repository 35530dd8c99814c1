"""Records kept as columns: a frozen dataclass whose fields are arrays with one row a record."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Columns:
    """What all such records can do; every field is an array, and all have the same number of rows."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Any) -> Self:
        """Some of the records, by number, mask or slice."""
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    def join(self, *others: Self) -> Self:
        """These records, then those of the others."""
        parts = (self, *others)
        return type(self)(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(self)))
