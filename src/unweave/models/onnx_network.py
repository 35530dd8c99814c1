"""Reads the dense network out of an ONNX graph: a chain of affine maps and activations from input to output.

Where the chain splits and joins again without a matrix in between (Gelu and SiLU written out by exporters),
the piece is a function of one variable: it is evaluated on a grid and recognised among the known activations.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core import activations
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.formats.onnx import read_written
from unweave.formats.onnx_activations import ACTIVATIONS, PARAMETRIC, UNIT_BY_UNIT
from unweave.models.layer_chain import LayerChain
from unweave.models.onnx_file import (
    Signature,
    count_inputs,
    load_onnx,
    make_reference_evaluator,
    read_signature,
)

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_PASSED = {"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast", "CastLike"}
_ARITHMETIC = (
    "Abs Add Cast CastLike Clip Constant Div Greater GreaterOrEqual Less LessOrEqual Log Max Min Mul Neg Not Pow "
    "Reciprocal Sign Sqrt Sub Where"
)
_ELEMENTWISE = {*UNIT_BY_UNIT, *_ARITHMETIC.split()}


def read_onnx(source: Path | ModelProto) -> Network:
    """The network of a dense multilayer perceptron in ONNX; anything else is refused by name."""
    name = f"ONNX model {source.name}" if isinstance(source, Path) else "ONNX model"
    model = load_onnx(source)
    written = read_written(model)
    if written is not None:
        return written
    signature = read_signature(model, name)
    chain = LayerChain(count_inputs(model, signature, None, name), name)
    _Walk(model, signature, chain).to_the_end()
    return chain.network()


class _Walk:
    """One pass along the graph; ``current`` is the tensor the chain has reached."""

    def __init__(self, model: ModelProto, signature: Signature, chain: LayerChain):
        self.model, self.chain = model, chain
        self.current, self.goal = signature.input_name, signature.output_name
        self.single = signature.dtype != np.float64
        self.constants = _constants(model)
        self.nodes = [node for node in model.graph.node if not set(node.output) <= self.constants.keys()]

    def to_the_end(self) -> None:
        for _ in range(len(self.nodes) + 1):
            readers = [node for node in self.nodes if self.current in node.input]
            if self.current == self.goal:
                return
            if not readers:
                break
            if len(readers) > 1 or list(readers[0].input).count(self.current) > 1:
                self._cross_block()
            else:
                self._step(readers[0])
                self.current = readers[0].output[0]
        raise InputError(f"{self.chain.name} is not a chain of layers from its input to its output")

    def _step(self, node: NodeProto) -> None:
        chain, kind = self.chain, node.op_type
        options = {a.name: a for a in node.attribute}
        others = [self._constant(node, i) for i, key in enumerate(node.input) if key and key != self.current]
        first = node.input[0] == self.current
        if kind in _PASSED:
            return
        if kind == "Gemm" and first and not (options["transA"].i if "transA" in options else 0):
            weight = others[0] if "transB" in options and options["transB"].i else others[0].T
            alpha, beta = (options[key].f if key in options else 1.0 for key in ("alpha", "beta"))
            bias = None if len(others) < 2 else beta * np.broadcast_to(others[1].reshape(-1), len(weight))
            chain.affine(alpha * weight, bias)
        elif kind == "MatMul" and others[0].ndim == 2:
            chain.affine(others[0].T if first else others[0])
        elif kind in ("Add", "Sub"):
            sign = -1.0 if kind == "Sub" else 1.0
            if first:
                chain.scale(1.0, sign * others[0])
            else:
                chain.scale(sign, others[0])
        elif kind in ("Mul", "Div") and (kind == "Mul" or first):
            chain.scale(others[0] if kind == "Mul" else 1 / others[0])
        elif kind == "Neg":
            chain.scale(-1.0)
        elif kind == "Scaler":  # ai.onnx.ml: (x - offset) * scale
            scale = np.array(options["scale"].floats, dtype=np.float64)
            chain.scale(scale, -scale * np.array(options["offset"].floats, dtype=np.float64))
        elif kind == "BatchNormalization":
            gain, shift, mean, variance = others
            factors = gain / np.sqrt(variance + (options["epsilon"].f if "epsilon" in options else 1e-5))
            chain.scale(factors, shift - factors * mean)
        elif kind in ("Softmax", "LogSoftmax") and node.output[0] == self.goal:
            chain.softmax("softmax" if kind == "Softmax" else "log_softmax")
        else:
            chain.activation(self._activation_name(node, options, others))

    def _activation_name(self, node: NodeProto, options: dict[str, Any], others: list[np.ndarray]) -> str:
        kind = node.op_type
        if kind == "Gelu" and "approximate" in options and options["approximate"].s == b"tanh":
            return "gelu_tanh"
        if kind in ACTIVATIONS:
            return ACTIVATIONS[kind]
        if kind in PARAMETRIC:
            name, usual = PARAMETRIC[kind]
            alpha = options["alpha"].f if "alpha" in options else usual
            # Attributes are float32; a float64 graph computes with the rounded number, so that is its slope.
            alpha = float(str(np.float32(alpha))) if self.single else alpha
            return f"{name}({alpha!r})"
        if kind in _ELEMENTWISE:
            return self._recognise([node], node.output[0])[0]
        raise InputError(
            f"{self.chain.name} contains {kind}, which is no dense layer or known activation; "
            f"only plain multilayer perceptrons can be compared"
        )

    def _cross_block(self) -> None:
        """Follow every branch from ``current`` until they have joined in one tensor, and read the block."""
        known, block = {self.current}, []
        for node in self.nodes:
            if not known & set(node.input):
                continue
            if node.op_type not in _ELEMENTWISE:
                break
            block.append(node)
            known.update(node.output)
            rest = [n for n in self.nodes if n not in block]
            alive = {t for t in known if t == self.goal or any(t in n.input for n in rest)}
            if alive == {node.output[0]}:
                name, factor = self._recognise(block, node.output[0])
                self.chain.activation(name)
                self.chain.scale(factor)
                self.current = node.output[0]
                return
        raise InputError(
            f"{self.chain.name} branches (a residual connection?); "
            f"only plain multilayer perceptrons can be compared"
        )

    def _recognise(self, block: list[NodeProto], output: str) -> tuple[str, float]:
        """The activation that a block of elementwise nodes computes, and the factor in front of it."""
        from onnx import helper, numpy_helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32 if self.single else np.float64))
        used = {key for node in block for key in node.input} & self.constants.keys()
        graph = helper.make_graph(
            block,
            "activation",
            [helper.make_tensor_value_info(self.current, kind, None)],
            [helper.make_tensor_value_info(output, kind, None)],
            [numpy_helper.from_array(self.constants[key], key) for key in sorted(used)],
        )
        model = helper.make_model(graph, opset_imports=self.model.opset_import)
        grid = np.linspace(-8.03, 8.07, 162).astype(np.float32 if self.single else np.float64)
        column = np.repeat(grid[:, None], self.chain.width, axis=1)
        values = np.asarray(make_reference_evaluator(model)({self.current: column})[0], dtype=np.float64)
        if values.shape == column.shape:
            tolerance = 2e-5 if self.single else 1e-6
            for name in activations.names():
                expected = activations.get(name)(column.astype(np.float64))
                factor = float(np.sum(values * expected) / np.sum(expected**2))
                factor = round(2 * factor) / 2 if abs(2 * factor - round(2 * factor)) < tolerance else factor
                if factor and np.allclose(values, factor * expected, rtol=tolerance, atol=tolerance):
                    return name, factor
        raise InputError(
            f"{self.chain.name} computes an activation that is not known "
            f"({', '.join(node.op_type for node in block)}); known: {', '.join(activations.names())}"
        )

    def _constant(self, node: NodeProto, index: int) -> np.ndarray:
        key = node.input[index]
        if key not in self.constants:
            raise InputError(
                f"{self.chain.name}: {node.op_type} combines two computed values; "
                f"only plain multilayer perceptrons can be compared"
            )
        value = self.constants[key]
        return value.astype(np.float64) if value.dtype.kind == "f" else value


def _constants(model: ModelProto) -> dict[str, np.ndarray]:
    """Initializers, Constant nodes, and what renaming, casting or transposing makes of them."""
    from onnx import helper, numpy_helper

    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute:
            value = helper.get_attribute_value(node.attribute[0])
            is_tensor = node.attribute[0].name == "value"
            found[node.output[0]] = numpy_helper.to_array(value) if is_tensor else np.asarray(value)
        elif node.input and node.input[0] in found:
            source = found[node.input[0]]
            if node.op_type == "Identity":
                found[node.output[0]] = source
            elif node.op_type == "Transpose" and source.ndim == 2:
                found[node.output[0]] = source.T
            elif node.op_type == "Cast":
                target = helper.tensor_dtype_to_np_dtype(next(a.i for a in node.attribute if a.name == "to"))
                found[node.output[0]] = source.astype(target)
    return found
