"""Torch modules as oracles, and plain sequences read as networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from unweave.core.errors import InputError, OracleError
from unweave.models.resolve import resolve, resolve_network

ACTIVATIONS = [
    (nn.Tanh(), "tanh"),
    (nn.ReLU(), "relu"),
    (nn.Sigmoid(), "sigmoid"),
    (nn.LeakyReLU(0.2), "leaky_relu(0.2)"),
    (nn.ELU(0.5), "elu(0.5)"),
    (nn.Softplus(beta=3.0), "softplus(3)"),
    (nn.GELU(), "gelu"),
    (nn.GELU(approximate="tanh"), "gelu_tanh"),
    (nn.SiLU(), "silu"),
    (nn.Mish(), "mish"),
    (nn.SELU(), "selu"),
    (nn.CELU(0.5), "celu(0.5)"),
    (nn.Hardswish(), "hardswish"),
    (nn.ReLU6(), "relu6"),
    (nn.Hardtanh(), "hardtanh"),
    (nn.Hardsigmoid(), "hardsigmoid"),
    (nn.Softsign(), "softsign"),
]


def _direct(module: nn.Module, x: np.ndarray) -> np.ndarray:
    parameter = next(module.parameters())
    with torch.no_grad():
        return module(torch.as_tensor(x, dtype=parameter.dtype)).double().numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("layer", "name"), ACTIVATIONS, ids=[name for _, name in ACTIVATIONS])
def test_sequences_answer_as_torch_does_and_are_read(layer, name, dtype, rng):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), layer, nn.Sequential(nn.Linear(6, 5), layer), nn.Linear(5, 2)).to(
        dtype
    )
    oracle = resolve(module)
    x = rng.standard_normal((30, 4)).astype(np.float32).astype(np.float64)
    assert (oracle.input_size, oracle.output_size, oracle.probes) == (4, 2, 0)
    assert oracle.dtype == ("float32" if dtype == torch.float32 else "float64")
    assert np.array_equal(oracle(x), _direct(module, x))
    network = resolve_network(module)
    assert network.activations == (name, name, "identity")
    assert np.allclose(network(x), oracle(x), atol=1e-6 if dtype == torch.float32 else 1e-14)


def test_training_mode_is_left_alone_and_dropout_is_off(rng):
    torch.manual_seed(0)
    frozen = nn.BatchNorm1d(6)
    module = nn.Sequential(nn.Linear(4, 6), frozen, nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 1)).double()
    module(torch.randn(50, 4, dtype=torch.float64))
    frozen.eval()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    oracle = resolve(module)
    x = rng.standard_normal((20, 4))
    assert np.array_equal(oracle(x), oracle(x))
    assert module.training
    assert module[3].training
    assert not frozen.training
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert np.allclose(resolve_network(module)(x), oracle(x), rtol=1e-12, atol=1e-13)


class Custom(nn.Module):
    """Layers registered in order, and a function between them."""

    def __init__(self, hidden_function):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)
        self.hidden_function = hidden_function

    def forward(self, x):
        return self.head(self.hidden_function(self.body(x)))


def test_custom_modules_are_asked_and_read_only_if_they_are_sequences(rng):
    x = rng.standard_normal((5, 3))
    module = Custom(torch.tanh).double()
    oracle = resolve(module)
    assert (oracle.input_size, oracle.output_size, oracle.probes) == (3, 2, 1)
    assert np.array_equal(oracle(x), _direct(module, x))
    with pytest.raises(InputError, match="something else than its layers in order"):
        resolve_network(module)

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

        def forward(self, x):
            return self.net(x)

    assert resolve_network(Wrapped().double()).describe() == "3-4-2 tanh"


def test_outputs_are_flattened(rng):
    class Scalar(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x):
            return self.layer(x)[:, 0]

    assert resolve(Scalar())(rng.standard_normal((4, 3))).shape == (4, 1)
    assert resolve(nn.Sequential(nn.Linear(3, 6), nn.Unflatten(1, (2, 3))))(np.zeros((4, 3))).shape == (4, 6)


@pytest.mark.parametrize("last", [nn.Softmax(dim=1), nn.LogSoftmax(dim=1)])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_final_softmax_is_part_of_the_model(last, num_classes, rng):
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, num_classes)).double()
    module = nn.Sequential(body, last)
    oracle = resolve(module)
    x = rng.standard_normal((20, 3))
    assert oracle.output_size == num_classes
    assert not oracle.notes
    assert np.allclose(oracle(x), _direct(module, x), rtol=1e-12)
    network = resolve_network(module)
    assert network.activations[-1] == ("softmax" if isinstance(last, nn.Softmax) else "log_softmax")
    assert np.allclose(network(x), oracle(x), rtol=1e-10, atol=1e-12)


def test_convolutions_need_a_size_or_a_callable(rng):
    module = nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1))
    x = rng.standard_normal((5, 16)).astype(np.float32).astype(np.float64)
    assert np.array_equal(resolve(module, input_size=16)(x), _direct(module, x))
    with pytest.raises(InputError, match="no dense layer"):
        resolve_network(module)
    with pytest.raises(OracleError, match="check input_size"):
        resolve(module, input_size=9)
    with pytest.raises(InputError, match="pass input_size"):
        resolve(nn.Sequential(nn.Tanh(), nn.Linear(3, 1)))


def test_wrong_sizes_and_strange_answers_are_explained():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with pytest.raises(InputError, match="input_size=5 does not fit the model, which has 3"):
        resolve(module, input_size=5)
    with pytest.raises(InputError, match="output_size=1 does not fit"):
        resolve(module, output_size=1)
    with pytest.raises(OracleError, match="answered with a tuple"):
        resolve(nn.LSTM(3, 4), input_size=3)


def test_half_precision_is_mentioned():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(torch.bfloat16)
    oracle = resolve(module)
    assert oracle.dtype == "float32"
    assert "bfloat16" in oracle.notes[0]
    assert oracle(np.zeros((2, 3))).dtype == np.float64
