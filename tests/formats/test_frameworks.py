"""Networks as torch and scikit-learn models."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.core.errors import ExportError
from unweave.core.network import Network
from unweave.exports import to_sklearn, to_torch


@pytest.mark.parametrize("activation", [*act.names(), "softplus(10)", "leaky_relu(0.2)", "elu(0.5)"])
def test_torch_modules_compute_the_network(activation):
    import torch

    network = random_network((4, 6, 2), "tanh", seed=5)
    network = Network(network.weights, network.biases, [activation, "identity"])
    model = to_torch(network)
    assert isinstance(model, torch.nn.Sequential)
    x = 3 * np.random.default_rng(0).standard_normal((200, 4))
    with torch.no_grad():
        y = model(torch.from_numpy(x)).numpy()
    assert np.max(np.abs(y - network(x))) <= 3e-14 * np.max(np.abs(network(x)))


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "identity"])
@pytest.mark.parametrize("sizes", [(5, 8, 1), (5, 8, 4, 3)])
def test_sklearn_models_predict_the_network(activation, sizes):
    network = random_network(sizes, activation, seed=2)
    x = np.random.default_rng(0).standard_normal((100, 5))
    y = to_sklearn(network).predict(x).reshape(100, -1)
    assert np.allclose(y, network(x), rtol=1e-12, atol=1e-12)


def test_sklearn_refuses_what_it_cannot_express():
    with pytest.raises(ExportError, match="to_torch"):
        to_sklearn(random_network((3, 4, 1), "gelu"))
    mixed = random_network((3, 4, 4, 1))
    with pytest.raises(ExportError, match="tanh/relu"):
        to_sklearn(Network(mixed.weights, mixed.biases, ["tanh", "relu", "identity"]))
