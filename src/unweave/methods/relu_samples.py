"""One hidden layer of (leaky) relu units from rows (x, f(x)) alone."""

from __future__ import annotations

from dataclasses import dataclass

from unweave.methods.base import Finding, Problem
from unweave.methods.in_domain import recover_from_samples
from unweave.refine.overwide import Effort
from unweave.samples.rows import Samples


@dataclass(frozen=True)
class ReluSamples:
    """``method="relu-samples"``; ``time_limit`` in seconds bounds the search."""

    name: str = "relu-samples"
    needs_gaussian: bool = False
    time_limit: float = 120.0

    def learn(self, samples: Samples, problem: Problem) -> Finding:
        from dataclasses import replace

        samples.report("fit of over-wide students")
        problem = replace(problem, max_depth=1, activations=("relu",))
        return recover_from_samples(samples.x, samples.y, problem, effort=Effort(time_limit=self.time_limit))
