"""Planes of the first layer that traces are, told from rough answers."""

from __future__ import annotations

import numpy as np

import unweave
from methods.relu.lifted.test_follow import draw_network, open_search
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.straight import find_straight
from unweave.methods.relu.lifted.traces import Traces


def traces_of_a_plane(errors: np.ndarray) -> Traces:
    """A trace of ``x_0 + 0.2`` across three others, whose weights were read with these errors."""
    others = np.eye(3)
    planes = Planes(others, np.array([0.3, -0.2, 0.1]), 1e-18 * np.eye(4)[None].repeat(3, axis=0), np.ones(3))
    facet = np.array([[1.0, 0.4, 0.0, 0.2]])
    traces = Traces.none(planes, 1).begin(
        np.array([[-0.2, 0.0, 0.0]]),
        facet,
        np.ones((1, 1)),
        np.array([1e-7]),
        np.array([1e-7]),
        np.zeros(1, dtype=int),
    )
    for plane, error in enumerate(errors):
        traces.cross(0, plane, 2 * error, error)
    return traces


def test_weights_that_were_read_roughly_do_not_turn_the_plane():
    numbers, planes = find_straight(traces_of_a_plane(np.array([1e-6, 2e-2, 1e-6])), {0})
    assert list(numbers) == [0]
    facet = np.array([1.0, 0.4, 0.0, 0.2])
    truth = facet / np.linalg.norm(facet[:-1])
    assert np.linalg.norm(np.append(planes.normals[0], planes.offsets[0]) - truth) < 1e-5


def test_a_plane_that_two_traces_are_is_offered_once():
    traces = traces_of_a_plane(np.array([1e-6, 1e-6, 1e-6]))
    weaker = traces.take(np.array([0]))
    weaker.gamma, weaker.covariance = 0.3 * weaker.gamma, 0.09 * weaker.covariance
    weaker.beta = 0.3 * weaker.beta
    numbers, planes = find_straight(traces.join(weaker), set())
    assert len(numbers) == len(planes) == 1


def test_a_plane_found_later_ends_only_the_traces_that_it_concerns():
    search = open_search(draw_network((3, 8, 6, 2), 0), unweave.Box(-2.0, 2.0), dtype="float32")
    search.draw(16)
    search.find_planes()
    search.explain()
    follower = search.follower
    assert follower is not None
    follower.own(search.open_kinks())
    # through the kinks of one trace
    unit = int(np.argmax(follower.owned.sum(axis=0)))
    seed, x = follower.traces.seed[unit], search.sightings.x[follower.kinks[follower.owned[:, unit]]]
    normal = np.linalg.svd(x - x.mean(axis=0))[2][0]
    fresh = Planes(normal[None], -np.array([normal @ x.mean(axis=0)]), 1e-18 * np.eye(4)[None], np.ones(1))
    before = {int(s) for s in follower.traces.seed}
    sides = {
        int(s): fresh.heights(search.sightings.x[follower.kinks[own]])[:, 0] > 0
        for s, own in zip(follower.traces.seed, follower.owned.T, strict=True)
    }
    follower.extend(search.planes.join(fresh))
    left = {int(s) for s in follower.traces.seed}
    assert int(seed) not in left
    assert int(seed) not in follower.started
    assert all(not side.any() or side.all() for s, side in sides.items() if s in left)
    assert left < before
