"""Rows of a first layer under an unknown top."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.far_field.first_layer import (
    invert_profile,
    place_units,
    read_first_layer,
    sharpen_rows,
)
from unweave.methods.far_field.sight import Sight
from unweave.models.resolve import resolve
from unweave.probes.far_circle import find_crossings, random_circle

NODES = np.cos(np.pi * (np.arange(10) + 0.5) / 10)


def errors(network, rows):
    """Angle of each row to the true one it is nearest to."""
    truth = network.weights[0] / np.linalg.norm(network.weights[0], axis=1, keepdims=True)
    cosines = np.abs(rows @ truth.T) / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.sqrt(np.maximum(2 - 2 * np.max(cosines, axis=1), 0.0))


def test_places_on_a_profile_are_found_whatever_stands_above():
    def answer(s: np.ndarray) -> np.ndarray:
        h = np.tanh(0.5 * s + 0.2)
        return np.stack([np.sin(h) + 0.3 * h**2, np.exp(0.5 * h)], axis=-1)

    places = np.linspace(-0.9, 0.9, 13)
    found = invert_profile(NODES, answer(NODES), answer(places), 0.9 * places)
    assert found is not None
    np.testing.assert_allclose(found, places, atol=1e-6)


def test_a_profile_that_turns_is_not_inverted():
    assert invert_profile(NODES, (NODES**2)[:, None], np.array([[0.1]]), np.zeros(1)) is None


@pytest.mark.parametrize("seed", [3, 5, 6])
def test_rows_are_sharpened_where_steps_lead_beyond_the_profile_or_answers_turn_back(seed):
    network, rng = random_network((6, 5, 4, 1), "tanh", seed=2), np.random.default_rng(seed)
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    circle = random_circle(6, rng)
    crossings = find_crossings(
        sight.meter.ask, circle, sight.radius, sight.activation, tolerance=sight.tolerance, close=256.0
    )
    layer = read_first_layer(sight, circle, crossings, True, np.eye(6))
    assert np.max(errors(network, layer.rows)) > 1e-3
    assert np.max(errors(network, sharpen_rows(sight, layer).rows)) < 1e-6


@pytest.mark.parametrize("factor", [1 / 400, 1.0, 5.0])
def test_rows_have_their_lengths_whatever_width_a_crossing_was_given(factor):
    network, rng = random_network((6, 5, 4, 1), "tanh", seed=2), np.random.default_rng(5)
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    circle = random_circle(6, rng)
    crossings = find_crossings(
        sight.meter.ask, circle, sight.radius, sight.activation, tolerance=sight.tolerance, close=256.0
    )
    layer = sharpen_rows(sight, read_first_layer(sight, circle, crossings, True, np.eye(6)))
    given = [
        replace(r, crossing=replace(r.crossing, width=factor * r.crossing.width)) for r in layer.readings
    ]
    rows, biases = place_units(sight, replace(layer, readings=given))
    cosines = rows @ network.weights[0].T / np.linalg.norm(network.weights[0], axis=1)
    true = np.argmax(np.abs(cosines) / np.linalg.norm(rows, axis=1, keepdims=True), axis=1)
    np.testing.assert_allclose(
        np.linalg.norm(rows, axis=1), np.linalg.norm(network.weights[0][true], axis=1), rtol=0.03
    )
    signs = np.sign(cosines[np.arange(len(rows)), true])
    np.testing.assert_allclose(signs * biases, network.biases[0][true], atol=0.4)


def test_a_slow_unit_is_profiled_without_its_neighbours():
    """Along the circle the others, thirty times as long, switch within its transition."""
    network, rng = random_network((6, 5, 4, 1), "tanh", seed=2), np.random.default_rng(5)
    rows = network.weights[0].copy()
    rows[0] *= 0.03
    network = replace(network, weights=(rows, *network.weights[1:]))
    sight = Sight(
        Meter(resolve(network)), Precision(1e-17, 1.0, "float64"), act.get("tanh"), rng, float("inf")
    )
    circle = random_circle(6, rng)
    crossings = find_crossings(
        sight.meter.ask, circle, sight.radius, sight.activation, tolerance=sight.tolerance, close=256.0
    )
    layer = sharpen_rows(sight, read_first_layer(sight, circle, crossings, True, np.eye(6)))
    found, _ = place_units(sight, layer)
    cosines = np.abs(found @ rows.T) / np.linalg.norm(found, axis=1, keepdims=True)
    true = np.argmax(cosines / np.linalg.norm(rows, axis=1), axis=1)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(rows[true], axis=1), rtol=0.03)
