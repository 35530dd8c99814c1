"""The memory that a method takes for a number of inputs, so that one that cannot end is not begun.

Methods that measure gradients ask as many questions as there are inputs, each as long, for every cell or unit: their
memory grows with the square of the inputs, whatever the network. ``ridge`` alone asks along the directions that count:
its questions, about four hundred, are kept. The Jacobian of the certificate comes on top, as far as one is made.
"""

from __future__ import annotations

from unweave.core.memory import available_memory, spell_bytes
from unweave.evidence.kinds import Evidence
from unweave.methods.registry import entries
from unweave.solve.weighted import MOST_ENTRIES

BYTES_A_SQUARE = {
    "clamped": 200.0,
    "relu-lines": 200.0,
    "relu-features": 200.0,
    "relu-lifted": 200.0,
    "relu-layers": 300.0,
    "skeleton": 200.0,
    "far-field": 150.0,
    "hessian-pencil": 200.0,
    "corners": 200.0,
    "in-domain": 600.0,
    "hessian-span": 600.0,
    "linear": 280.0,
}
"""Bytes for every pair of inputs, measured with three units: answers and questions kept, gradients, and the fit."""
BYTES_AN_INPUT = {"ridge": 20e3, "halfspaces": 20e3}
"""Bytes for every input where the number of questions does not grow with them."""
JACOBIAN_A_SQUARE, JACOBIAN = 550.0, 9.0 * MOST_ENTRIES
"""Bytes of the certificate's Jacobian for every pair of inputs, and at most."""


def least_memory(method: str, input_size: int) -> float:
    """Bytes; 0 where nothing is known."""
    squares = float(input_size) ** 2
    if method in BYTES_AN_INPUT:
        return BYTES_AN_INPUT[method] * input_size
    if method not in BYTES_A_SQUARE:
        return 0.0
    jacobian = 0.0 if method == "linear" else min(JACOBIAN_A_SQUARE * squares, JACOBIAN)
    return BYTES_A_SQUARE[method] * squares + jacobian


def nothing_fits(method: str | None, evidence: Evidence, input_size: int) -> str:
    """Why no question need be asked: not even the method that takes least can be run here. None: any method."""
    names = [entry.name for entry in entries(evidence)] if method is None else [method]
    least = min(names, key=lambda name: least_memory(name, input_size))
    return too_large(least, evidence, input_size)


def only_ridge_fits(input_size: int) -> bool:
    """Whether nothing else that questions serve can be run here."""
    others = [name for name in BYTES_A_SQUARE if not too_large(name, Evidence.QUERIES, input_size)]
    return not others


def too_large(method: str, evidence: Evidence, input_size: int) -> str:
    """Why the method cannot be run here, in words, or nothing."""
    needed = least_memory(method, input_size) if evidence is Evidence.QUERIES else 0.0
    available = available_memory()
    if needed <= available:
        return ""
    return (
        f"{method} takes at least {spell_bytes(needed)} for {input_size:,} inputs and {spell_bytes(available)} are "
        f"free; run it where there is more memory, or fix the inputs that do not matter"
    )
