"""Records kept as columns are counted, taken and joined alike, whatever their fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from unweave.core.columns import Columns


@dataclass(frozen=True)
class Points(Columns):
    place: np.ndarray
    weight: np.ndarray


@pytest.fixture
def points() -> Points:
    return Points(np.arange(6.0).reshape(3, 2), np.array([1, 2, 3]))


@pytest.mark.parametrize("rows", [[2, 0], np.array([True, False, True]), slice(1, None)])
def test_taking_rows_takes_them_of_every_column(points, rows):
    some = points.take(rows)
    assert isinstance(some, Points)
    np.testing.assert_array_equal(some.place, points.place[rows])
    np.testing.assert_array_equal(some.weight, points.weight[rows])


def test_joining_keeps_the_order_and_counts_all(points):
    joined = points.join(points.take([1]), points.take([]))
    assert len(joined) == 4
    np.testing.assert_array_equal(joined.weight, [1, 2, 3, 2])
    np.testing.assert_array_equal(joined.place[3], points.place[1])
