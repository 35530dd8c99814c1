"""Which activation a window shows, how steep and where: ``A + B t + C phi(s (t - shift))`` by least squares.

The answers across a window, along the normal of the unit's zero set, are affine but for the unit itself. For given
steepness s and shift the rest is linear and is projected out; two unknowns are left, from a few starts. Half widths of
softplus(b) or celu(a) are part of s; elu has one more linear term, whose ratio to the first is alpha, so that selu, a
multiple of elu(1.67), is found as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.activation_table import SELU_ALPHA

CANDIDATES = ("gelu", "silu", "softplus", "elu", "mish", "gelu_tanh", "hardswish")
"""Activations told apart by their windows; ``elu`` stands for elu(alpha), celu and selu."""
STEEPEST = 300.0
"""Starts reach from one to so many times the inverse half width of the window."""


@dataclass(frozen=True)
class Profile:
    """One activation fitted to one window."""

    activation: str
    misfit: float
    """Root mean square of what is left."""
    steepness: float
    shift: float
    alpha: float | None = None
    """Of elu: its left limit is -alpha."""

    @property
    def left_limit(self) -> float:
        """Minus the value far on the left, in the units of the activation."""
        return self.alpha if self.alpha is not None else 0.0


def fit_profile(
    name: str, t: np.ndarray, answers: np.ndarray, half: float, *, num_starts: int = 16
) -> Profile:
    """Fit activation ``name`` to ``answers`` (n, outputs) at the places ``t`` around a window of width ``half``."""
    u = t / half
    grid = np.geomspace(1.0, STEEPEST, num_starts)
    shifts = (0.0,) if act.get(name).reflection is not None else (0.0, -0.5, 1.0)
    starts = [(s, shift / s) for s in grid for shift in shifts]
    costs = [_Projection(name, u, answers, s, shift).cost for s, shift in starts]
    best: _Projection | None = None
    for i in np.argsort(costs)[:2]:
        found = _descend(_Projection(name, u, answers, *starts[i]), answers)
        best = found if best is None or found.cost < best.cost else best
    assert best is not None
    alpha = best.alpha if name == "elu" else None
    return Profile(
        name, float(np.sqrt(best.cost / answers.size)), best.steepness / half, best.shift * half, alpha
    )


def name_elu(alpha: float, error: float = 1e-5) -> str:
    """The usual name of elu(alpha): that of selu, or of the shortest number within ``error``."""
    if abs(alpha - SELU_ALPHA) <= error:
        return f"elu({SELU_ALPHA!r})"
    for digits in range(1, 6):
        if abs(round(alpha, digits) - alpha) <= error:
            return act.get(f"elu({round(alpha, digits)!r})").name
    return f"elu({float(alpha)!r})"


class _Projection:
    """The fit for one steepness and shift: the linear part is solved for."""

    def __init__(self, name: str, u: np.ndarray, answers: np.ndarray, steepness: float, shift: float):
        self.name, self.u, self.steepness, self.shift = name, u, steepness, shift
        z = steepness * (u - shift)
        if name == "elu":
            below = np.minimum(z, 0.0)
            terms = [np.maximum(z, 0.0), np.expm1(below)]
            slopes = [(z > 0).astype(float), np.where(z < 0, np.exp(below), 0.0)]
        else:
            phi = act.get(name)
            terms, slopes = [phi(z)], [phi.first(z, np)]
        self.design = np.column_stack([np.ones_like(u), u, *terms])
        self._slopes = np.column_stack([np.zeros_like(u), np.zeros_like(u), *slopes])
        self.basis, triangle = np.linalg.qr(self.design)
        self._projected = self.basis.T @ answers
        self.solution = _solve(triangle, self._projected)
        self.residual = self.design @ self.solution - answers
        self.cost = float(np.sum(self.residual**2))

    @property
    def alpha(self) -> float:
        right, left = self.solution[2], self.solution[3]
        return float(left @ right / max(float(right @ right), 1e-300))

    def step(self, damping: float) -> tuple[float, float]:
        """Damped Gauss-Newton in (log steepness, shift), with the linear part projected out."""
        growth = self._slopes @ self.solution
        columns = (
            (self.u - self.shift)[:, None] * growth * self.steepness,
            -self.steepness * growth,
        )
        jacobian = np.column_stack([(c - self.basis @ (self.basis.T @ c)).ravel() for c in columns])
        gram = jacobian.T @ jacobian
        gram[np.diag_indices(2)] *= 1 + damping
        gram[np.diag_indices(2)] += 1e-300
        move = -np.linalg.lstsq(gram, jacobian.T @ self.residual.ravel(), rcond=None)[0]
        return float(np.clip(move[0], -1, 1)), float(np.clip(move[1], -1, 1))


def _descend(here: _Projection, answers: np.ndarray, max_steps: int = 60) -> _Projection:
    damping = 1e-3
    for _ in range(max_steps):
        stretch, move = here.step(damping)
        trial = _Projection(here.name, here.u, answers, here.steepness * np.exp(stretch), here.shift + move)
        if trial.cost < here.cost:
            gained = here.cost - trial.cost
            here, damping = trial, damping * 0.2
            if gained < 1e-12 * here.cost:
                break
        else:
            damping *= 10
            if damping > 1e8:
                break
    return here


def _solve(triangle: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Back substitution; columns that vanish get coefficient zero."""
    diagonal = np.abs(np.diag(triangle))
    if np.min(diagonal) > 1e-13 * np.max(diagonal):
        return np.linalg.solve(triangle, right)
    return np.linalg.lstsq(triangle, right, rcond=1e-13)[0]
