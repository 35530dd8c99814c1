"""Kinks of the last hidden layer, told by the directions in which the outputs bend."""

from __future__ import annotations

import numpy as np
import pytest

from methods.relu.deep.test_engine import first_layers, he_network, open_pool
from unweave.methods.relu.deep.extremes import random_lines
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.deep.wide import _seeds
from unweave.methods.relu.outputs import is_deeper, shared_outputs, those_that_wait


def kinks_of(sizes: tuple[int, ...]):
    """A pool of lines, and which of the kinks beyond the first layer are of the last."""
    network = he_network(sizes, 1)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, 8, network.input_size, pool.rng))
    view = LayerView(pool, first_layers(network, 1))
    z = first_layers(network, len(sizes) - 2).arguments(pool.x[view.open])[-1]
    size = np.linalg.norm(pool.x[view.open], axis=1, keepdims=True)
    is_last = np.min(np.abs(z) / (1e-3 + size), axis=1) < 1e-9
    return pool, view, is_last


def test_kinks_of_the_last_layer_are_told_from_those_below():
    pool, view, is_last = kinks_of((8, 16, 12, 12, 4))
    late = shared_outputs(pool.slope_jump, pool.line, pool.is_random[pool.line])[view.open]
    assert 0.2 < is_last.mean() < 0.8
    assert np.mean(late[is_last]) > 0.9
    assert np.mean(late[~is_last]) < 0.2


def test_kinks_that_are_followed_are_not_those_of_the_last_layer():
    _, view, is_last = kinks_of((8, 16, 12, 12, 4))
    seeds = _seeds(view, [], set(), 40)
    assert len(seeds) >= 5
    assert np.mean(is_last[np.isin(view.open, seeds)]) < 0.2
    late = is_last[is_last]
    assert not those_that_wait(late).any()  # the last layer is looked for: all there is


@pytest.mark.parametrize(("sizes", "deeper"), [((8, 16, 12, 4), False), ((8, 16, 12, 12, 4), True)])
def test_several_outputs_tell_whether_there_are_more_than_two_layers(sizes, deeper):
    pool, view, _ = kinks_of(sizes)
    assert is_deeper(pool.slope_jump[view.open], pool.line[view.open]) == deeper
    assert not is_deeper(pool.slope_jump[view.open][:, :1], pool.line[view.open])
