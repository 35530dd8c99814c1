"""How exact the answers are: rounding, float32 or noise, measured by difference tables.

On points equally spaced along a short segment a smooth function is a low-degree polynomial; its high
differences vanish and what is left is the error of the answers, amplified by a known binomial factor
(Hamming's table).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """The measured error of the answers, absolute and relative to their scale."""

    noise: float
    """Standard deviation of the error of one answer, in the units of the outputs."""
    scale: float
    """Typical spread of the outputs over the domain."""
    kind: str
    """``"float64"``, ``"float32"``, ``"rounded"`` or ``"noisy"``."""

    @property
    def relative(self) -> float:
        return self.noise / self.scale if self.scale > 0 else 0.0
