"""ONNX files, written node by node: one Gemm a layer and its activation, opset 17, IR version 8.

Opset 17 is read by every onnxruntime since 1.12. The input is ``x`` (n, inputs), the output ``y``
(n, outputs); the parameters are the initializers ``layers.0.weight`` (out, in), ``layers.0.bias``, ... The
names of the activations are in the model's metadata, so ``read_written`` recovers the network exactly,
composed activations included.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.errors import MissingExtra, UnweaveError
from unweave.core.network import Network
from unweave.formats.onnx_activations import NodeWriter, write_activation, write_output
from unweave.version import __version__

OPSET = 17
IR_VERSION = 8
_ACTIVATIONS_KEY = "unweave.activations"


def write_onnx(network: Network, path: Path, dtype: str = "float64") -> None:
    """Write the network to ``path`` in ``dtype`` ("float64" or "float32")."""
    path.write_bytes(build_model(network, dtype).SerializeToString())


def run_onnx(path: Path, dtype: str = "float64") -> Callable[[np.ndarray], np.ndarray]:
    """The written file as a function, evaluated by onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("onnxruntime", "onnx") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda x: np.asarray(session.run(["y"], {"x": x.astype(dtype)})[0])


def build_model(network: Network, dtype: str = "float64") -> Any:
    """The network as an ``onnx.ModelProto``."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper as helper
    except ImportError as error:
        raise MissingExtra("onnx", "onnx") from error
    writer = NodeWriter(dtype)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = "x"
    for i, (w, b, name) in enumerate(zip(network.weights, network.biases, network.activations, strict=True)):
        weight, bias = writer.tensor(f"layers.{i}.weight", w), writer.tensor(f"layers.{i}.bias", b)
        before = writer.op("Gemm", value, weight, bias, transB=1)
        last = i == network.num_layers - 1
        value = (write_output if last else write_activation)(writer, name, before)
    writer.nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        writer.nodes,
        "unweave",
        [helper.make_tensor_value_info("x", element, ["n", network.input_size])],
        [helper.make_tensor_value_info("y", element, ["n", network.output_size])],
        writer.initializers,
    )
    model = helper.make_model(
        graph,
        producer_name="unweave",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, {_ACTIVATIONS_KEY: json.dumps(network.activations)})
    onnx.checker.check_model(model, full_check=True)
    return model


def read_written(model: Any) -> Network | None:
    """The network in a model that ``build_model`` made, or None for any other.

    The metadata is not believed: the graph is built again from what was read and has to be equal.
    """
    import onnx.numpy_helper

    names = {prop.key: prop.value for prop in model.metadata_props}.get(_ACTIVATIONS_KEY)
    if names is None:
        return None
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    try:
        kinds = json.loads(names)
        arrays = [
            [onnx.numpy_helper.to_array(tensors[f"layers.{i}.{part}"]) for part in ("weight", "bias")]
            for i in range(len(kinds))
        ]
        network = Network([w for w, _ in arrays], [b for _, b in arrays], kinds)
        rebuilt = build_model(network, str(arrays[0][0].dtype))
    except (KeyError, TypeError, ValueError, IndexError, UnweaveError):
        return None
    return network if rebuilt.graph == model.graph else None
