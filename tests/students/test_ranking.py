"""Which candidates rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.students.effort import Candidate, Effort
from unweave.students.ranking import REVIEWED, SMALL_WORK, Ranking
from unweave.students.student import try_student


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


def test_large_sizes_are_reviewed_for_leading_activations_only():
    x = np.random.default_rng(46).standard_normal((600, 4))
    y = random_network((4, 3, 1), "tanh", 47)(x)
    names = ("erf", "gelu", "silu", "softplus", "tanh")
    candidates = [Candidate(name, depth) for depth in (1, 2) for name in names]
    for large, num_reviewed in ((10_000, len(names)), (500, REVIEWED)):
        ranking = Ranking(candidates, Effort(large=large))
        for candidate in candidates:
            _, attempt = try_student(
                x[:300], y[:300], candidate.activation, (3,) * candidate.depth, rng=np.random.default_rng(48)
            )
            ranking.record(candidate, attempt)
        chosen = ranking.choose(x, y, 0)
        reviewed = {c.activation for c in chosen}
        assert len(reviewed) == num_reviewed
        assert {c.depth for c in chosen} == {1, 2}
        assert "tanh" in reviewed


def test_an_activation_that_predicts_nearly_as_well_stays_in_the_race():
    x = np.random.default_rng(49).standard_normal((900, 4))
    y = random_network((4, 6, 1), "tanh", 50)(x)
    candidates = [Candidate(name, depth) for depth in (1, 2) for name in ("tanh", "erf", "gelu")]
    ranking = Ranking(candidates, Effort(costly=500))
    for (
        candidate
    ) in candidates:  # two units for six: neither tanh nor erf fits, and one predicts as well as the other
        _, attempt = try_student(
            x[:300], y[:300], candidate.activation, (2,) * candidate.depth, rng=np.random.default_rng(51)
        )
        ranking.record(candidate, attempt)
    chosen = ranking.choose(x, y, 1)
    assert {c.activation for c in chosen[:2]} != {c.activation for c in chosen}
    assert chosen[2].depth == chosen[0].depth
    ranking._scores[chosen[2]] *= 10
    assert chosen[2] not in ranking.choose(x, y, 1)
