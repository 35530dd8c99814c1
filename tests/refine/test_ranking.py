"""Which candidates rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.refine.effort import Candidate, Effort
from unweave.refine.ranking import SMALL_WORK, Ranking
from unweave.refine.student import try_student


@pytest.mark.parametrize(
    ("worked", "other", "rests"), [(1, 2, True), (2, 3, True), (3, 2, True), (2, 1, False)]
)
def test_a_candidate_rests_that_has_had_more_work_than_another_but_not_for_one_hidden_layer(
    worked, other, rests
):
    x = np.random.default_rng(43).standard_normal((300, 4))
    y = random_network((4, 3, 1), "tanh", 44)(x)
    wide, narrow = Candidate("tanh", worked), Candidate("tanh", other)
    ranking = Ranking([wide, narrow], Effort())
    for candidate in (wide, narrow):
        widths = (30 if candidate == wide else 3, *(2,) * (candidate.depth - 1))
        _, attempt = try_student(x, y, "tanh", widths, rng=np.random.default_rng(45), max_steps=1)
        work = len(x) * attempt.student.layout.num_parameters**2
        num_steps = int(SMALL_WORK // work) + 100 if candidate == wide else 10
        ranking.record(candidate, replace(attempt, num_steps=num_steps, end="stalled"))
    for turn in (0, 1):  # at sizes where all candidates are tried, and at the others
        assert (wide not in ranking.choose(x, y, turn)) == rests
        assert narrow in ranking.choose(x, y, turn)
