"""Torch modules as oracles, and plain sequences of dense layers read as networks.

The module is asked in evaluation mode without gradients, in the precision of its own parameters, and every
submodule's training flag is put back after each call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.domains import Ball, Domain
from unweave.core.errors import InputError, OracleError
from unweave.core.network import Network
from unweave.core.outputs import clamp_name
from unweave.evidence.data import Data
from unweave.models.layer_chain import LayerChain
from unweave.models.python_callable import CallableOracle, as_matrix, ask_once, check_size

if TYPE_CHECKING:
    from torch import nn


def from_module(
    module: nn.Module,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from a module; sizes from its linear layers in a plain sequence, else by one question."""
    import torch
    from torch import nn

    name = f"torch module {type(module).__name__}"
    dtype, device = _placement(module)
    leaves = _sequence(module)
    linears = [m for m in leaves or module.modules() if isinstance(m, nn.Linear)]
    first = (leaves or list(module.children()) or [module])[0]
    if input_size is None:
        input_size = _num_inputs(module, leaves, linears)
        if input_size is None:
            raise InputError(
                f"{name} does not begin with a linear layer, so its inputs are not known; "
                f"pass input_size=..., or a callable that maps (n, inputs) to (n, outputs)"
            )
    half = dtype in (torch.float16, torch.bfloat16)
    notes = (f"the module computes in {dtype}: give module.float() for its weights in full",) if half else ()
    asked, normalised = _behind_normalisation(module, leaves)
    notes += (normalised,) if normalised else ()

    def evaluate(x: np.ndarray) -> np.ndarray:
        modes = [(part, part.training) for part in module.modules()]
        _quieten(module)
        try:
            with torch.no_grad():
                answers = asked(torch.as_tensor(x).to(device=device, dtype=dtype))
        finally:
            for part, mode in modes:
                part.training = mode
        if not isinstance(answers, torch.Tensor):
            raise OracleError(
                f"{name} answered with a {type(answers).__name__}; "
                f"pass a callable that returns the one tensor meant"
            )
        return as_matrix(answers.detach().to("cpu", torch.float64).numpy(), len(x), name)

    probes = 0
    if leaves is not None and linears and _keeps_width(leaves, linears[-1]):
        if input_size != linears[0].in_features and first is linears[0]:
            check_size(name, "input_size", input_size, linears[0].in_features)
        num_outputs = linears[-1].out_features
    else:
        num_outputs = as_matrix(ask_once(evaluate, input_size, name, domain), 1, name).shape[1]
        probes = 1
    check_size(name, "output_size", output_size, num_outputs)
    if half:
        return HalfOracle(
            name,
            input_size,
            num_outputs,
            "float32",
            evaluate,
            notes,
            probes,
            8 if dtype == torch.bfloat16 else 11,
        )
    kind = "float64" if dtype == torch.float64 else "float32"
    return CallableOracle(name, input_size, num_outputs, kind, evaluate, notes, probes)


@dataclass
class HalfOracle(CallableOracle):
    """A module in half precision: it takes numbers of that precision only, and has few of them far out."""

    bits: int = 8
    """Of a number: 8 in bfloat16, 11 in float16."""

    @property
    def within(self) -> Ball:
        """Where ordinary inputs lie; far out half precision overflows."""
        return Ball(3.0 * math.sqrt(self.input_size))

    def snap(self, x: np.ndarray) -> np.ndarray:
        """Inputs that the module takes without rounding, none farther out than the ones given."""
        bits, least = (8, -133) if self.bits == 8 else (11, -24)
        fraction, exponent = np.frexp(x)
        unit = np.maximum(exponent - bits, least)
        return np.ldexp(np.trunc(np.ldexp(fraction, exponent - unit)), unit)


def _behind_normalisation(module: nn.Module, leaves: list[nn.Module] | None) -> tuple[Any, str]:
    """What is asked, and what to say of it: of a sequence that begins with LayerNorm everything behind the division.

    A row divided by its own spread is no affine function of its inputs; what follows is a network of the result.
    """
    from torch import nn

    if not leaves or not isinstance(leaves[0], nn.LayerNorm):
        return module, ""
    first, rest = leaves[0], leaves[1:]

    def behind(x: Any) -> Any:
        x = x if first.weight is None else x * first.weight.reshape(-1)
        x = x if first.bias is None else x + first.bias.reshape(-1)
        for part in rest:
            x = part(x)
        return x

    return (
        behind,
        "the inputs are those behind the division by each row's own spread, which LayerNorm begins with",
    )


def read_module(module: nn.Module) -> Network:
    """The network a module holds when its parts, in order, are linear layers and activations."""
    from torch import nn

    leaves = _sequence(module) or _leaves(module)
    first = next((leaf for leaf in leaves if isinstance(leaf, nn.Linear)), None)
    name = f"torch module {type(module).__name__}"
    if first is None:
        raise InputError(f"{name} has no linear layer, so it is not a network of dense layers")
    chain = LayerChain(first.in_features, name)
    for leaf in leaves:
        _append(chain, leaf)
    return chain.network()


