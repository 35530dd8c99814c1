"""What an activation is: value, two derivatives, reflection, limits at infinity, Hermite coefficients.

The functions take the array namespace as their last argument (``numpy`` or ``jax.numpy``), so the same
formula serves the CPU, ``jit`` and the GPU.

*Reflection* is how ``phi(-z)`` follows from ``phi(z)``: ``phi(-z) = sign * phi(z) + constant + linear * z``.
With ``linear == 0`` a unit may be flipped and the next layer absorbs the change; with ``linear != 0`` a flip
leaves a linear term in x behind, which a plain network can absorb only when such terms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Array = Any
Formula = Callable[[Array, ModuleType], Array]


class Reflection(NamedTuple):
    """``phi(-z) = sign * phi(z) + constant + linear * z``."""

    sign: float
    constant: float
    linear: float


class Rewriting(NamedTuple):
    """``phi(z) = gain * psi(inner * z + offset) + shift`` with another activation psi, by name."""

    name: str
    inner: float
    offset: float
    gain: float
    shift: float


@dataclass(frozen=True)
class Activation:
    """One activation function; every field is a fact about it, nothing is stored twice."""

    name: str
    value: Formula
    first: Formula
    second: Formula
    reflection: Reflection | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)
    breakpoints: tuple[float, ...] = ()
    smooth: bool = True
    scale: float = 1.0
    algebraic: bool = False
    """The limits or asymptotes are approached like a power of 1/z, not exponentially."""
    rewriting: Rewriting | None = None
    """The same function by an activation that stands for it when networks are compared."""

    def __call__(self, z: Array, xp: ModuleType = np) -> Array:
        return self.value(z, xp)

    @property
    def parity(self) -> str:
        """``"odd"``, ``"even"`` or ``"none"``."""
        if self.reflection is None or self.reflection[1:] != (0.0, 0.0):
            return "none"
        return "odd" if self.reflection.sign < 0 else "even"

    @property
    def family(self) -> str:
        """The name without its parameter."""
        return self.name.partition("(")[0]

    @property
    def saturates(self) -> bool:
        """Whether both limits at infinity are finite."""
        return math.isfinite(self.limits[0]) and math.isfinite(self.limits[1])

    @property
    def degree(self) -> int | None:
        """p with ``phi(c z) = c^p phi(z)`` for c > 0 (such units have a free positive scale), else None."""
        return {"relu": 1, "leaky_relu": 1, "quadratic": 2, "step": 0}.get(self.family)

    @property
    def flips(self) -> bool:
        """Whether a unit's sign can always be absorbed by the next layer."""
        return self.reflection is not None and self.reflection.linear == 0.0

    def hermite_coefficients(self, order: int, shift: float = 0.0, scale: float = 1.0) -> np.ndarray:
        """``E[phi(scale g + shift) h_k(g)]`` for k = 0..order, g ~ N(0,1), h_k the normalised polynomials.

        Composite Gauss-Legendre on panels that break at the kinks and shrink near them, so sharp
        activations such as ``softplus(10)`` are integrated to rounding.
        """
        nodes, weights = _panels(self, shift, scale)
        values = self.value(scale * nodes + shift, np) * weights * _normal_density(nodes)
        coefficients = np.empty(order + 1)
        previous, current = np.zeros_like(nodes), np.ones_like(nodes)
        for k in range(order + 1):
            coefficients[k] = values @ current
            previous, current = current, (nodes * current - math.sqrt(k) * previous) / math.sqrt(k + 1)
        return coefficients


def _normal_density(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def _panels(activation: Activation, shift: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    reach, width = 14.0, 0.5
    edges = set(np.arange(-reach, reach + width, width).tolist())
    for point in activation.breakpoints:
        centre = (point - shift) / scale if scale else 0.0
        if abs(centre) < reach:
            fine = activation.scale / max(abs(scale), 1e-12)
            steps = min(fine, width) * np.concatenate([[0.0], 2.0 ** np.arange(-3, 8)])
            edges.update(e for e in np.concatenate([centre + steps, centre - steps]) if abs(e) < reach)
    cuts = np.array(sorted(edges))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(cuts)[:, None] / 2
    return (cuts[:-1, None] + half + half * nodes).ravel(), (half * weights).ravel()
