"""The activation from one profile under an unknown smooth top."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.probes.activation_profile import REACH, rank_activations


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
