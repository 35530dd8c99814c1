"""Keras 3 models as oracles, and sequences of dense layers read as networks, on whichever backend is installed.

The model is called in inference mode, in its own precision; its input shape is known, so nothing has to be said. A
final softmax is undone: the oracle answers with the logits, as far as they can be seen.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.domains import Domain
from unweave.core.errors import InputError, MissingExtra, OracleError
from unweave.core.network import Network
from unweave.evidence.data import Data
from unweave.models.layer_chain import LayerChain
from unweave.models.python_callable import CallableOracle, as_matrix, ask_once, check_size

_PLAIN = ("relu", "tanh", "sigmoid", "silu", "softplus", "selu", "mish", "softsign", "exponential", "linear")
_NAMES = {"exponential": "exp", "linear": "identity", "hard_silu": "hardswish", "swish": "silu"}
_SKIPPED = ("InputLayer", "Dropout", "AlphaDropout", "GaussianNoise", "Flatten")


def load_keras(path: Path, allow_pickle: bool) -> Any:
    """The model of a ``.keras`` or ``.h5`` file; lambdas, which are code, only if the user allows code."""
    try:
        import keras  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra("keras", "keras") from error
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=not allow_pickle)
    except Exception as error:
        text = " ".join(str(error).split())
        remedy = (
            "it holds Python code; pass allow_pickle=True if you trust it"
            if "safe_mode" in text or "unsafe" in text.lower()
            else f"{type(error).__name__}: {text[:160]}"
        )
        raise InputError(f"{path} could not be loaded as a Keras model ({remedy})") from error


def from_keras(
    model: Any,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from a Keras model with one input and one output."""
    import keras  # pyright: ignore[reportMissingImports]

    name = f"Keras model {model.name}"
    shape = model.input_shape
    if isinstance(shape, list | dict) or shape is None:
        raise InputError(f"{name} takes several inputs; give a callable that feeds them from one array")
    one = tuple(shape[1:])
    num_inputs = input_size if None in one else math.prod(one)
    if num_inputs is None:
        raise InputError(f"{name} leaves its input shape open; pass input_size=...")
    check_size(name, "input_size", input_size, num_inputs)
    one = (num_inputs,) if None in one else one
    dtype = getattr(model, "compute_dtype", "float32")

    def evaluate(x: np.ndarray) -> np.ndarray:
        inputs = keras.ops.convert_to_tensor(x.reshape(len(x), *one).astype(_wide(dtype)))
        answers = model(inputs, training=False)
        if isinstance(answers, list | tuple | dict):
            raise OracleError(f"{name} has several outputs; pass a callable that returns the one meant")
        return as_matrix(_detached(keras, answers), len(x), name)

    num_outputs = as_matrix(ask_once(evaluate, num_inputs, name, domain), 1, name).shape[1]
    check_size(name, "output_size", output_size, num_outputs)
    notes = () if dtype in ("float32", "float64") else (f"the model computes in {dtype}",)
    return CallableOracle(
        name,
        num_inputs,
        num_outputs,
        "float64" if dtype == "float64" else "float32",
        evaluate,
        notes,
        probes=1,
    )


def read_keras(model: Any) -> Network:
    """The network a Keras model holds when its layers, in order, are dense layers and activations."""
    name = f"Keras model {model.name}"
    chain = LayerChain(math.prod(model.input_shape[1:]), name)
    for layer in model.layers:
        _append(chain, layer)
    return chain.network()


def _append(chain: LayerChain, layer: Any) -> None:
    kind = type(layer).__name__
    if kind in _SKIPPED:
        return
    weights = [np.asarray(_host(w), dtype=np.float64) for w in layer.weights]
    if kind == "Dense":
        chain.affine(weights[0].T, weights[1] if layer.use_bias else None)
        _activate(chain, _function_name(layer.activation))
    elif kind == "BatchNormalization":
        *affine, mean, variance = weights
        gamma = affine.pop(0) if layer.scale else 1.0
        beta = affine.pop(0) if layer.center else 0.0
        scale = gamma / np.sqrt(variance + layer.epsilon)
        chain.scale(scale, beta - scale * mean)
    elif kind == "Normalization":
        scale = 1 / np.sqrt(np.maximum(np.asarray(_host(layer.variance)), layer_epsilon()))
        chain.scale(scale.reshape(-1), (-scale * np.asarray(_host(layer.mean))).reshape(-1))
    elif kind == "Activation":
        _activate(chain, _function_name(layer.activation))
    elif kind == "Softmax":
        chain.softmax()
    elif kind == "LeakyReLU":
        chain.activation(f"leaky_relu({float(layer.negative_slope)!r})")
    elif kind == "ELU":
        chain.activation(f"elu({float(layer.alpha)!r})")
    elif kind == "ReLU" and layer.max_value is None and not layer.threshold:
        slope = float(layer.negative_slope)
        chain.activation(f"leaky_relu({slope!r})" if slope else "relu")
    else:
        raise InputError(
            f"{chain.name} contains {kind}, which is no dense layer or known activation; "
            f"only plain multilayer perceptrons can be compared"
        )


def layer_epsilon() -> float:
    """The least standard deviation Keras divides by."""
    import keras  # pyright: ignore[reportMissingImports]

    return keras.backend.epsilon() ** 2


def _activate(chain: LayerChain, name: str) -> None:
    if name == "softmax":
        chain.softmax()
    elif name == "gelu":
        chain.activation("gelu")
    elif name == "leaky_relu":
        chain.activation("leaky_relu(0.2)")
    elif name == "elu":
        chain.activation("elu")
    elif name in _PLAIN or name in _NAMES:
        chain.activation(_NAMES.get(name, name))
    else:
        raise InputError(f"{chain.name}: the activation {name!r} is not known")


def _function_name(function: Any) -> str:
    return str(
        getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__
    )


def _wide(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _detached(keras: Any, answers: Any) -> np.ndarray:
    return np.asarray(
        keras.ops.convert_to_numpy(
            keras.ops.cast(answers, "float64")
            if "float64" in str(answers.dtype)
            else keras.ops.cast(answers, "float32")
        )
    )


def _host(variable: Any) -> np.ndarray:
    import keras  # pyright: ignore[reportMissingImports]

    return keras.ops.convert_to_numpy(variable)
