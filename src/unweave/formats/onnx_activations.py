"""Activations in ONNX: which operators are activations, and nodes that onnxruntime runs in the precision asked for.

onnxruntime has no float64 kernels for Erf, Gelu, Softplus and Elu, and the parameters of LeakyRelu and Elu
are float32 attributes. In float64 those are composed from elementary nodes that do have kernels; in float32
the standard nodes are written, which every reader knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.core.activation_families import SELU_ALPHA, SELU_SCALE
from unweave.core.activations import split_name
from unweave.core.errors import ExportError
from unweave.core.outputs import Squashing

ACTIVATIONS = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Exp": "exp",
    "Erf": "erf",
    "Softplus": "softplus",
    "Gelu": "gelu",
    "HardSwish": "hardswish",
    "Mish": "mish",
    "Softsign": "softsign",
}
PARAMETRIC = {"LeakyRelu": ("leaky_relu", 0.01), "Elu": ("elu", 1.0), "Celu": ("celu", 1.0)}
"""Activations with an attribute ``alpha``, and what it is when not given."""
UNIT_BY_UNIT = {*ACTIVATIONS, *PARAMETRIC, "HardSigmoid", "Selu", "Identity"}
ROUNDED_BY_RUNTIME = {"Gelu", "Erf"}
"""Evaluated by onnxruntime with float32 constants even in float64 graphs."""

# log(erfc(z) exp(z^2) / t) as a polynomial in 2 t - 1 with t = 2 / (2 + z), z >= 0: the Chebyshev series
# computed with 40 digits, cut at degree 24 and rewritten in powers. erfc follows to 6e-16.
_LOG_ERFC = (
    -0.6717940840566922,
    0.6726432239776583,
    0.04734330684186352,
    -0.04689561023132892,
    -0.009872689364099222,
    0.008824938561312326,
    0.001758933507402803,
    -0.0023458125529958935,
    -0.00014624628742128412,
    0.0006736791352568861,
    -9.373894767667294e-05,
    -0.00017430412986925935,
    7.1418104334223e-05,
    3.1746935423272354e-05,
    -3.0237840540071365e-05,
    1.3989370477610988e-07,
    8.662535397475538e-06,
    -2.9634842309596983e-06,
    -1.409445991433531e-06,
    1.2833949153561985e-06,
    -4.1468537546636465e-08,
    -2.8956265674355237e-07,
    7.745572408758513e-08,
    2.980513364515168e-08,
    -1.2776086554968677e-08,
)


class NodeWriter:
    """Collects the nodes and constants of a graph; every method returns the name of the value it computes."""

    def __init__(self, dtype: str):
        import onnx.helper
        import onnx.numpy_helper

        self._helper = onnx.helper
        self._from_array = onnx.numpy_helper.from_array
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[float, str] = {}

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(
            self._helper.make_node(kind, list(inputs), [name], name=f"{kind}_{len(self.nodes)}", **attributes)
        )
        return name

    def tensor(self, name: str, values: np.ndarray) -> str:
        self.initializers.append(self._from_array(np.ascontiguousarray(values, dtype=self.dtype), name))
        return name

    def constant(self, value: float) -> str:
        if value not in self._constants:
            self._constants[value] = self.tensor(f"c{len(self._constants)}", np.array(value))
        return self._constants[value]

    def cast(self, value: str) -> str:
        return self.op("Cast", value, to=self._helper.np_dtype_to_tensor_dtype(self.dtype))


def write_activation(writer: NodeWriter, name: str, z: str) -> str:
    """Append the nodes of activation ``name`` applied to the value ``z``; returns the result's name."""
    kind, parameter = split_name(name)
    if kind not in _WRITERS:
        raise ExportError(f"activation {name!r} has no ONNX form; export to .safetensors instead")
    if parameter is None:
        return _WRITERS[kind](writer, z)
    return _WRITERS[kind](writer, z, parameter)


