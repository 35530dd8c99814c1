"""Sides of a layer from all corners together: open weights, units on at all corners, and too little told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from methods.relu.deep.test_last import always_on
from unweave.core.network import Network
from unweave.methods.relu.deep.corners import Corner, Corners
from unweave.methods.relu.deep.hypotheses import choose_sides, choose_with_missing


def asked_corners(network: Network, rows: np.ndarray, num: int = 30) -> list[Corner]:
    corners = Corners(open_pool(network), first_layers(network, 1))
    corners.add(num, rows, least=4)
    return corners.asked


@pytest.mark.parametrize("seed", [1, 2])
def test_all_corners_together_tell_the_sides_beside_weights_that_are_open(seed: int):
    network = he_network((8, 7, 7, 1), seed)
    rows, flips = rows_of(network, 1), np.where(np.arange(7) % 2, -1.0, 1.0)
    seen = np.ones(rows.shape, dtype=bool)
    seen[[0, 3], 2] = False
    signs = choose_sides(asked_corners(network, rows), rows * flips[:, None], seen)
    assert signs is not None
    assert np.array_equal(signs, flips)


def test_corners_that_contradict_tell_nothing():
    network = he_network((8, 7, 7, 1), 1)
    rows = rows_of(network, 1)
    corners = asked_corners(network, rows)
    others = rows_of(he_network((8, 7, 7, 1), 9), 1)
    assert choose_sides(corners, others, np.ones(rows.shape, dtype=bool)) is None
    assert choose_sides(corners[:1], rows, np.ones(rows.shape, dtype=bool)) is None


def deep_network(outputs: int, missing: tuple[int, ...]) -> Network:
    """Two hidden layers above the first; units of the lower one are always on."""
    lower = always_on(he_network((8, 7, 7, 1), 3), missing)
    upper = he_network((7, 9, outputs), 4)
    return Network(
        [*lower.weights[:-1], *upper.weights],
        [*lower.biases[:-1], *upper.biases],
        ["relu"] * 3 + ["identity"],
    )


@pytest.mark.parametrize(("outputs", "missing"), [(1, (4,)), (2, (4,)), (2, (1, 4))])
def test_units_that_are_always_on_show_beside_the_others(outputs: int, missing: tuple[int, ...]):
    network = deep_network(outputs, missing)
    every = rows_of(network, 1)
    kept = np.setdiff1d(np.arange(7), missing)
    flips = np.where(np.arange(len(kept)) % 2, -1.0, 1.0)
    rows = every[kept] * flips[:, None]
    seen = np.ones(rows.shape, dtype=bool)
    found = choose_with_missing(asked_corners(network, every, 60), rows, seen, len(missing))
    assert found is not None
    assert np.array_equal(found.signs, flips)
    assert found.basis.shape[1] == len(missing)
    wanted = every[list(missing), :-1].T
    left = wanted - found.basis @ np.linalg.lstsq(found.basis, wanted, rcond=None)[0]
    assert np.max(np.abs(left)) < max(1e-8, 10 * found.error)


@pytest.mark.parametrize("missing", [(), (4,)])
def test_in_the_last_layer_sides_do_not_show_beside_a_unit_that_is_always_on(missing: tuple[int, ...]):
    network = always_on(he_network((8, 7, 7, 1), 1), missing)
    every = rows_of(network, 1)
    rows = np.delete(every, missing, axis=0) if missing else every
    corners = asked_corners(network, every)
    assert choose_with_missing(corners, rows, np.ones(rows.shape, dtype=bool)) is None


def test_features_that_never_move_make_no_choice_of_sides_right():
    missing = (1, 4, 5)
    network = deep_network(2, missing)
    every = rows_of(network, 1)
    kept = np.setdiff1d(np.arange(7), missing)
    still = (6,)
    corners = [without(corner, still) for corner in asked_corners(network, every, 120) if corner.whole]
    rows = every[kept]
    assert choose_with_missing(corners, rows, np.ones(rows.shape, dtype=bool), 2) is None


def test_a_unit_that_is_on_everywhere_is_not_taken_for_one_that_is_missing():
    """With open weights it may as well be off, and another one with the same row be missing: it is on."""
    network = deep_network(2, (4,))
    every = rows_of(network, 1)
    flips = np.where(np.arange(7) % 2, -1.0, 1.0)
    corners = asked_corners(network, every, 60)
    found = choose_with_missing(corners, every * flips[:, None], np.ones(every.shape, dtype=bool))
    assert found is None or (found.num == 0 and np.array_equal(found.signs, flips))


def without(corner: Corner, features: tuple[int, ...]) -> Corner:
    """The corner as it would be if some features did not move there."""
    others = np.setdiff1d(np.flatnonzero(corner.moving), features)
    errors = np.full(len(others), corner.errors.max())
    basis = np.eye(len(corner.features))[:, others]
    return replace(corner, basis=basis, slopes=corner.derivative[others], errors=errors)
