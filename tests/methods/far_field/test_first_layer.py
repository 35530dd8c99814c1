"""Rows of a first layer under an unknown top."""

from __future__ import annotations

import numpy as np

from unweave.methods.far_field.first_layer import invert_profile

NODES = np.cos(np.pi * (np.arange(10) + 0.5) / 10)


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
