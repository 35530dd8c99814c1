"""Rounding carried through a known network, against models that compute in single precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truth import random_network
from unweave.core.network import Network
from unweave.formats.torch import to_torch
from unweave.models.torch_module import read_module
from unweave.solve.propagated import propagated_rounding

UNIT = 2.0**-23


def misses(network: Network, x: np.ndarray) -> np.ndarray:
    """Errors of a torch model in single precision, in propagated roundings."""
    module = to_torch(network).to(torch.float32)
    exact = read_module(module)
    answers = module(torch.from_numpy(x.astype(np.float32))).detach().numpy().astype(float)
    return (answers - exact(x)) / propagated_rounding(exact, x, UNIT)


@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "elu", "selu", "mish", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(10, 16, 1), (10, 16, 16, 2)])
@pytest.mark.parametrize("radius", [0.3, 10.0, 1e5])
def test_answers_are_as_exact_as_it_says_near_and_far(name, sizes, radius):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((500, 10))
    x *= radius / np.linalg.norm(x, axis=1, keepdims=True)
    missed = misses(random_network(sizes, name, 2), x.astype(np.float32).astype(float))
    assert 0.3 < np.sqrt(np.mean(missed**2)) < 1.2
    assert np.abs(missed).max() < 7


def test_a_weak_unit_alone_is_heard_better_than_among_others():
    """Both units weigh on the first answer, the strong one is off at the second."""
    network = Network([np.eye(2), np.array([[1.0, 1e-3]])], [np.zeros(2), np.zeros(1)], ["gelu", "identity"])
    among, alone = propagated_rounding(network, np.array([[3.0, 1.0], [-12.0, 1.0]]), UNIT)[:, 0]
    assert alone < 3e-3 * among
