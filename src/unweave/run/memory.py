"""The least memory that a method takes for a number of inputs, so that one that cannot end is not begun.

Methods that measure gradients ask as many questions as there are inputs, each as long, for every cell or unit: their
memory grows with the square of the inputs, whatever the network. ``ridge`` alone asks along the directions that count.
"""

from __future__ import annotations

from unweave.core.memory import available_memory, spell_bytes
from unweave.evidence.kinds import Evidence

BYTES_A_SQUARE = {
    "relu-lines": 200.0,
    "relu-lifted": 200.0,
    "relu-layers": 300.0,
    "skeleton": 200.0,
    "far-field": 150.0,
    "hessian-pencil": 200.0,
    "in-domain": 600.0,
    "hessian-span": 600.0,
}
"""Bytes for every pair of inputs, measured with three units: answers and questions kept, gradients, and the fit."""


def least_memory(method: str, input_size: int) -> float:
    """Bytes; 0 where nothing is known."""
    return BYTES_A_SQUARE.get(method, 0.0) * float(input_size) ** 2


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
