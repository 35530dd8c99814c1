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
from unweave.core.activation_families import SELU_ALPHA
from unweave.core.deadline import held

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


def fit_profile(name: str, t: np.ndarray, answers: np.ndarray, half: float) -> Profile:
    """Fit activation ``name`` to ``answers`` (n, outputs) at the places ``t`` around a window of width ``half``."""
    held().check()
    given = _Answers(t / half, answers)
    smooth = act.get(name).smooth
    # the asymptotes meet where the argument is 0, or -alpha for elu(alpha)
    meetings = np.array([0.5, 1.0, SELU_ALPHA] if name == "elu" else [-act.get(name).limits[0]])
    grid = np.repeat(np.geomspace(1.0, STEEPEST, 16 if smooth else 48), len(meetings))
    shifts = _meeting(given.u, answers) + np.tile(meetings, len(grid) // len(meetings)) / grid
    order = np.argsort(_grid_costs(name, given, grid, shifts))[: 2 if smooth else 6]
    fits = [_descend(_Fit(name, given, float(grid[i]), float(shifts[i]))) for i in order]
    best = min(fits, key=lambda fit: fit.cost)
    alpha = best.alpha if name == "elu" else None
    return Profile(
        name, float(np.sqrt(best.cost / answers.size)), best.steepness / half, best.shift * half, alpha
    )


def name_elu(alpha: float, error: float = 2e-3) -> str:
    """elu(alpha) with the alpha of selu, or the shortest number within ``error``."""
    if abs(alpha - SELU_ALPHA) <= error:
        return f"elu({SELU_ALPHA!r})"
    for digits in range(1, 13):
        if abs(round(alpha, digits) - alpha) <= error:
            return act.get(f"elu({round(alpha, digits)!r})").name
    return f"elu({float(alpha)!r})"


def _meeting(u: np.ndarray, answers: np.ndarray) -> float:
    """Where the lines through the two outermost answers on either side of a window meet; inside it."""
    order = np.argsort(u)
    left, right = order[:2], order[-2:]
    slopes = [(answers[i] - answers[j]) / (u[i] - u[j]) for i, j in (left, right)]
    bend = slopes[1] - slopes[0]
    gap = answers[left[0]] - u[left[0]] * slopes[0] - (answers[right[0]] - u[right[0]] * slopes[1])
    return float(np.clip(gap @ bend / max(float(bend @ bend), 1e-300), -1, 1))


class _Answers:
    """The answers across a window less their best affine function."""

    def __init__(self, u: np.ndarray, answers: np.ndarray):
        self.u = u
        self._basis = np.linalg.qr(np.column_stack([np.ones_like(u), u]))[0]
        self.rest = self.project(answers)

    def project(self, columns: np.ndarray) -> np.ndarray:
        """Columns (n, ...) less their affine part, twice for rounding."""
        for _ in range(2):
            columns = columns - self._basis @ (self._basis.T @ columns)
        return columns


class _Fit:
    """The fit for one steepness and shift: the linear part is solved for."""

    def __init__(self, name: str, answers: _Answers, steepness: float, shift: float):
        self.name, self.answers, self.steepness, self.shift = name, answers, steepness, shift
        z = steepness * (answers.u - shift)
        terms, self._slopes = _terms(name, z)
        self._terms = answers.project(terms)
        self._gram = self._terms.T @ self._terms
        self.solution = _solve_small(self._gram, self._terms.T @ answers.rest)
        self.residual = self._terms @ self.solution - answers.rest
        self.cost = float(np.sum(self.residual**2))

    @property
    def alpha(self) -> float:
        right, left = self.solution
        return float(left @ right / max(float(right @ right), 1e-300))

    def step(self, damping: float) -> tuple[float, float]:
        """Damped Gauss-Newton in (log steepness, shift), with the linear part projected out."""
        growth = self._slopes @ self.solution
        columns = (
            np.stack([(self.answers.u - self.shift)[:, None] * growth, -growth], axis=1) * self.steepness
        )
        flat = self.answers.project(columns.reshape(len(growth), -1))
        flat = flat - self._terms @ _solve_small(self._gram, self._terms.T @ flat)
        jacobian = flat.reshape(columns.shape).swapaxes(0, 1).reshape(2, -1)
        gram = jacobian @ jacobian.T
        gram[np.diag_indices(2)] *= 1 + damping
        move = -_solve_small(gram, jacobian @ self.residual.ravel())
        return float(np.clip(move[0], -1, 1)), float(np.clip(move[1], -1, 1))


def _terms(name: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The terms whose coefficients are free, and their slopes: (..., terms)."""
    if name == "elu":
        below = np.minimum(z, 0.0)
        values = np.stack([np.maximum(z, 0.0), np.expm1(below)], axis=-1)
        return values, np.stack([(z > 0).astype(float), np.where(z < 0, np.exp(below), 0.0)], axis=-1)
    phi = act.get(name)
    return phi(z)[..., None], phi.first(z, np)[..., None]


def _grid_costs(name: str, answers: _Answers, steepness: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """What is left for many starts at once."""
    z = steepness[:, None] * (answers.u - shift[:, None])
    terms = _terms(name, z)[0]
    num, n, count = terms.shape
    terms = answers.project(terms.swapaxes(0, 1).reshape(n, -1)).reshape(n, num, count)
    gram = np.einsum("nsa,nsb->sab", terms, terms)
    right = np.einsum("nsa,nk->sak", terms, answers.rest)
    trace = np.einsum("saa->s", gram)[:, None, None]
    gram = gram + (1e-14 * trace + 1e-300) * np.eye(count)
    explained = np.einsum("sak,sak->s", right, np.linalg.solve(gram, right))
    return -explained


def _descend(here: _Fit, max_steps: int = 60) -> _Fit:
    damping = 1e-3
    for _ in range(max_steps):
        stretch, move = here.step(damping)
        trial = _Fit(here.name, here.answers, here.steepness * np.exp(stretch), here.shift + move)
        if trial.cost < here.cost:
            gained = here.cost - trial.cost
            here, damping = trial, damping * 0.2
            if gained < 1e-9 * here.cost:
                break
        else:
            damping *= 10
            if damping > 1e6:
                break
    return here


def _solve_small(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with a positive matrix of size one or two, scaled; what vanishes gets zero."""
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = gram * scale[:, None] * scale
    right = right * (scale if right.ndim == 1 else scale[:, None])
    if len(gram) == 1:
        solution = right
    else:
        determinant = scaled[0, 0] * scaled[1, 1] - scaled[0, 1] ** 2
        inverse = np.array([[scaled[1, 1], -scaled[0, 1]], [-scaled[0, 1], scaled[0, 0]]])
        solution = inverse @ right / max(determinant, 1e-14)
    return solution * (scale if right.ndim == 1 else scale[:, None])
