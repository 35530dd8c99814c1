"""Of many unexplained answers those that different units are missing from."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.one_layer.ways import most_unlike


def test_of_many_answers_that_lack_one_unit_and_few_that_lack_others_each_is_represented():
    rng = np.random.default_rng(0)
    outputs = rng.standard_normal((3, 10))
    owner = np.array([0] * 50 + [1, 2])
    left = outputs[owner] * rng.uniform(1, 5, (52, 1)) * rng.choice([-1.0, 1.0], size=(52, 1))
    assert set(owner[most_unlike(left, 3)]) == {0, 1, 2}
    assert len(set(most_unlike(left, 6))) == 6
    assert len(most_unlike(left[:2], 6)) == 2
