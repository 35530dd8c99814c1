"""Which candidates of a search to try next: those whose students predict best, none for much longer than another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.solve.descend import End
from unweave.students.effort import Candidate, Effort
from unweave.students.student import Attempt, Miss

UNFAIR, SMALL_WORK = 1.5, 1e12
"""Candidates rest that have had so many times the work of another, and more than this many multiplications."""
NEAR_MISS = 1e-3
"""Relative residual at which a student that stopped converging may be one of a similar activation."""
ALIKE = 2.0
"""An activation stays in the race whose residual is below this multiple of the leader's."""
REVIEWED, REVIEWED_EARLIER = 3, 4
"""Leading activations that stay in the race at large sizes, and at those before (``Effort.telling``)."""
REFITS = 5
"""What pruning a near miss takes, in the steps of its last fit."""


class Ranking:
    """Candidates by how well their latest students predict points bought after them."""

    def __init__(self, candidates: Sequence[Candidate], effort: Effort):
        self._candidates = list(candidates)
        self._effort = effort
        self._latest: dict[Candidate, Attempt] = {}
        self._scores: dict[Candidate, float] = {}
        self._work: dict[Candidate, float] = {}
        self._missed: set[Candidate] = set()

    def record(self, candidate: Candidate, attempt: Attempt) -> None:
        self._latest[candidate] = attempt
        if attempt.rms < NEAR_MISS and attempt.end in (End.STATIONARY, End.STEPS):
            self._missed.add(candidate)
        num_parameters = attempt.student.layout.num_parameters
        work = float(attempt.num_steps) * attempt.num_points * num_parameters**2
        work *= 1 if attempt.end in (End.STALLED, Miss.MEMORISED) else REFITS
        self._work[candidate] = self._work.get(candidate, 0.0) + work

    def _fair(self, chosen: list[Candidate]) -> list[Candidate]:
        """Without those that have had several times the work of another: near misses are costly to prune.

        Deeper ones do not rest for one hidden layer: it needs the fewest points, and would have been found.
        """

        def share(candidate: Candidate) -> float:
            rivals = [c for c in chosen if c == candidate or c.depth >= min(candidate.depth, 2)]
            return UNFAIR * min(self._work.get(c, 0.0) for c in rivals) + SMALL_WORK

        return [c for c in chosen if self._work.get(c, 0.0) <= share(c)]

    def _twins(self, ranked: list[Candidate]) -> list[Candidate]:
        """The best of another activation where it predicts nearly as well as the leader: tanh and erf, say."""
        leader = ranked[0]
        others = [c for c in ranked if c.activation != leader.activation and c.depth == leader.depth]
        limit = ALIKE * self._scores.get(leader, np.inf)
        return [c for c in others[:1] if self._scores.get(c, np.inf) < limit]

    def choose(self, x: np.ndarray, y: np.ndarray, turn: int) -> list[Candidate]:
        """The two leading candidates; every few sizes all, deep and large ones for leading activations only.

        The rival depth stays in the race because a shallow student predicts a deep network better than a
        deep one that is still too narrow to converge, at every size up to the one where that one is exact.
        """
        for candidate, attempt in self._latest.items():
            fresh = slice(attempt.num_points, None)
            if len(x) > attempt.num_points:
                self._scores[candidate] = attempt.student.fresh_residual(x[fresh], y[fresh])
        self._latest.clear()
        ranked = sorted(self._candidates, key=lambda c: (self._scores.get(c, np.inf), c.depth))
        leader = ranked[0]
        rivals = [c for c in ranked if c.activation == leader.activation and c.depth != leader.depth]
        both_depths = [leader, *rivals[:1]]
        if turn % self._effort.review:
            chosen = ranked[:2]
            if y.size > self._effort.costly:
                chosen = both_depths + self._twins(ranked)
            elif leader in self._missed:  # gelu and its approximation by tanh, say: the other may be exact
                chosen = [c for c in ranked if c.depth == leader.depth and c != leader] + chosen
            # deep students emulate a network of fewer layers slowly, which is therefore tried first
            fewer = [
                c
                for c in self._candidates
                if c.activation == leader.activation and 1 < c.depth < leader.depth
            ]
            return self._fair(list(dict.fromkeys([*fewer, *chosen])))
        activations = list(dict.fromkeys(c.activation for c in ranked))
        reviewed = activations[:REVIEWED]
        if y.size < self._effort.large:
            reviewed = activations if y.size < self._effort.telling else activations[:REVIEWED_EARLIER]
        resting = set(both_depths).difference(self._fair(both_depths))
        return [
            c
            for c in ranked
            if c not in resting and c.activation in (reviewed if c.depth <= 2 else activations[:2])
        ]