def write_output(writer: NodeWriter, name: str, z: str) -> str:
    """The same for what stands behind the last layer: an activation, a softmax, expm1 or a clamp."""
    if name in ("softmax", "log_softmax"):
        return writer.op("Softmax" if name == "softmax" else "LogSoftmax", z, axis=1)
    if name == "expm1":
        return _expm1(writer, z)
    if name.startswith("clamp"):
        low, high = Squashing(name).range
        z = writer.op("Max", z, writer.constant(low)) if math.isfinite(low) else z
        return writer.op("Min", z, writer.constant(high)) if math.isfinite(high) else z
    return write_activation(writer, name, z)


def _expm1(w: NodeWriter, z: str) -> str:
    """2 t / (1 - t) with t = tanh(z / 2): no cancellation near 0; beyond 20 the exponential itself."""
    t = w.op("Tanh", w.op("Mul", w.constant(0.5), w.op("Min", z, w.constant(20.0))))
    near = w.op("Div", w.op("Mul", w.constant(2.0), t), w.op("Sub", w.constant(1.0), t))
    far = w.op("Sub", w.op("Exp", z), w.constant(1.0))
    return w.op("Where", w.op("Greater", z, w.constant(1.0)), far, near)


def _identity(w: NodeWriter, z: str) -> str:
    return z


def _plain(operator: str) -> Callable[[NodeWriter, str], str]:
    return lambda w, z: w.op(operator, z)


def _step(w: NodeWriter, z: str) -> str:
    return w.cast(w.op("Greater", z, w.constant(0.0)))


def _quadratic(w: NodeWriter, z: str) -> str:
    return w.op("Mul", z, z)


def _silu(w: NodeWriter, z: str) -> str:
    return w.op("Mul", z, w.op("Sigmoid", z))


def _leaky_relu(w: NodeWriter, z: str, slope: float = 0.01) -> str:
    if w.dtype == np.float32:
        return w.op("LeakyRelu", z, alpha=slope)
    below = w.op("Relu", w.op("Neg", z))
    return w.op("Sub", w.op("Relu", z), w.op("Mul", w.constant(slope), below))


def _elu(w: NodeWriter, z: str, alpha: float = 1.0) -> str:
    if w.dtype == np.float32:
        return w.op("Elu", z, alpha=alpha)
    # expm1(m) = 2 sinh(m/2) exp(m/2) = 2 t / (1 - t) with t = tanh(m/2): no cancellation near 0
    t = w.op("Tanh", w.op("Mul", w.constant(0.5), w.op("Min", z, w.constant(0.0))))
    expm1 = w.op("Div", w.op("Mul", w.constant(2.0), t), w.op("Sub", w.constant(1.0), t))
    return w.op("Add", w.op("Relu", z), w.op("Mul", w.constant(alpha), expm1))


def _celu(w: NodeWriter, z: str, alpha: float = 1.0) -> str:
    if w.dtype == np.float32:
        return w.op("Celu", z, alpha=alpha)
    return w.op("Mul", w.constant(alpha), _elu(w, w.op("Mul", w.constant(1 / alpha), z)))


def _selu(w: NodeWriter, z: str) -> str:
    if w.dtype == np.float32:
        return w.op("Selu", z, alpha=SELU_ALPHA, gamma=SELU_SCALE)
    return w.op("Mul", w.constant(SELU_SCALE), _elu(w, z, SELU_ALPHA))


def _mish(w: NodeWriter, z: str) -> str:
    # tanh(softplus(z)) = n / (n + 2) with n = e^z (e^z + 2); it is 1 to rounding beyond 20
    e = w.op("Exp", w.op("Min", z, w.constant(20.0)))
    n = w.op("Mul", e, w.op("Add", e, w.constant(2.0)))
    return w.op("Mul", z, w.op("Div", n, w.op("Add", n, w.constant(2.0))))


def _clip(w: NodeWriter, z: str, low: float, high: float) -> str:
    return w.op("Min", w.op("Max", z, w.constant(low)), w.constant(high))


def _hardswish(w: NodeWriter, z: str) -> str:
    raised = _clip(w, w.op("Add", z, w.constant(3.0)), 0.0, 6.0)
    return w.op("Mul", w.op("Mul", z, raised), w.constant(1 / 6))


def _hardsigmoid(w: NodeWriter, z: str) -> str:
    return w.op("Mul", _clip(w, w.op("Add", z, w.constant(3.0)), 0.0, 6.0), w.constant(1 / 6))


