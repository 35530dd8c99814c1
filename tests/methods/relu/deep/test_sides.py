"""Rows that are none of the layer: what corners need of them."""

from __future__ import annotations

import numpy as np
import pytest

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.methods.relu.deep.corners import Corners
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
