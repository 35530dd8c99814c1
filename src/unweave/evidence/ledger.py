"""The ledger: how many queries each stage has cost, and the budget none may exceed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.core.arguments import shown
from unweave.core.errors import AllowanceSpent, BudgetSpent, InputError


def check_budget(budget: int | None) -> None:
    """Refuse what is no number of queries."""
    if budget is None:
        return
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1:
        raise InputError(
            f"budget={shown(budget)}: the budget must be a whole number, at least 1, or None for no limit"
        )


FEW = 200
"""Queries that a certificate asks: with fewer left, it may be that none could be made."""


@dataclass
class Ledger:
    """Queries by stage, in the order the stages began, against an optional budget."""

    budget: int | None = None
    by_stage: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    """Wall time inside each stage, nested stages counted on their own."""
    unit: str = "queries"
    """What is counted: "queries" asked of a model, or "rows" of recorded data."""
    replayed: int = 0
    """How many of the queries were answered from a journal: earlier runs have paid for them."""
    waiting: int = field(default=0, compare=False)
    """Answers earlier runs have paid for that this run has not come to yet."""
    overhead: int = field(default=0, compare=False)
    """Queries a run that was never interrupted would not have asked: spot checks, openings of earlier runs."""

    allowance: tuple[str, int] | None = field(default=None, compare=False)
    """Who is asking now, and the total it must stay within; None: only the budget counts."""

    def __post_init__(self) -> None:
        check_budget(self.budget)

    @property
    def total(self) -> int:
        return sum(self.by_stage.values())

    @property
    def left(self) -> float:
        """Queries a run may still plan with, as if it had never been interrupted; infinite without a budget."""
        return float("inf") if self.budget is None else self.budget - (self.total - self.overhead)

    @property
    def shortage(self) -> str:
        """How many are left, in words, where that may be too few for a check; empty where there are plenty."""
        if self.left >= FEW:
            return ""
        return f"only {int(self.left)} {self.unit}" if self.left > 0 else f"no {self.unit}"

    @property
    def unpaid(self) -> float:
        """New queries that all runs together may still pay for; infinite without a budget."""
        return self.left - self.overhead - self.waiting

    def charge(self, stage: str, num_queries: int, num_replayed: int = 0, *, opening: bool = False) -> None:
        """Record ``num_queries`` about to be asked, or raise ``BudgetSpent`` and record nothing.

        Answers replayed from a journal count as in the run that paid for them, so that a repeated run comes to
        the same decisions, and all runs together stay within the budget. Only the ``opening`` questions, which
        tell the sizes of the model, are asked anew by every run.
        """
        if self.allowance is not None and self.total - self.overhead + num_queries > self.allowance[1]:
            raise AllowanceSpent(f"{self.allowance[0]} has spent the queries that an attempt of it may cost")
        num_new = 0 if opening else num_queries - num_replayed
        if num_queries > self.left or num_new > max(self.unpaid, 0):
            planned = num_queries > self.left  # a run that was never interrupted would end here too
            left = int(max(self.left if planned else min(self.left, self.unpaid + num_replayed), 0))
            raise BudgetSpent(
                f"budget spent: {stage} needs {num_queries} queries more but only {left} of "
                f"{self.budget} are left; raise the budget"
            )
        self._add(stage, num_queries, num_replayed)

    def charge_overhead(self, stage: str, num_queries: int, num_replayed: int = 0) -> None:
        """Record queries that belong to the repetition of a run, not to the run."""
        self.overhead += num_queries
        self._add(stage, num_queries, num_replayed)

    def _add(self, stage: str, num_queries: int, num_replayed: int) -> None:
        self.by_stage[stage] = self.by_stage.get(stage, 0) + num_queries
        self.replayed += num_replayed
        self.waiting -= num_replayed
