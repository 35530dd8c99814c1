"""ONNX graphs as oracles: float32 by onnxruntime, float64 by whatever evaluates it in full float64.

Onnxruntime has float64 kernels for Gemm, MatMul, Tanh, Sigmoid, Relu and the like, but none for Erf,
Softplus, Elu or LeakyRelu, and it writes Gelu out with constants rounded to float32. Such float64 graphs go
to the onnx reference evaluator, with Erf and Gelu replaced by float64 versions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special

from unweave.core import activations
from unweave.core.domains import Domain
from unweave.core.errors import InputError, MissingExtra
from unweave.evidence.data import Data
from unweave.formats.onnx_activations import ROUNDED_BY_RUNTIME, UNIT_BY_UNIT
from unweave.models.python_callable import CallableOracle, as_matrix, ask_once, check_size

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Signature:
    """The one input and the one output of a graph that are asked and read."""

    input_name: str
    output_name: str
    dtype: np.dtype
    shape: tuple[int | None, ...]
    """Dimensions of one input as declared, the batch dimension left out; None where open."""
    batch_size: int | None
    """The fixed batch size, or None when any number of rows may be asked at once."""
    output_shape: tuple[int | None, ...] | None


def load_onnx(source: Path | ModelProto) -> ModelProto:
    """The model of a file, or a copy of the model, without ZipMap nodes (they hide probabilities)."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtra("onnx", "onnx") from error
    if isinstance(source, Path):
        from google.protobuf.message import DecodeError

        try:
            model = onnx.load(source)
        except (DecodeError, onnx.checker.ValidationError, OSError, ValueError) as error:
            raise InputError(
                f"{source} is not a readable ONNX model ({' '.join(str(error).split())})"
            ) from error
        if not model.graph.node:
            raise InputError(f"{source} is not a readable ONNX model (it contains no nodes)")
    else:
        model = onnx.ModelProto()
        model.CopyFrom(source)
    _bypass_zipmaps(model)
    return model


def from_onnx(
    source: Path | ModelProto,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from an ONNX file or model with one input and one output that matters."""
    name = f"ONNX model {source.name}" if isinstance(source, Path) else "ONNX model"
    model = load_onnx(source)
    _free_batch(model)
    signature = read_signature(model, name)
    num_inputs = count_inputs(model, signature, input_size, name)
    run, notes = _evaluator(model, signature, name)
    shape = signature.shape if None not in signature.shape else (num_inputs,)

    def evaluate(x: np.ndarray) -> np.ndarray:
        inputs = np.ascontiguousarray(x, dtype=signature.dtype).reshape(len(x), *shape)
        return as_matrix(_in_batches(run, inputs, signature.batch_size), len(x), name)

    declared = signature.output_shape
    probes = 0
    if declared is not None and None not in declared:
        num_outputs = math.prod(d for d in declared if d is not None)
    else:
        num_outputs = as_matrix(ask_once(evaluate, num_inputs, name, domain), 1, name).shape[1]
        probes = 1
    check_size(name, "output_size", output_size, num_outputs)
    dtype = "float64" if signature.dtype == np.float64 else "float32"
    return CallableOracle(name, num_inputs, num_outputs, dtype, evaluate, notes, probes)


def read_signature(model: ModelProto, name: str) -> Signature:
    """Which input to feed and which output to read, or an error that names the choices."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise InputError(
            f"{name} has {len(inputs)} inputs ({names}); give a callable that feeds them from one array"
        )
    feed = inputs[0]
    dtype = _float_type(feed)
    if dtype is None:
        raise InputError(
            f"{name}: its input {feed.name!r} is not a float tensor; give a callable that converts"
        )
    dims = _dimensions(feed)
    if dims is None:
        dims = (None, None)
    if len(dims) < 2:
        raise InputError(f"{name}: its input has no batch dimension (shape {list(dims)}); export it with one")
    output = _choose_output(model, name)
    produced = _dimensions(output)
    shape = None if produced is None else produced[1:] if len(produced) > 1 else (1,)
    return Signature(feed.name, output.name, dtype, dims[1:], dims[0], shape)


def count_inputs(model: ModelProto, signature: Signature, given: int | None, name: str) -> int:
    """The number of inputs, flattened: declared, or that of the first layer, or as given."""
    if None not in signature.shape:
        actual = math.prod(d for d in signature.shape if d is not None)
        check_size(name, "input_size", given, actual)
        return actual
    if len(signature.shape) > 1:
        raise InputError(
            f"{name}: its input shape {list(signature.shape)} is open; export it with fixed sizes"
        )
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if (
            node.op_type in ("Gemm", "MatMul")
            and node.input[0] == signature.input_name
            and node.input[1] in weights
        ):
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            actual = weights[node.input[1]][1 if transposed else 0]
            check_size(name, "input_size", given, actual)
            return int(actual)
    if given is None:
        raise InputError(f"{name} does not fix its number of inputs; pass input_size=...")
    return given


