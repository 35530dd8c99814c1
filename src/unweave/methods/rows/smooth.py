"""In-domain, from rows: smooth networks of any depth, by the engine that ``identify(domain=...)`` uses.

Recovers what ``methods.in_domain`` recovers, from values at points that were recorded rather than chosen: subsets of
the rows serve small students, all rows in memory the polish. No assumption on the distribution of the inputs beyond
the network bending visibly over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from unweave.evidence.rows import Samples
from unweave.methods.base import Finding, Problem
from unweave.methods.in_domain.method import recover_from_samples
from unweave.students.effort import Effort


@dataclass(frozen=True)
class SmoothSamples:
    """``method="in-domain"`` of ``learn``; ``time_limit`` in seconds bounds the search."""

    name: str = "in-domain"
    needs_gaussian: bool = False
    time_limit: float = 240.0

    def learn(self, samples: Samples, problem: Problem) -> Finding:
        samples.report("fit of smooth students")
        return recover_from_samples(samples.x, samples.y, problem, effort=Effort(time_limit=self.time_limit))
