"""ONNX graphs for the tests, built node by node as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from unweave.core.network import Network

NODES = {
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
    "sigmoid": ("Sigmoid", {}),
    "erf": ("Erf", {}),
    "softplus": ("Softplus", {}),
    "elu": ("Elu", {"alpha": 1.0}),
    "leaky_relu(0.25)": ("LeakyRelu", {"alpha": 0.25}),
    "gelu": ("Gelu", {"approximate": "none"}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "exp": ("Exp", {}),
    "identity": ("Identity", {}),
}


def make_model(
    nodes: Sequence[NodeProto],
    constants: dict[str, np.ndarray],
    *,
    dtype: type = np.float64,
    input_shape: Sequence[int | str | None] = ("n", 3),
    outputs: Sequence[tuple[str, Sequence[int | str | None] | None]] = (("y", ("n", 1)),),
    path: Path | None = None,
) -> ModelProto:
    """A model with the input ``x``; written to ``path`` too where one is given."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", kind, input_shape)],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    if path is not None:
        path.write_bytes(model.SerializeToString())
    return model


def dense_model(network: Network, *, dtype: type = np.float64, style: str = "gemm", **options) -> ModelProto:
    """A network as Gemm nodes (``"gemm"``) or as MatMul and Add (``"matmul"``), with activations as nodes."""
    nodes, constants, current = [], {}, "x"
    for i, (w, b, name) in enumerate(zip(network.weights, network.biases, network.activations, strict=True)):
        constants[f"w{i}"], constants[f"b{i}"] = w.astype(dtype), b.astype(dtype)
        if style == "gemm":
            nodes.append(helper.make_node("Gemm", [current, f"w{i}", f"b{i}"], [f"z{i}"], transB=1))
        else:
            constants[f"w{i}"] = constants[f"w{i}"].T.copy()
            nodes.append(helper.make_node("MatMul", [current, f"w{i}"], [f"m{i}"]))
            nodes.append(helper.make_node("Add", [f"b{i}", f"m{i}"], [f"z{i}"]))
        operator, attributes = NODES[name]
        nodes.append(helper.make_node(operator, [f"z{i}"], [f"h{i}"], **attributes))
        current = f"h{i}"
    nodes[-1].output[0] = "y"
    options.setdefault("input_shape", ("n", network.input_size))
    options.setdefault("outputs", (("y", ("n", network.output_size)),))
    return make_model(nodes, constants, dtype=dtype, **options)


FLOAT = TensorProto.FLOAT