def _softsign(w: NodeWriter, z: str) -> str:
    if w.dtype == np.float32:
        return w.op("Softsign", z)
    return w.op("Div", z, w.op("Add", w.constant(1.0), w.op("Abs", z)))


def _squareplus(w: NodeWriter, z: str, b: float = 4.0) -> str:
    modulus = w.op("Abs", z)
    root = w.op("Sqrt", w.op("Add", w.op("Mul", z, z), w.constant(b)))
    return w.op("Add", w.op("Relu", z), w.op("Div", w.constant(b / 2), w.op("Add", root, modulus)))


def _softplus(w: NodeWriter, z: str, sharpness: float = 1.0) -> str:
    scaled = z if sharpness == 1.0 else w.op("Mul", w.constant(sharpness), z)
    if w.dtype == np.float32:
        value = w.op("Softplus", scaled)
    else:
        decay = w.op("Exp", w.op("Neg", w.op("Abs", scaled)))
        value = w.op("Add", w.op("Relu", scaled), w.op("Log", w.op("Add", w.constant(1.0), decay)))
    return value if sharpness == 1.0 else w.op("Mul", w.constant(1 / sharpness), value)


def _erf(w: NodeWriter, z: str) -> str:
    if w.dtype == np.float32:
        return w.op("Erf", z)
    return w.op("Mul", w.op("Sign", z), w.op("Sub", w.constant(1.0), _erfc_of_modulus(w, z)))


def _gelu(w: NodeWriter, z: str) -> str:
    if w.dtype == np.float32:
        erf = w.op("Erf", w.op("Div", z, w.constant(math.sqrt(2))))
        return w.op("Mul", z, w.op("Mul", w.constant(0.5), w.op("Add", erf, w.constant(1.0))))
    tail = w.op("Mul", w.constant(0.5), _erfc_of_modulus(w, w.op("Mul", w.constant(math.sqrt(0.5)), z)))
    # z Phi(z) = max(z, 0) - |z| Phi(-|z|)
    return w.op("Sub", w.op("Relu", z), w.op("Mul", w.op("Abs", z), tail))


def _gelu_tanh(w: NodeWriter, z: str) -> str:
    cube = w.op("Mul", w.op("Mul", z, z), z)
    inner = w.op("Add", z, w.op("Mul", w.constant(0.044715), cube))
    t = w.op("Tanh", w.op("Mul", w.constant(math.sqrt(2 / math.pi)), inner))
    return w.op("Mul", z, w.op("Mul", w.constant(0.5), w.op("Add", t, w.constant(1.0))))


def _erfc_of_modulus(w: NodeWriter, z: str) -> str:
    """``erfc(|z|)`` from elementary nodes, to 6e-16."""
    modulus = w.op("Abs", z)
    t = w.op("Div", w.constant(2.0), w.op("Add", modulus, w.constant(2.0)))
    s = w.op("Sub", w.op("Add", t, t), w.constant(1.0))
    value = w.constant(_LOG_ERFC[-1])
    for coefficient in _LOG_ERFC[-2::-1]:
        value = w.op("Add", w.op("Mul", value, s), w.constant(coefficient))
    decay = w.op("Exp", w.op("Neg", w.op("Mul", modulus, modulus)))
    return w.op("Mul", w.op("Mul", t, w.op("Exp", value)), decay)


_WRITERS: dict[str, Callable[..., str]] = {
    "identity": _identity,
    **{ACTIVATIONS[op]: _plain(op) for op in ("Relu", "Tanh", "Sigmoid", "Exp")},
    "erf": _erf,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "quadratic": _quadratic,
    "step": _step,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "softplus": _softplus,
    "mish": _mish,
    "selu": _selu,
    "celu": _celu,
    "hardswish": _hardswish,
    "relu6": lambda w, z: _clip(w, z, 0.0, 6.0),
    "hardtanh": lambda w, z: _clip(w, z, -1.0, 1.0),
    "hardsigmoid": _hardsigmoid,
    "softsign": _softsign,
    "squareplus": _squareplus,
}
