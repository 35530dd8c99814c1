"""The activation from one profile under an unknown smooth top."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.probes.activation_profile import REACH, has_gaussian_tail, rank_activations
from unweave.probes.far_circle import Circle, Crossing


@pytest.mark.parametrize("name", ["tanh", "erf"])
@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_the_right_activation_has_the_least_residual(name, noise):
    rng = np.random.default_rng([len(name), int(noise > 0)])
    for _ in range(4):
        h = act.get(name)(rng.uniform(0.6, 1.4) * REACH + rng.normal(0, 0.4))
        answers = np.tanh(0.5 * h + 0.3) + 0.4 * np.tanh(0.7 * h - 0.2)
        answers = (answers + noise * rng.standard_normal(len(h)))[:, None]
        residuals = rank_activations(REACH, answers, ["tanh", "erf"])
        assert min(residuals, key=lambda a: residuals[a]) == name
        assert residuals[name] < 0.5 * max(residuals.values())


@pytest.mark.parametrize("name", ["tanh", "erf"])
@pytest.mark.parametrize("factor", [1.0, 20.0])
def test_tails_tell_unless_the_crossing_is_wider_than_they_are(name, factor):
    circle = Circle(np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]))

    def ask(x: np.ndarray) -> np.ndarray:
        h = act.get(name)(x[..., 1:])
        return np.tanh(0.5 * h + 0.3)

    before, after = ask(np.array([[1.0, -40.0], [1.0, 40.0]]))
    crossing = Crossing(0.0, factor, before, after, 1e4, -0.01, 0.01)
    assert has_gaussian_tail(ask, circle, crossing, 1e-17) is (None if factor > 1 else name == "erf")
