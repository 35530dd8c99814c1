"""What a search tries at which size."""

from __future__ import annotations

import pytest

from unweave.students.effort import STURDY, Candidate, Effort, Shape


def test_sizes_grow_finely_where_steps_outweigh_compilations():
    effort = Effort()
    assert effort.growth_at(1000, True) > effort.growth_at(5000, True) > effort.growth_at(1000, False) > 1
    both = [Candidate("tanh", 1), Candidate("tanh", 2)]
    depths = [{c.depth for c, _ in effort.plan(both, turn, 1, 5000, True)} for turn in range(2)]
    assert depths == [{1, 2}, {2}]
    assert {c.depth for c, _ in effort.plan(both, 1, 1, 5000, False)} == {2}
    assert effort.plan(both[:1], 1, 1, 5000, True)


@pytest.mark.parametrize("accelerated", [False, True])
def test_nearly_affine_answers_have_sturdy_students_too(accelerated):
    effort, deep = Effort(), [Candidate("tanh", 2)]
    for turn in range(4):
        usual = effort.plan(deep, turn, 1, 5000, accelerated)
        assert STURDY not in [shape for _, shape in usual]
    tried = [[shape for _, shape in effort.plan(deep, turn, 1, 5000, accelerated, True)] for turn in range(4)]
    assert any(STURDY in shapes for shapes in tried)
    assert any(shape != STURDY for shapes in tried for shape in shapes)


def test_large_students_on_the_cpu_come_in_the_likeliest_shape_more_often():
    effort, deep = Effort(), [Candidate("tanh", 2)]
    small, large = (
        [shape for turn in range(12) for _, shape in effort.plan(deep, turn, 1, num_residuals, False)]
        for num_residuals in (2000, 6000)
    )
    likeliest = Shape(4.5, 0.45)
    assert small.count(likeliest) == 3
    assert large.count(likeliest) == 8
    assert len(set(large)) == 2
    assert min(shape.ratio for shape in large) > min(shape.ratio for shape in small)
