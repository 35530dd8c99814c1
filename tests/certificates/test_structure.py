"""Residuals as small as the noise may still have a pattern: units of another kind are told by it."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from unweave.certificates.structure import check_repeats, check_structure
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


def test_a_bend_within_the_noise_contradicts_a_linear_network():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 4))
    linear = Network([rng.standard_normal((1, 4))], [np.zeros(1)], ["identity"])
    straight = linear(x)
    noise = 0.05 * rng.standard_normal((4000, 1))
    assert all(check.passed for check in check_structure(linear, x, straight + noise, 0.05))
    bent = straight + 0.02 * (straight**2 - np.mean(straight**2)) + noise
    assert not any(check.passed for check in check_structure(linear, x, bent, 0.06))


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


@pytest.mark.parametrize("repeated", [300, 900])
def test_the_same_inputs_with_other_answers_are_no_noise(repeated):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((900, 4))
    y = np.maximum(x @ rng.standard_normal(4) - 0.1, 0)
    x, y = np.vstack([x, x[:repeated]]), np.append(y, y[:repeated] + 0.1)
    found = unweave.learn(x, y, time_limit=20)
    assert not found.identified, found.verdict()


def test_repeated_rows_of_one_noisy_model_are_no_fault():
    rng = np.random.default_rng(3)
    x = np.repeat(rng.standard_normal((400, 4)), 3, axis=0)
    y = _network("relu")(x) + 0.05 * rng.standard_normal((1200, 1))
    (check,) = check_repeats(x, y, 0.05)
    assert check.passed
    (check,) = check_repeats(x, y, 0.03)
    assert not check.passed
    assert "not those of one model" in check.reason
    assert check_repeats(x[::3], y[::3], 0.05) == []
