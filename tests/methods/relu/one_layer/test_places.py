"""Corners of a box that show units of one sign; corners drawn evenly do not."""

from __future__ import annotations

import numpy as np

import unweave
from unweave.methods.relu.one_layer.places import draw_ways, uneven_corners


def test_corners_with_few_high_coordinates_show_units_that_are_on_there_only():
    rng = np.random.default_rng(0)
    row, bias, box = -np.abs(rng.standard_normal(64)), 8.0, unweave.Box(0.0, 1.0)
    even = np.where(rng.uniform(size=(2000, 64)) < 0.5, 1.0, 0.0)
    assert np.mean(even @ row + bias > 0) < 1e-3
    assert np.mean(uneven_corners(box, 2000, 64, rng) @ row + bias > 0) > 0.1


def test_half_of_the_ways_lead_to_such_corners():
    rng = np.random.default_rng(0)
    box = unweave.Box(np.zeros(20), np.full(20, 2.0))
    lines = draw_ways(box, 40, 20, rng)
    ends = lines.points(np.arange(40), lines.low)
    assert box.contains(ends, 1e-9).all()
    high = np.mean(ends[20:] > 1.0, axis=1)
    assert np.sum(high < 0.2) > 1
    assert np.sum(high > 0.8) > 1