def _append(chain: LayerChain, leaf: nn.Module) -> None:
    from torch import nn

    if isinstance(leaf, nn.Linear):
        bias = None if leaf.bias is None else _array(leaf.bias)
        chain.affine(_array(leaf.weight), bias)
    elif isinstance(leaf, nn.BatchNorm1d) and leaf.running_mean is not None and leaf.running_var is not None:
        scale = 1 / np.sqrt(_array(leaf.running_var) + leaf.eps)
        if leaf.affine:
            scale = scale * _array(leaf.weight)
        shift = _array(leaf.bias) if leaf.affine else 0.0
        chain.scale(scale, shift - scale * _array(leaf.running_mean))
    elif isinstance(leaf, nn.Softmax | nn.LogSoftmax):
        chain.softmax("softmax" if isinstance(leaf, nn.Softmax) else "log_softmax")
    elif not isinstance(leaf, nn.Identity | nn.Flatten | nn.Dropout | nn.AlphaDropout):
        chain.activation(_activation_name(leaf, chain.name))


def _activation_name(leaf: nn.Module, name: str) -> str:
    from torch import nn

    plain = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid", nn.SiLU: "silu", nn.Mish: "mish"}
    plain |= {nn.SELU: "selu", nn.Hardswish: "hardswish", nn.ReLU6: "relu6", nn.Softsign: "softsign"}
    plain |= {nn.Hardsigmoid: "hardsigmoid"}
    if type(leaf) in plain:
        return plain[type(leaf)]
    if isinstance(leaf, nn.LeakyReLU):
        return f"leaky_relu({leaf.negative_slope!r})"
    if isinstance(leaf, nn.Softplus):
        return f"softplus({float(leaf.beta)!r})"
    if isinstance(leaf, nn.ELU):
        return f"elu({float(leaf.alpha)!r})"
    if isinstance(leaf, nn.CELU):
        return f"celu({float(leaf.alpha)!r})"
    if isinstance(leaf, nn.Hardtanh):
        return clamp_name(float(leaf.min_val), float(leaf.max_val))
    if isinstance(leaf, nn.GELU):
        return "gelu_tanh" if leaf.approximate == "tanh" else "gelu"
    raise InputError(
        f"{name} contains {type(leaf).__name__}, which is no dense layer or known activation; "
        f"only plain multilayer perceptrons can be compared"
    )


def _sequence(module: nn.Module) -> list[nn.Module] | None:
    """The leaves of nested ``Sequential`` modules in the order they run, or None for any other module."""
    from torch import nn

    if isinstance(module, nn.Sequential):
        parts = [_sequence(child) for child in module]
        known = [part for part in parts if part is not None]
        return [leaf for part in known for leaf in part] if parts and len(known) == len(parts) else None
    known = (
        nn.Linear,
        nn.Flatten,
        nn.Identity,
        nn.Dropout,
        nn.AlphaDropout,
        nn.BatchNorm1d,
        nn.LayerNorm,
        nn.Softmax,
    )
    if (
        isinstance(module, (*known, nn.LogSoftmax))
        or type(module).__module__ == "torch.nn.modules.activation"
    ):
        return [module]
    return None


def _leaves(module: nn.Module) -> list[nn.Module]:
    children = list(module.children())
    return [leaf for child in children for leaf in _leaves(child)] if children else [module]


def _quieten(module: nn.Module) -> None:
    """Evaluation mode; exported programs have none, they were exported in the mode they run in."""
    try:
        module.eval()
    except NotImplementedError:
        return


def _num_inputs(module: nn.Module, leaves: list[nn.Module] | None, linears: list[nn.Linear]) -> int | None:
    """The width of the first layer, where layers that keep the width may stand before it; None where unknown."""
    from torch import nn

    if leaves is None:
        if linears:
            return linears[0].in_features
        weights = [value for value in module.state_dict().values() if value.ndim == 2]
        return int(weights[0].shape[1]) if weights else None
    for leaf in leaves:
        if isinstance(leaf, nn.Linear):
            return leaf.in_features
        if isinstance(leaf, nn.BatchNorm1d):
            return leaf.num_features
        if isinstance(leaf, nn.LayerNorm):
            return int(np.prod(leaf.normalized_shape))
        if not isinstance(leaf, nn.Flatten | nn.Identity | nn.Dropout):
            return None
    return None


def _keeps_width(leaves: list[nn.Module], last: nn.Linear) -> bool:
    """Whether everything behind the last linear layer works unit by unit."""
    from torch import nn

    behind = leaves[leaves.index(last) + 1 :]
    changing = (nn.GLU, nn.MultiheadAttention)
    return not any(isinstance(leaf, changing) for leaf in behind)


def _placement(module: nn.Module) -> tuple[Any, Any]:
    import torch

    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            return tensor.dtype, tensor.device
    return torch.get_default_dtype(), torch.device("cpu")


def _array(tensor: Any) -> np.ndarray:
    import torch

    return tensor.detach().to("cpu", torch.float64).numpy()
