"""A model over coordinates of a subspace: the same answers, the same ledger, a transcript of its own."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.core.domains import Box
from unweave.evidence.affine_view import AffineView
from unweave.evidence.meter import Meter
from unweave.models.resolve import resolve


def test_answers_are_those_of_the_points_that_the_coordinates_stand_for():
    network = random_network((5, 4, 2), "relu", 1)
    meter = Meter(resolve(network))
    rows = np.random.default_rng(0).standard_normal((3, 5))
    inverse = np.linalg.pinv(rows)
    origin = np.arange(5.0)
    view = AffineView(meter, origin, inverse.T, rows.T, Box(0.0, 1.0))
    h = np.random.default_rng(1).uniform(size=(7, 3))
    with view.stage("points"):
        answers = view.ask(h)
    meter.ask(np.eye(5)[:2])
    view.ask(h + 1)
    np.testing.assert_allclose(answers, network(origin + h @ inverse.T), atol=1e-12)
    asked, told = view.transcript("points")
    np.testing.assert_allclose(asked, h, atol=1e-12)
    np.testing.assert_array_equal(told, answers)
    assert len(view.transcript()[0]) == 14
    assert len(meter.transcript()[0]) == 16
    assert meter.ledger.by_stage["points"] == 7


def test_coordinates_are_snapped_as_the_model_sees_the_points():
    network = random_network((5, 4, 2), "relu", 1)
    meter = Meter(resolve(network))
    meter.look_through(None, single=True)
    rows = np.random.default_rng(0).standard_normal((3, 5))
    inverse = np.linalg.pinv(rows)
    view = AffineView(meter, np.ones(5), inverse.T, rows.T, Box(0.0, 1.0))
    h = np.random.default_rng(1).uniform(size=(7, 3))
    seen = view.snap(h)
    assert 0 < np.max(np.abs(seen - h)) < 1e-6
    np.testing.assert_allclose((view.outward(h) - 1) @ rows.T, seen, atol=1e-12)
