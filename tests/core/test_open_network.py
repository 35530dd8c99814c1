"""Open networks: the first layers known, the rest a function or unknown."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from unweave.core.errors import InputError
from unweave.core.network import UNKNOWN, Network


def _open(activation: str, upper=None) -> Network:
    rng = np.random.default_rng(1)
    return Network(
        [rng.standard_normal((4, 3))],
        [rng.standard_normal(4)],
        [activation],
        UNKNOWN if upper is None else upper,
    )


def test_the_unknown_part_cannot_be_evaluated():
    net = _open("relu")
    assert net.is_open
    assert net.hidden == (4,)
    assert net.describe() == "3-4 relu, the rest unknown"
    assert net.units(np.zeros((2, 3))).shape == (2, 4)
    with pytest.raises(InputError, match="not known"):
        net(np.zeros((2, 3)))
    with pytest.raises(InputError, match="upper="):
        Network(net.weights, net.biases, net.activations, "open")


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "step", "softplus(3)", "tanh", "exp"])
def test_symmetries_keep_the_function_below_a_known_top(activation):
    net = _open(activation, upper=lambda h: np.sin(h @ np.array([1.0, 2.0, -1.0, 0.5])))
    x = np.random.default_rng(2).standard_normal((30, 3))
    assert net(x).shape == (30, 1)
    assert np.allclose(net.canonical()(x), net(x))
    assert np.allclose(net.permuted(0, [2, 0, 3, 1])(x), net(x))
    if activation in ("sigmoid", "tanh", "step"):
        assert np.allclose(net.flipped(0, np.array([True, False, True, False]))(x), net(x))


def test_comparison_looks_at_the_first_layer_only():
    net = _open("relu")
    rng = np.random.default_rng(3)
    whole = Network(
        [*net.weights, rng.standard_normal((2, 4))], [*net.biases, np.zeros(2)], ["relu", "identity"]
    )
    moved = net.permuted(0, [3, 1, 0, 2]).rescaled(0, np.array([2.0, 0.5, 3.0, 1.0]))
    comparison = unweave.compare(whole, moved)
    assert comparison.max_relative_error < 1e-14
    assert len(comparison.per_layer) == 1
