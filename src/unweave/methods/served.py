"""Which hidden activations each method serves: the one table that ``--help`` and the guides show.

It repeats what the methods declare (``Method.serves``), so that it can be shown without importing them; a test holds
the two together. Celu is found as elu; sigmoid and tanh describe the same functions, and so do relu6, hardtanh and
hardsigmoid.
"""

from __future__ import annotations

SMOOTH = "tanh, erf, sigmoid, gelu, silu, softplus, gelu_tanh"

SERVED = {
    "far-field": "tanh, erf, sigmoid",
    "clamped": "relu6, hardtanh, hardsigmoid",
    "skeleton": "gelu, silu, softplus, elu, mish, gelu_tanh, hardswish, celu, selu",
    "in-domain": f"{SMOOTH}, elu, mish, selu, softsign; any other smooth one when named",
    "corners": "tanh, erf, sigmoid",
    "hessian-pencil": SMOOTH,
    "hessian-span": SMOOTH,
    "linear": "relu, leaky_relu; of which it finds none",
    "relu-lines": "relu, leaky_relu",
    "relu-features": "relu",
    "relu-lifted": "relu, leaky_relu",
    "relu-layers": "relu, leaky_relu",
    "ridge": f"{SMOOTH}, relu, leaky_relu",
    "halfspaces": "step",
}


def served_lines() -> list[str]:
    """One line a method: ``name: activations``."""
    return [f"{name}: {activations}" for name, activations in SERVED.items()]


def served_table() -> str:
    """The same as a table in Markdown."""
    rows = [f"| {name} | {activations} |" for name, activations in SERVED.items()]
    return "\n".join(["| method | hidden activations |", "| --- | --- |", *rows])
