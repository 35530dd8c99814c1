"""Units that switch near corners of a box only, which no ordinary point shows, are found from derivatives there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

import unweave
from truth import remote_network
from unweave.core.network import Network


@pytest.mark.parametrize(("seed", "activation"), [(0, "sigmoid"), (3, "tanh")])
def test_every_unit_is_found_in_float64(seed, activation):
    truth = remote_network(seed, activation=activation)
    x = np.random.default_rng(9).uniform(size=(4000, 40))
    slopes = truth.weights[0] @ x.T + truth.biases[0][:, None]
    assert np.sum(np.min(np.abs(slopes), axis=1) > 15) >= 2  # units that ordinary points hardly show
    found = unweave.identify(truth, domain=unweave.Box(0.0, 1.0), seed=seed)
    assert found.identified
    assert found.method == "corners"
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


@pytest.mark.parametrize("seed", [2, 5])
def test_float32_answers_give_the_units_to_rounding_but_cannot_exclude_others(seed):
    truth = remote_network(seed)

    def single(x: np.ndarray) -> np.ndarray:
        w, b = [a.astype(np.float32) for a in truth.weights], [a.astype(np.float32) for a in truth.biases]
        z = x.astype(np.float32) @ w[0].T + b[0]
        return expit(z) @ w[1].T + b[1]

    found = unweave.identify(single, input_size=40, domain=unweave.Box(0.0, 1.0), method="corners")
    assert not found.identified  # a unit whose tail is below rounding may have been missed
    assert found.network is not None
    assert unweave.compare(truth, found.network).max_relative_error < 1e-4


@pytest.mark.parametrize("sizes", [(30, 10, 8, 3), (30, 40, 3), (30, 10, 3)])
def test_other_networks_are_left_to_other_methods(sizes):
    rng = np.random.default_rng(0)
    pairs = list(pairwise(sizes))
    truth = Network(
        [rng.standard_normal((b, a)) for a, b in pairs],
        [rng.standard_normal(b) for _, b in pairs],
        ["tanh"] * (len(pairs) - 1) + ["identity"],
    )
    found = unweave.identify(
        truth, domain=unweave.Box(-1.0, 1.0), method="corners", budget=40_000, surrogate=False
    )
    assert not found.identified
    assert "use method='in-domain'" in found.reason
