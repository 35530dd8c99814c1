"""The staircase on a far circle: as many steps as units, at the right angles, with clean plateaus."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.probes.far_circle import Circle, find_crossings, random_circle

RADIUS = 1e6


def true_angles(network: Network, circle: Circle) -> np.ndarray:
    plane = network.weights[0] @ np.stack([circle.first, circle.second], axis=1)
    return np.sort(np.arctan2(-plane[:, 0], plane[:, 1]) % np.pi)


@pytest.mark.parametrize("seed", range(4))
def test_each_unit_switches_once(seed):
    network = random_network((8, 10, 1), "tanh", seed)
    circle = random_circle(8, np.random.default_rng(seed))
    crossings = find_crossings(network, circle, RADIUS, act.get("tanh"), tolerance=1e-9)
    angles = np.array([c.angle for c in crossings])
    assert len(crossings) == 10
    assert np.max(np.abs(angles - true_angles(network, circle))) < 1e-4


def test_widths_are_exact_under_an_affine_top():
    network = random_network((6, 5, 2), "erf", 1)
    circle = random_circle(6, np.random.default_rng(0))
    crossings = find_crossings(network, circle, RADIUS, act.get("erf"), tolerance=1e-9)
    slopes = np.linalg.norm(network.weights[0] @ np.stack([circle.first, circle.second], axis=1), axis=1)
    assert np.allclose(np.sort([c.width for c in crossings]), np.sort(1 / slopes), rtol=1e-4)


def test_plateaus_join_and_are_saturated():
    network = random_network((6, 7, 1), "tanh", 2)
    circle = random_circle(6, np.random.default_rng(5))
    crossings = find_crossings(network, circle, RADIUS, act.get("tanh"), tolerance=1e-9)
    for left, right in pairwise(crossings):
        assert np.array_equal(left.after, right.before)
        middle = circle.point(np.array([(left.angle + right.angle) / 2]), RADIUS)
        assert np.allclose(network(middle)[0], left.after, atol=1e-13)


def test_a_transition_cut_by_the_ends_counts_once():
    rows = np.array([[1e-9, 1.0], [1.0, 0.2], [-0.3, 1.0]])
    network = Network([rows, [[1.0, 2.0, -0.7]]], [[0.2, 0.1, -0.3], [0.0]], ["tanh", "identity"])
    circle = Circle(np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert len(find_crossings(network, circle, RADIUS, act.get("tanh"), tolerance=1e-9)) == 3


def test_jumps_have_width_zero():
    network = random_network((5, 4, 1), "tanh", 3)
    stepped = Network(network.weights, network.biases, ["step", "identity"])
    circle = random_circle(5, np.random.default_rng(1))
    crossings = find_crossings(stepped, circle, RADIUS, act.get("tanh"), tolerance=1e-9)
    assert [c.width for c in crossings] == [0.0] * 4
