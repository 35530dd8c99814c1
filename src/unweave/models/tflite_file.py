"""TFLite files as oracles, by the LiteRT interpreter: float32 in, float32 out, any number of rows at a time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from unweave.core.domains import Domain
from unweave.core.errors import InputError, MissingExtra
from unweave.evidence.data import Data
from unweave.models.python_callable import CallableOracle, as_matrix, ask_once, check_size


def from_tflite(
    path: Path,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from a ``.tflite`` file with one float input and one float output."""
    try:
        from ai_edge_litert.interpreter import Interpreter  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra("ai-edge-litert", "tflite") from error
    name = f"TFLite model {path.name}"
    try:
        interpreter = Interpreter(model_path=str(path), num_threads=1)
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a readable TFLite model ({' '.join(str(error).split())[:120]})"
        ) from error
    if len(inputs) != 1 or len(outputs) != 1:
        raise InputError(
            f"{name} has {len(inputs)} inputs and {len(outputs)} outputs; one of each is supported"
        )
    for what, tensor in (("input", inputs[0]), ("output", outputs[0])):
        if tensor["dtype"] not in (np.float32, np.float64):
            raise InputError(
                f"{name}: its {what} is {np.dtype(tensor['dtype']).name}, a quantised model; convert it with float "
                f"inputs and outputs, or give a callable that dequantises"
            )
    one = tuple(int(n) for n in inputs[0]["shape"][1:])
    check_size(name, "input_size", input_size, math.prod(one))
    dtype = np.dtype(inputs[0]["dtype"])

    def evaluate(x: np.ndarray) -> np.ndarray:
        interpreter.resize_tensor_input(inputs[0]["index"], (len(x), *one))
        interpreter.allocate_tensors()
        interpreter.set_tensor(inputs[0]["index"], x.reshape(len(x), *one).astype(dtype))
        interpreter.invoke()
        return np.array(interpreter.get_tensor(outputs[0]["index"]))

    num_outputs = as_matrix(ask_once(evaluate, math.prod(one), name, domain), 1, name).shape[1]
    check_size(name, "output_size", output_size, num_outputs)
    kind = "float64" if dtype == np.float64 else "float32"
    return CallableOracle(name, math.prod(one), num_outputs, kind, evaluate, probes=1)
