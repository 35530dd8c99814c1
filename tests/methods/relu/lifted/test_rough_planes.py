"""Planes and units that rough answers show: by all kinks, by votes, and weights that were misread."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from methods.relu.lifted.test_follow import draw_network, open_search
from methods.relu.lifted.test_joint import traced
from truth import relu_in_float32
from unweave.methods.relu.lifted.planes import Planes, outvoted, sharpen_by_kinks
from unweave.methods.relu.lifted.ridge_normal import gradient_of, normal_matrix
from unweave.methods.relu.lifted.ridge_sum import put_up
from unweave.methods.relu.lifted.unite import unite


def found_planes(seed: int = 0):
    search = open_search(draw_network((3, 12, 8, 2), seed), unweave.Box(-2.0, 2.0))
    search.draw(20)
    search.find_planes()
    return search


def test_kinks_sharpen_planes_that_are_known_roughly():
    search = found_planes()
    rng, planes = np.random.default_rng(1), search.planes
    rough = Planes(
        planes.normals + 1e-5 * rng.standard_normal(planes.normals.shape),
        planes.offsets + 1e-5 * rng.standard_normal(len(planes)),
        np.array([1e-10 * np.eye(4)] * len(planes)),
        planes.shares,
    )
    sharp = sharpen_by_kinks(search.sightings, rough, 0)
    lengths = np.linalg.norm(sharp.normals, axis=1)
    assert np.max(np.abs(sharp.offsets / lengths - planes.offsets)) < 1e-8
    assert np.all(
        np.trace(sharp.covariances, axis1=1, axis2=2) < np.trace(rough.covariances, axis1=1, axis2=2)
    )


def test_lines_vote_against_a_facet_taken_for_a_plane():
    search = found_planes()
    planes, normal = search.planes, np.array([0.6, 0.64, 0.48])
    more = planes.join(Planes(normal[None], np.array([0.1]), 1e-10 * np.eye(4)[None], np.ones(1)))
    assert list(np.flatnonzero(outvoted(search.sightings, more))) == [len(planes)]


def test_parts_of_a_unit_that_share_a_misread_weight_are_one():
    _, _, search = traced()
    t = search.follower.traces
    j = int(np.argmax(t.known.sum(axis=1)))
    assert t.known[j].all()
    pair = t.take(np.array([j, j]))
    plane, wrong = 2, 0.1
    side = pair.sides[0, plane]
    pair.sides = np.array([pair.sides[0], -pair.sides[0]])
    for part, own in enumerate((side, -side)):
        pair.beta[part, plane] += wrong
        pair.gamma[part] -= wrong * own * pair.ridges[plane]
    assert unite(pair, 0, 1)
    assert np.allclose(pair.beta[0], t.beta[j], atol=1e-9)
    assert np.allclose(pair.gamma[0], t.gamma[j], atol=1e-9)


def test_the_normal_equations_are_those_of_the_whole_jacobian():
    network, box, search = traced()
    x = box.sample(200, 3, np.random.default_rng(2))
    y = network(x)
    point = put_up(search.follower.traces, search.follower.faces, x, y, np.full(len(x), 1e-9))
    extended = np.hstack([x, np.ones((len(x), 1))])
    _, u, z = point.forward(extended)
    rng = np.random.default_rng(3)
    scale, right = rng.uniform(0.5, 2, y.shape), rng.standard_normal(y.shape)
    start, step = point.flat(), 1e-7
    columns = [
        (
            point.at(start + step * e).forward(extended)[0] - point.at(start - step * e).forward(extended)[0]
        ).ravel()
        for e in np.eye(len(start))
    ]
    jacobian = np.array(columns).T / (2 * step)
    assert np.allclose(gradient_of(point, extended, u, z, right), jacobian.T @ right.ravel(), atol=1e-4)
    weighted = jacobian * scale.reshape(-1, 1)
    wanted = weighted.T @ weighted
    assert np.allclose(normal_matrix(point, extended, u, z, scale), wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", [0])
def test_two_layers_are_refused_by_the_search_for_one_in_a_second(seed):
    network = draw_network((4, 16, 16, 2), seed)
    found = unweave.identify(
        relu_in_float32(network), input_size=4, domain=unweave.Box(-1.0, 1.0), seed=1, method="relu-lines"
    )
    assert not found.identified
    assert found.ledger.total < 6000
