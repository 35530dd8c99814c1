"""How questions and answers are written for a server: the Open Inference Protocol v2, and plain rows of JSON.

``Tensors`` speaks v2 (MLServer, Triton, KServe, TorchServe): named tensors with a shape and a datatype.
``Rows`` sends ``{"instances": rows}`` (TensorFlow Serving, KServe v1) or ``{"inputs": rows}`` (most small
services) and reads ``predictions``, ``outputs`` or a bare list. Numbers are written so that every double comes
back as itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from unweave.core.errors import InputError, OracleError
from unweave.models.http_scores import Labels

DATATYPES = ("FP64", "FP32")
_ANSWER_KEYS = ("predictions", "outputs", "prediction", "output", "result", "y")


class Format(Protocol):
    """One way of writing a batch and of reading its answers."""

    @property
    def path(self) -> str:
        """Where batches are posted."""
        ...

    def write(self, x: np.ndarray) -> Any: ...

    def read(self, answer: Any, num_rows: int, name: str) -> np.ndarray:
        """Answers as an array whose first dimension is ``num_rows``; float32 if the server says so."""
        ...


@dataclass(frozen=True)
class Tensors:
    """The Open Inference Protocol v2: one input tensor, one output tensor."""

    path: str
    input_name: str = "input-0"
    datatype: str = "FP64"
    shape: tuple[int, ...] = ()
    """Dimensions of one input where it is no plain vector."""
    output_name: str | None = None

    def write(self, x: np.ndarray) -> dict[str, Any]:
        shape = [len(x), *(self.shape or x.shape[1:])]
        tensor = {"name": self.input_name, "shape": shape, "datatype": self.datatype}
        request: dict[str, Any] = {"inputs": [{**tensor, "data": x.reshape(-1).tolist()}]}
        if self.output_name is not None:
            request["outputs"] = [{"name": self.output_name}]
        return request

    def read(self, answer: Any, num_rows: int, name: str) -> np.ndarray:
        outputs = answer.get("outputs") if isinstance(answer, dict) else None
        if not isinstance(outputs, list) or not all(isinstance(o, dict) and "data" in o for o in outputs):
            raise OracleError(
                f"{name} did not answer with output tensors; is it a v2 server? try protocol='inputs'"
            )
        names = [str(output.get("name")) for output in outputs]
        if self.output_name in names:
            output = outputs[names.index(self.output_name)]
        elif len(outputs) == 1 and self.output_name is None:
            output = outputs[0]
        else:
            raise OracleError(f"{name} answers with the outputs {', '.join(names)}; name one: output_name=")
        datatype = str(output.get("datatype", "FP64"))
        if not datatype.startswith(("FP", "BF")):
            raise OracleError(
                f"{name} answers with {datatype} (class labels?); name an output of real numbers: "
                f"output_name= (predict_proba with probabilities=True for a scikit-learn classifier on MLServer)"
            )
        values = as_numbers(output["data"], name).reshape(-1)
        if num_rows == 0 or values.size % num_rows:
            raise OracleError(f"{name} answered {num_rows} questions with {values.size} numbers")
        values = values.reshape(num_rows, -1)
        return values if datatype == "FP64" else values.astype(np.float32)


@dataclass(frozen=True)
class Rows:
    """A JSON object with all rows under one key, answered by a list with one entry a row."""

    path: str
    key: str = "inputs"
    output_name: str | None = None
    labels: Labels = field(default_factory=Labels, compare=False)

    def write(self, x: np.ndarray) -> dict[str, Any]:
        return {self.key: x.tolist()}

    def read(self, answer: Any, num_rows: int, name: str) -> np.ndarray:
        rows = answer
        if isinstance(answer, dict):
            keys = [key for key in (self.output_name, *_ANSWER_KEYS) if key in answer]
            if not keys:
                found = ", ".join(sorted(map(str, answer))) or "nothing"
                raise OracleError(
                    f"{name} answers with {found[:120]}, not with predictions; name the key: output_name="
                )
            rows = answer[keys[0]]
        if self.output_name is not None and isinstance(rows, list) and rows and isinstance(rows[0], dict):
            rows = [row.get(self.output_name) if isinstance(row, dict) else row for row in rows]
        scores = self.labels.read(rows, num_rows, name)
        values = as_numbers(rows, name) if scores is None else scores
        if values.ndim == 0 or len(values) != num_rows:
            raise OracleError(
                f"{name} answered {num_rows} questions with shape {values.shape}; it must answer one row for "
                f"each row it is asked"
            )
        values = values.reshape(num_rows, -1)
        return restore_float32(values)


@dataclass(frozen=True)
class Described:
    """What the metadata of a v2 server say about its input; None where they say nothing."""

    input_name: str | None = None
    shape: tuple[int, ...] | None = None
    datatype: str | None = None
    batch_size: int | None = None
    """A fixed batch size."""

    @property
    def input_size(self) -> int | None:
        return None if self.shape is None else math.prod(self.shape)


def read_metadata(metadata: Any, name: str, input_name: str | None) -> Described:
    """The input a v2 server describes; servers that describe nothing (MLServer by default) are fine."""
    inputs = metadata.get("inputs") if isinstance(metadata, dict) else None
    if not inputs:
        return Described(input_name=input_name)
    names = [str(tensor.get("name")) for tensor in inputs]
    if input_name is not None and input_name not in names:
        raise InputError(f"{name} has no input {input_name!r}; it has {', '.join(names)}")
    if len(inputs) > 1:
        raise InputError(f"{name} takes {len(inputs)} inputs ({', '.join(names)}); only one is supported")
    tensor = inputs[0]
    datatype = tensor.get("datatype")
    if datatype is not None and datatype not in DATATYPES:
        raise InputError(f"{name} takes {datatype} inputs; only {' and '.join(DATATYPES)} are supported")
    dims = [int(n) for n in tensor.get("shape") or []]
    batch = dims[0] if len(dims) > 1 and dims[0] > 0 else None
    one = tuple(dims[1:] if len(dims) > 1 else dims)
    known = bool(one) and all(n > 0 for n in one)
    return Described(names[0], one if known else None, datatype, batch)


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Nested lists of numbers as float64; strings, nulls and booleans are refused."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise OracleError(f"{name} answered with rows of different lengths; check input_size=") from error
    if array.dtype.kind == "O" and any(value is None for value in array.reshape(-1)):
        raise OracleError(f"{name} answered null (NaN?); restrict domain=, to less than now")
    if array.dtype.kind not in "iuf":
        raise OracleError(f"{name} did not answer with numbers but with {str(values)[:60]!r}")
    return array.astype(np.float64)


def restore_float32(values: np.ndarray) -> np.ndarray:
    """The float32 numbers whose shortest decimal form was sent, or ``values`` if they were no such numbers.

    Go, Rust and JavaScript servers write a float32 with the fewest digits that tell it from its neighbours.
    Such digits name a float32 although the double they parse to is another number. At least one value must
    need eight digits; fewer could be rounded doubles.
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if np.array_equal(single.astype(np.float64), values):
        return values
    texts = []
    for value, number in zip(single.reshape(-1), values.reshape(-1).tolist(), strict=True):
        texts.append(np.format_float_scientific(value, unique=True))
        if float(texts[-1]) != number:
            return values
    long = any(sum(c.isdigit() for c in text.split("e")[0]) >= 8 for text in texts)
    return single if long else values


def are_float32(values: np.ndarray) -> bool:
    """Whether all numbers are float32 numbers that no double is by chance: some of them use most of the 24 bits."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if not np.array_equal(single, values):
        return False
    fractions = np.abs(np.frexp(values)[0])
    return bool(np.any(fractions * 2**16 != np.round(fractions * 2**16)))
