"""What is known about the inputs: Gaussian or not, and whitening taken back in the weights."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.errors import InputError
from unweave.evidence.gaussianity import check_gaussian
from unweave.evidence.whitening import Whitening


def test_gaussian_rows_pass_whatever_their_covariance():
    passed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((800, 6)) @ rng.standard_normal((6, 6)) + 3
        check = check_gaussian(x, rng)
        assert check is not None
        passed += check.passes
    assert passed == 8


@pytest.mark.parametrize("kind", ["uniform", "exponential", "student", "sphere"])
def test_other_rows_do_not(kind):
    rng = np.random.default_rng(0)
    g = rng.standard_normal((1000, 5))
    x = {
        "uniform": rng.uniform(-1, 1, (1000, 5)),
        "exponential": rng.exponential(size=(1000, 5)),
        "student": g
        / np.sqrt(rng.chisquare(4, (1000, 1)) / 4),  # every coordinate heavy-tailed, uncorrelated
        "sphere": g / np.linalg.norm(g, axis=1, keepdims=True),
    }[kind]
    check = check_gaussian(x, rng)
    assert check is not None
    assert not check.passes
    assert "not Gaussian" in check.describe()


def test_few_rows_say_nothing():
    assert check_gaussian(np.zeros((10, 3)), np.random.default_rng(0)) is None


def test_whitening_makes_rows_standard_and_is_taken_back():
    rng = np.random.default_rng(2)
    mixing = rng.standard_normal((4, 4))
    x = rng.standard_normal((20_000, 4)) @ mixing + [1, 2, 3, 4]
    whitening = Whitening.of(x.mean(axis=0), np.cov(x.T), "estimated")
    u = whitening(x)
    assert np.allclose(u.mean(axis=0), 0, atol=1e-12)
    assert np.allclose(np.cov(u.T), np.eye(4), atol=1e-10)
    network = random_network((4, 5, 1), "relu", 0)
    assert np.allclose(whitening.undo(network)(x), network(u), atol=1e-11)


def test_directions_without_movement_are_dropped():
    covariance = np.diag([1.0, 0.0, 4.0])
    whitening = Whitening.of(np.zeros(3), covariance, "given")
    assert whitening.num_lost == 1
    assert whitening(np.ones((5, 3))).shape == (5, 2)


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        (np.eye(3), "shape"),
        (np.diag([1.0, -1.0]), "negative"),
        (np.array([[1, np.nan], [np.nan, 1]]), "symmetric|finite"),
    ],
)
def test_impossible_moments_are_refused(covariance, words):
    with pytest.raises(InputError, match=words):
        Whitening.of(np.zeros(2), covariance, "given")
