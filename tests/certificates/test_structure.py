"""Residuals as small as the noise may still have a pattern: units of another kind are told by it."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from unweave.certificates.structure import check_structure
from unweave.core.network import Network


def _network(activation: str) -> Network:
    rng = np.random.default_rng(3)
    return Network(
        [2 * rng.standard_normal((3, 4)), rng.standard_normal((1, 3))],
        [rng.standard_normal(3), [0.2]],
        [activation, "identity"],
    )


@pytest.mark.parametrize("seed", range(5))
def test_noise_passes_and_another_activation_does_not(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4000, 4))
    truth, other = _network("relu"), _network("gelu")
    y = truth(x) + 0.05 * rng.standard_normal((4000, 1))
    (right,) = check_structure(truth, x, y, 0.05)
    assert right is not None
    assert right.passed
    errors = other(x) - y
    (wrong,) = check_structure(other, x, y, float(np.sqrt(np.mean(errors**2))))
    assert wrong is not None
    assert not wrong.passed
    assert "another kind" in wrong.reason


def test_few_rows_tell_nothing():
    x = np.random.default_rng(0).standard_normal((30, 4))
    assert check_structure(_network("relu"), x, np.zeros((30, 1)), 1.0) == []


def test_noisy_rows_of_a_right_network_keep_their_claim():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3000, 4))
    y = _network("relu")(x)[:, 0] + 0.01 * rng.standard_normal(3000)
    found = unweave.learn(x, y, activation="relu", time_limit=60)
    assert found.identified, found.verdict()
    assert any(check.name == "structure of residuals" and check.passed for check in found.certificate.checks)
