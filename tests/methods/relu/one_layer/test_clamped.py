"""Units between two kinks: relu6, hardtanh, hardsigmoid through identify, and what is not made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unweave
from unweave.core.network import Network
from unweave.methods.relu.one_layer.clamped import pair_planes
from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.models.torch_module import read_module
from unweave.probes.planes import Planes


@pytest.mark.parametrize("kind", [torch.nn.ReLU6, torch.nn.Hardtanh, torch.nn.Hardsigmoid])
def test_a_torch_module_of_each(kind):
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(8, 12), kind(), torch.nn.Linear(12, 2)).double()
    found = unweave.identify(model)
    assert found.identified, found.reason
    assert found.method == "clamped"
    assert unweave.compare(read_module(model), found.network).max_relative_error < 1e-9
    assert found.ledger.total < 12 * found.network.num_parameters


def test_the_named_one_is_returned():
    rng = np.random.default_rng(0)
    truth = Network(
        [rng.standard_normal((5, 4)), rng.standard_normal((1, 5))],
        [rng.standard_normal(5), rng.standard_normal(1)],
        ["hardsigmoid", "identity"],
    )
    found = unweave.identify(truth, activation="hardsigmoid")
    assert found.identified, found.reason
    assert found.network.activations[0] == "hardsigmoid"
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


def test_a_plane_without_a_partner_is_no_clamped_unit():
    normals = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    jumps = np.array([[2.0], [-2.0], [1.0]])
    planes = Planes(normals, np.array([1.0, 1.0, 0.0]), jumps, np.zeros(3), np.zeros((3, 2)))
    assert pair_planes(RidgeSum(planes, np.zeros((1, 2)), np.zeros(1))) is None
    [pair] = pair_planes(RidgeSum(planes.take([0, 1]), np.zeros((1, 2)), np.zeros(1))) or []
    assert sorted(pair) == [0, 1]
