"""Weights that corners tell where the sides of all units are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.core.network import Network
from unweave.methods.relu.deep.corners import Corner, Corners
from unweave.methods.relu.deep.shown_entries import ask_shown_entries, read_entries

OPEN = ((0, 2), (3, 2), (5, 6))


def open_layer(seed: int) -> tuple[Network, Corners, np.ndarray, np.ndarray]:
    network = he_network((8, 7, 7, 2), seed)
    rows = rows_of(network, 1)
    seen = np.ones(rows.shape, dtype=bool)
    for unit, feature in OPEN:
        seen[unit, feature] = False
    return network, Corners(open_pool(network), first_layers(network, 1)), rows, seen


@pytest.mark.parametrize("seed", [1, 2])
def test_corners_tell_weights_that_no_kink_has_shown(seed: int):
    _, corners, rows, seen = open_layer(seed)
    corners.add(30, rows, least=4)
    found, told = read_entries(corners.asked, np.where(seen, rows, 0.0), seen)
    assert told.sum() > seen.sum()
    np.testing.assert_allclose(found[told], rows[told], atol=1e-7)


@pytest.mark.parametrize("seed", [1, 2])
def test_corners_are_asked_for_weights_that_those_there_are_leave_open(seed: int):
    _, corners, rows, seen = open_layer(seed)
    found, told = ask_shown_entries(corners, np.where(seen, rows, 0.0), seen)
    assert told.sum() > seen.sum()
    assert len(corners.asked) <= 3 * len(OPEN)
    np.testing.assert_allclose(found[told], rows[told], atol=1e-7)


def test_a_feature_that_stands_still_tells_no_weight():
    _, corners, rows, seen = open_layer(1)
    corners.add(30, rows, least=4)
    still = [
        without(corner, 2) for corner in corners.asked if corner.whole and abs(corner.features[2]) < 1e-12
    ]
    assert len(still) >= 4
    _, told = read_entries(still, np.where(seen, rows, 0.0), seen)
    assert not told[0, 2]
    assert not told[3, 2]


def without(corner: Corner, feature: int) -> Corner:
    """The corner as it would be if a feature did not move there."""
    others = np.setdiff1d(np.flatnonzero(corner.moving), feature)
    errors = np.full(len(others), corner.errors.max())
    return replace(
        corner,
        basis=np.eye(len(corner.features))[:, others],
        slopes=corner.derivative[others],
        errors=errors,
    )
