"""In-domain, from rows: smooth networks of any depth, by the engine that ``identify(domain=...)`` uses.

Recovers what ``methods.in_domain`` recovers, from values at points that were recorded rather than chosen: subsets of
the rows serve small students, all rows in memory the polish. No assumption on the distribution of the inputs beyond
the network bending visibly over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unweave.evidence.kinds import Evidence
from unweave.evidence.rows import Samples
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.in_domain.method import OTHERS, SMOOTH, recover_from_samples
from unweave.methods.rows.ranking import reason_of_rows
from unweave.students.effort import Effort


@dataclass(frozen=True)
class SmoothSamples:
    """``method="in-domain"`` of ``learn``; ``time_limit`` in seconds bounds the search."""

    serves: ClassVar[Serves] = Serves(Evidence.ROWS, SMOOTH, when_named=OTHERS)
    name: str = "in-domain"
    time_limit: float = 240.0

    def suits(self, traits: Traits) -> str | None:
        return reason_of_rows(traits, self.serves)

    def recover(self, samples: Samples, problem: Problem) -> Finding:
        samples.report("fit of smooth students")
        return recover_from_samples(
            samples.x, samples.y, problem, effort=Effort(time_limit=problem.within(self.time_limit))
        )
