"""Answers that name what they score: ``{"label": "cat", "score": 0.9}``, one, the best few or all of them a row.

Labels become columns in the order in which they come up, or in the order the user names them. What a row does not name
is answered as zero; of two labels a single probability tells the other. A row that is only a word is answered with the
number of the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.core.errors import OracleError

LABEL_KEYS = ("label", "class", "name", "class_name", "category")
SCORE_KEYS = ("score", "probability", "confidence", "prob", "value", "logit")


@dataclass
class Labels:
    """The labels of a served model, numbered; ``closed`` once the number of outputs is settled."""

    numbers: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    single: bool = False
    """Whether every row names one label only."""
    words: bool = False
    """Whether rows are words without a score."""

    def number(self, label: str, name: str) -> int:
        if label not in self.numbers:
            if self.closed and not self.words:
                known = ", ".join(repr(known) for known in [*self.numbers, label])
                raise OracleError(
                    f"{name} answers with a label not seen before, {label!r}; name all of them: labels=({known})"
                )
            self.numbers[label] = len(self.numbers)
        return self.numbers[label]

    def read(self, rows: Any, num_rows: int, name: str) -> np.ndarray | None:
        """Scores (num_rows, labels), or the numbers of words (num_rows, 1); None where no labels are answered."""
        entries = _entries(rows, num_rows)
        if entries is None:
            return None
        if all(isinstance(entry, str) for row in entries for entry in row):
            self.words = True
            return np.array([[self.number(row[0], name)] for row in entries], dtype=np.float64)
        for row in entries:
            for entry in row:
                self.number(_text(entry), name)
        self.single = len(self.numbers) > 0 and all(len(row) == 1 for row in entries)
        scores = np.zeros((num_rows, len(self.numbers)))
        for i, row in enumerate(entries):
            for entry in row:
                scores[i, self.numbers[_text(entry)]] = _score(entry)
            if len(row) == 1 and scores.shape[1] == 2 and 0 <= _score(row[0]) <= 1:
                scores[i, 1 - self.numbers[_text(row[0])]] = 1 - _score(row[0])
        return scores


def labels_of(names: Sequence[str]) -> Labels:
    """The labels a user names, in this order."""
    return Labels({str(label): i for i, label in enumerate(names)}, closed=bool(names))


def _entries(rows: Any, num_rows: int) -> list[list[Any]] | None:
    """For each row the list of its entries, where all of them carry labels."""
    if isinstance(rows, dict) and num_rows == 1:
        rows = [rows]
    if not isinstance(rows, list) or not rows:
        return None
    lists = [row if isinstance(row, list) else [row] for row in rows]
    if len(lists) != num_rows:
        lists = [rows] if num_rows == 1 else []
    if not lists or not all(lists):
        return None
    words = all(len(row) == 1 and isinstance(row[0], str) for row in lists)
    named = all(isinstance(entry, dict) and _named(entry) for row in lists for entry in row)
    return lists if words or named else None


def _named(entry: dict[str, Any]) -> bool:
    scores = [key for key in SCORE_KEYS if isinstance(entry.get(key), int | float)]
    return bool(scores) and any(isinstance(entry.get(key), str | int) for key in LABEL_KEYS)


def _text(entry: dict[str, Any]) -> str:
    return next(str(entry[key]) for key in LABEL_KEYS if isinstance(entry.get(key), str | int))


def _score(entry: dict[str, Any]) -> float:
    return float(next(entry[key] for key in SCORE_KEYS if isinstance(entry.get(key), int | float)))
