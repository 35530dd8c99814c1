"""Questions and answers that are kept: each known by its row, in the order asked."""

import numpy as np

from unweave.evidence.memory import Memory


def kept(x, stage="walk", memory=None):
    memory = Memory(x.shape[1]) if memory is None else memory
    for row in x:
        memory.keep(stage, row, row.sum(keepdims=True))
    return memory


def test_questions_are_known_by_their_rows():
    x = np.random.default_rng(0).standard_normal((5, 3))
    memory = kept(x)
    assert [row.tobytes() in memory for row in x] == [True] * 5
    assert x[0].copy().tobytes() in memory
    assert np.nextafter(x[0], 9).tobytes() not in memory
    keys = [x[i].tobytes() for i in (3, 0, 3)]
    assert np.array_equal(memory.recall(keys), x[[3, 0, 3]].sum(1, keepdims=True))


def test_arrays_follow_what_is_added_later():
    x = np.random.default_rng(1).standard_normal((7, 2))
    memory = kept(x[:4])
    assert np.array_equal(memory.at([1, 3])[0], x[[1, 3]])
    kept(x[4:], "lines", memory)
    assert len(memory) == 7
    assert memory.stages == ["walk"] * 4 + ["lines"] * 3
    assert np.array_equal(memory.at([6, 0])[1], x[[6, 0]].sum(1, keepdims=True))


def test_nothing_asked_is_no_question_of_the_right_size():
    x, y = Memory(4).at([])
    assert x.shape == (0, 4)
    assert len(y) == 0
