"""What a run learns from: questions to a model, or recorded rows."""

from __future__ import annotations

from enum import StrEnum


class Evidence(StrEnum):
    """The value is the word that counts it in ledgers and verdicts."""

    QUERIES = "queries"
    ROWS = "rows"
