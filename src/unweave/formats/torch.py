"""The network as a torch ``nn.Sequential`` in float64: Linear layers and activation modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.core.activations import split_name
from unweave.core.errors import ExportError, MissingExtra
from unweave.core.network import Network
from unweave.core.outputs import Squashing
from unweave.formats.check import require_same


def to_torch(network: Network) -> Any:
    """An ``nn.Sequential`` that computes the network in float64, checked on probe points."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("torch", "torch") from error
    modules = []
    for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
        linear = torch.nn.Linear(w.shape[1], w.shape[0], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(np.array(w)))
            linear.bias.copy_(torch.from_numpy(np.array(b)))
        modules.append(linear)
        if name != "identity":
            modules.append(_activation_module(torch, name))
    model = torch.nn.Sequential(*modules).eval()

    def evaluate(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(np.ascontiguousarray(x))).numpy()

    require_same(network, evaluate, "the torch module")
    return model


def _activation_module(torch: Any, name: str) -> Any:
    nn = torch.nn
    if name in ("softmax", "log_softmax"):
        return (nn.Softmax if name == "softmax" else nn.LogSoftmax)(dim=1)
    if name.startswith("clamp"):
        return nn.Hardtanh(*Squashing(name).range)
    kind, given = split_name(name)
    parameter = 1.0 if given is None else given
    if kind == "leaky_relu":
        return nn.LeakyReLU(parameter)
    if kind in ("elu", "celu"):
        return (nn.ELU if kind == "elu" else nn.CELU)(parameter)
    if kind == "softplus":
        # beyond the threshold torch returns z itself: exp(-40) is below rounding, its default exp(-20) is not
        return nn.Softplus(parameter, threshold=40)
    if kind == "gelu":
        return nn.GELU()
    if kind == "gelu_tanh":
        return nn.GELU(approximate="tanh")
    plain = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "silu": nn.SiLU, "mish": nn.Mish}
    plain |= {"selu": nn.SELU, "hardswish": nn.Hardswish, "relu6": nn.ReLU6, "hardtanh": nn.Hardtanh}
    plain |= {"hardsigmoid": nn.Hardsigmoid, "softsign": nn.Softsign}
    if kind in plain:
        return plain[kind]()
    formulas = {
        "erf": torch.erf,
        "exp": torch.exp,
        "expm1": torch.expm1,
        "quadratic": torch.square,
        "step": lambda z: (z > 0).to(z.dtype),
        "squareplus": lambda z: _squareplus(torch, z, 4.0 if given is None else given),
    }
    if kind not in formulas:
        raise ExportError(f"activation {name!r} has no torch form; export to .safetensors instead")
    formula = formulas[kind]

    class Elementwise(nn.Module):
        """One of the activations torch has no module for."""

        def forward(self, z: Any) -> Any:
            return formula(z)

        def extra_repr(self) -> str:
            return kind

    return Elementwise()


def _squareplus(torch: Any, z: Any, b: float) -> Any:
    return torch.relu(z) + b / 2 / (torch.sqrt(z * z + b) + torch.abs(z))
