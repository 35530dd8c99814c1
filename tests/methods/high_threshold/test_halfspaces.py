"""Intersections of halfspaces from labels and from questions."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import separate_normals
from unweave.core.errors import InputError, Outcome


def polytope(k: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return separate_normals(k, d, rng), rng.uniform(1.4, 2.1, k)


def worst(truth: np.ndarray, found: np.ndarray) -> float:
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())


def test_more_halfspaces_than_dimensions_from_labels():
    normals, offsets = polytope(7, 4, 1)
    x = np.random.default_rng(2).standard_normal((80_000, 4))
    inside = np.all(x @ normals.T <= offsets, axis=1)
    found = unweave.Halfspaces.learn(x, inside)
    assert len(found) == 7
    assert found.agrees
    assert found.verdict().startswith("identified")
    assert worst(normals, found.normals) < 1e-2
    assert np.mean(found(x) != inside) < 1e-3
    assert np.array_equal(found.network(x[:100])[:, 0] > 0, found(x[:100]))
    signed = unweave.Halfspaces.learn(x, np.where(inside, 1, -1), num_halfspaces=7)
    assert len(signed) == 7


def test_equal_offsets_share_one():
    normals, _ = polytope(4, 4, 3)
    x = np.random.default_rng(4).standard_normal((40_000, 4))
    found = unweave.Halfspaces.learn(x, np.all(x @ normals.T <= 1.8, axis=1), equal_offsets=True)
    assert np.ptp(found.offsets) == 0
    assert abs(found.offsets[0] - 1.8) < 1e-2


def test_questions_give_every_face_to_rounding():
    normals, offsets = polytope(12, 6, 5)
    found = unweave.Halfspaces.identify(lambda x: np.all(x @ normals.T <= offsets, axis=1), 6)
    assert len(found) == 12
    assert worst(normals, found.normals) < 1e-12
    assert found.num_queries <= 2000 * 6
    assert found.agrees


def test_identify_takes_models_with_two_answers():
    normals, offsets = polytope(6, 4, 6)
    for low, high in ((0.0, 1.0), (-1.0, 1.0)):
        found = unweave.identify(
            lambda x, low=low, high=high: np.where(np.any(x @ normals.T > offsets, axis=1), high, low),
            input_size=4,
        )
        assert found.method == "halfspaces"
        assert found.identified, found.verdict()
        assert found.network is not None
        assert worst(normals, found.network.weights[0]) < 1e-12
    assert found.ledger.total <= 2000 * 4


def test_curved_or_bent_boundaries_are_not_called_identified():
    ball = unweave.identify(lambda x: (np.linalg.norm(x, axis=1) < 2).astype(float), input_size=3)
    assert ball.outcome is Outcome.NOT_IDENTIFIED
    assert "not flat" in ball.reason
    rng = np.random.default_rng(7)
    rows, top = rng.standard_normal((6, 4)), rng.standard_normal(6)
    bent = unweave.identify(lambda x: (np.maximum(x @ rows.T + 0.3, 0) @ top > 0).astype(float), input_size=4)
    assert not bent.identified


def test_refusals_name_the_remedy():
    x = np.zeros((100, 2))
    with pytest.raises(InputError, match="no boundary"):
        unweave.Halfspaces.learn(x, np.ones(100))
    with pytest.raises(InputError, match="one label a row"):
        unweave.Halfspaces.learn(x, np.ones(99))
    with pytest.raises(InputError, match="centre="):
        unweave.Halfspaces.identify(lambda x: x[:, 0] > 5, 2)


def test_a_missing_halfspace_is_not_taken_for_wrong_labels():
    normals, offsets = polytope(5, 4, 8)
    rng = np.random.default_rng(9)
    x = rng.standard_normal((40_000, 4))
    inside = np.all(x @ normals.T <= offsets, axis=1)
    short = unweave.Halfspaces.learn(x, inside, num_halfspaces=4)
    assert not short.agrees
    assert short.verdict().startswith("not identified")
    flipped = unweave.Halfspaces.learn(x, inside ^ (rng.uniform(size=len(x)) < 0.005))
    assert len(flipped) == 5
    assert flipped.agrees
