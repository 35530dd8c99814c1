"""A plane in a corner of the box, told by kinks on it with different bends."""

from __future__ import annotations

import numpy as np

import unweave
from methods.relu.lifted.test_follow import draw_network, open_search
from unweave.core.network import Network
from unweave.methods.relu.lifted.changing import find_changing
from unweave.methods.relu.lifted.planes import Planes


def test_bends_that_differ_along_a_plane_tell_it():
    drawn, box = draw_network((3, 10, 8, 2), 3), unweave.Box(-1.0, 1.0)
    rows, offsets = drawn.weights[0].copy(), drawn.biases[0].copy()
    rows[0], offsets[0] = np.ones(3), -2.3  # on in one corner
    network = Network([rows, *drawn.weights[1:]], [offsets, *drawn.biases[1:]], drawn.activations)
    search = open_search(network, box)
    search.draw(12)
    search.draw_edges(20)
    search.sightings.measure(np.arange(len(search.sightings)))
    found = find_changing(search.sightings, Planes.none(3))
    truth = np.hstack([network.weights[0], network.biases[0][:, None]])
    truth /= np.linalg.norm(network.weights[0], axis=1)[:, None]
    planes = np.hstack([found.normals, found.offsets[:, None]])
    apart = np.minimum(
        np.linalg.norm(planes[:, None] - truth, axis=2), np.linalg.norm(planes[:, None] + truth, axis=2)
    )
    assert len(found) > 3
    assert np.all(apart.min(axis=1) < 1e-6)
    assert apart[:, 0].min() < 1e-6
