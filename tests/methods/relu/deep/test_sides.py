"""Rows that are none of the layer: what corners need of them."""

from __future__ import annotations

import numpy as np
import pytest

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.methods.relu.deep.corners import Corners
from unweave.methods.relu.deep.seek import see_all_active
from unweave.methods.relu.deep.sides import vote_sides


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_row_that_no_corner_needs_is_idle(seed: int):
    network = he_network((10, 8, 6, 5, 1), seed)
    rows = rows_of(network, 1)
    false = np.random.default_rng(seed).standard_normal((1, rows.shape[1]))
    every = np.vstack([rows, false])
    corners = Corners(open_pool(network), first_layers(network, 1))
    corners.add(24, every, least=6)
    sides = vote_sides(corners, every, np.ones(every.shape, dtype=bool))
    assert sides.clashes[-1]
    assert sides.idle.tolist() == [False] * len(rows) + [True]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_corner_is_asked_on_the_other_side_of_a_row_that_none_has_active(seed: int):
    network = he_network((10, 8, 6, 5, 1), seed)
    known, rows = first_layers(network, 1), rows_of(network, 1)
    false = np.random.default_rng(seed).standard_normal((1, rows.shape[1]))
    every, all_seen = np.vstack([rows, false]), np.ones((len(rows) + 1, rows.shape[1]), dtype=bool)
    corners = Corners(open_pool(network), known)
    corners.add(24, every, least=6)
    # as few corners leave it: all on one side of the row
    corners.asked = [one for one in corners.asked if one.features @ false[0, :-1] + false[0, -1] < 0]
    sides = vote_sides(corners, every, all_seen)
    assert not sides.idle.any()
    before = len(corners.asked)
    sides = see_all_active(corners, sides, every)
    assert sides.idle.tolist() == [False] * len(rows) + [True]
    assert len(corners.asked) - before <= len(every)