def make_reference_evaluator(model: ModelProto) -> Callable[[dict[str, np.ndarray]], list[Any]]:
    """The onnx reference evaluator with Erf and Gelu in full float64."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):
        def _run(self, x):  # pyright: ignore[reportIncompatibleMethodOverride]
            return (scipy.special.erf(x).astype(x.dtype),)

    class Gelu(OpRun):
        def _run(self, x, approximate=None):  # pyright: ignore[reportIncompatibleMethodOverride]
            kind = "gelu_tanh" if approximate == "tanh" else "gelu"
            return (activations.get(kind)(x).astype(x.dtype),)

    evaluator = ReferenceEvaluator(model, new_ops=[Erf, Gelu])

    def run(feeds: dict[str, np.ndarray]) -> list[Any]:
        with np.errstate(all="ignore"):
            return list(evaluator.run(None, feeds))

    return run


def _evaluator(model: ModelProto, signature: Signature, name: str) -> tuple[Callable, tuple[str, ...]]:
    """A function from one batch to the chosen output, and notes on its precision."""
    from onnx import TensorProto

    index = [value.name for value in model.graph.output].index(signature.output_name)
    operators = {node.op_type for node in model.graph.node}
    notes = ()
    if signature.dtype == np.float16:
        notes = ("the model computes in float16",)
    casts = [
        a.i for node in model.graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to"
    ]
    if signature.dtype == np.float64 and {TensorProto.FLOAT, TensorProto.FLOAT16} & set(casts):
        notes = ("the model takes float64 but casts to a lower precision inside",)
    if signature.dtype != np.float64 or not operators & ROUNDED_BY_RUNTIME:
        session = _session(model, name, required=signature.dtype != np.float64)
        if session is not None:
            return lambda x: session.run([signature.output_name], {signature.input_name: x})[0], notes
    try:
        run = make_reference_evaluator(model)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise InputError(f"{name} cannot be evaluated in float64 ({error}); export it in float32") from error
    return lambda x: run({signature.input_name: x})[index], notes


def _session(model: ModelProto, name: str, *, required: bool) -> Any:
    """A quiet single-threaded onnxruntime session, or None where it lacks kernels and another way is left."""
    try:
        import onnxruntime
    except ImportError as error:
        if not required:
            return None
        raise MissingExtra("onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not required:
        # Fusions beyond the basic level may replace float64 patterns by kernels with float32 constants.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        if not required:
            return None
        reason = " ".join(str(error).split())
        raise InputError(f"{name} cannot be run by onnxruntime ({reason})") from error


def _in_batches(run: Callable, inputs: np.ndarray, batch_size: int | None) -> np.ndarray:
    if batch_size is None:
        return np.asarray(run(inputs))
    answers = []
    for start in range(0, len(inputs), batch_size):
        batch = inputs[start : start + batch_size]
        missing = batch_size - len(batch)
        full = np.concatenate([batch, np.repeat(batch[-1:], missing, axis=0)]) if missing else batch
        answer = np.asarray(run(full))
        if answer.ndim == 0 or answer.shape[0] != batch_size:
            answer = answer.reshape(1, -1) if batch_size == 1 else answer
        answers.append(answer[: len(batch)])
    return np.concatenate(answers)


def _choose_output(model: ModelProto, name: str) -> Any:
    outputs = list(model.graph.output)
    floats = [value for value in outputs if _float_type(value) is not None]
    if len(floats) > 1:
        floats = [value for value in floats if "probabilit" in value.name.lower()] or floats
    if len(floats) == 1:
        return floats[0]
    names = ", ".join(value.name for value in outputs)
    if not floats:
        raise InputError(f"{name} has no float output ({names}); export its scores or probabilities")
    raise InputError(
        f"{name} has {len(floats)} float outputs ({names}); give a callable that returns the one meant"
    )


def _free_batch(model: ModelProto) -> None:
    """Let a model exported for one row at a time take any number, where no node could mind."""
    weights = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        dense = (
            node.op_type in ("Gemm", "MatMul") and node.input[0] not in weights and node.input[1] in weights
        )
        if not (dense or node.op_type in UNIT_BY_UNIT) or any(
            a.name == "transA" and a.i for a in node.attribute
        ):
            return
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 2 and dims[0].dim_value == 1:
            dims[0].dim_param = "n"


def _bypass_zipmaps(model: ModelProto) -> None:
    from onnx import TensorProto, helper

    outputs = {value.name: value for value in model.graph.output}
    for node in [node for node in model.graph.node if node.op_type == "ZipMap" and node.output[0] in outputs]:
        hidden = outputs[node.output[0]]
        plain = helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, None)
        if "probabilit" not in plain.name.lower():
            rename = helper.make_node("Identity", [node.input[0]], ["probabilities_of_classes"])
            model.graph.node.append(rename)
            plain.name = rename.output[0]
        hidden.CopyFrom(plain)
        model.graph.node.remove(node)


def _float_type(value: Any) -> np.dtype | None:
    from onnx import TensorProto

    kinds = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16}
    kind = kinds.get(value.type.tensor_type.elem_type)
    return None if kind is None else np.dtype(kind)


def _dimensions(value: Any) -> tuple[int | None, ...] | None:
    if not value.type.tensor_type.HasField("shape"):
        return None
    return tuple(d.dim_value if d.dim_value > 0 else None for d in value.type.tensor_type.shape.dim)
