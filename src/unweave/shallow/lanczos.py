"""The least eigenvalue of a symmetric operator by Lanczos, with what is and what is not proved.

The Ritz value of a unit vector is never below the least eigenvalue, so it proves *negative* curvature outright. In
the other direction the bound is probabilistic: from a random start, m steps miss more than the fraction eps of the
spectrum's width with probability at most ``1.648 sqrt(p) exp(-sqrt(eps) (2m - 1))`` (Kuczynski and Wozniakowski 1992).
All Lanczos vectors are kept orthogonal; they are few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

FAILURE = 1e-9
"""Probability that the lower bound of a Lanczos run is wrong."""


@dataclass(frozen=True, eq=False)
class LeastCurvature:
    """``lower <= least eigenvalue <= value``; ``direction`` is a unit vector with curvature ``value``."""

    value: float
    lower: float
    largest: float
    direction: np.ndarray
    residual: float
    """``|H u - value u|``: an eigenvalue lies this close to ``value``."""
    exact: bool
    """Whether ``lower`` holds up to rounding (dense), or with probability 1 - 1e-9 (Lanczos)."""


def least_eigenpair(
    product: Callable[[np.ndarray], np.ndarray],
    size: int,
    *,
    num_steps: int = 300,
    rng: np.random.Generator | None = None,
    start: np.ndarray | None = None,
) -> LeastCurvature:
    """Lanczos from a random vector (a given ``start`` forfeits the probabilistic bound)."""
    rng = np.random.default_rng(0) if rng is None else rng
    vector = rng.standard_normal(size) if start is None else np.array(start, dtype=np.float64)
    num_steps = min(num_steps, size)
    basis = np.empty((num_steps, size))
    alpha, beta = np.zeros(num_steps), np.zeros(num_steps)
    basis[0] = vector / np.linalg.norm(vector)
    done, previous = num_steps, np.inf
    for m in range(num_steps):
        w = product(basis[m])
        alpha[m] = w @ basis[m]
        for _ in range(2):
            w = w - basis[: m + 1].T @ (basis[: m + 1] @ w)
        beta[m] = np.linalg.norm(w)
        if beta[m] <= 1e-14 * max(float(np.max(np.abs(alpha[: m + 1]))), 1e-300):
            done = m + 1
            break
        if m + 1 < num_steps:
            basis[m + 1] = w / beta[m]
        if m >= 30 and m % 10 == 0:
            values, vectors = eigh_tridiagonal(alpha[: m + 1], beta[:m])
            width = values[-1] - values[0]
            settled = abs(beta[m] * vectors[-1, 0]) <= 1e-10 * width and previous - values[0] <= 1e-12 * width
            previous = values[0]
            if settled:
                done = m + 1
                break
    values, vectors = eigh_tridiagonal(alpha[:done], beta[: done - 1])
    direction = basis[:done].T @ vectors[:, 0]
    residual = float(abs(beta[done - 1] * vectors[-1, 0]))
    width = float(values[-1] - values[0])
    if start is not None:
        missed = np.inf
    elif done == size:
        missed = 1e-13
    else:
        missed = (np.log(1.648 * np.sqrt(size) / FAILURE) / (2 * done - 1)) ** 2
    # The spectrum's width is itself underestimated by at most the same fraction at its upper end.
    wider = width / max(1 - 2 * missed, 0.5) if missed < 0.25 else np.inf
    return LeastCurvature(
        float(values[0]),
        float(values[0] - missed * wider) if np.isfinite(missed) else -np.inf,
        float(values[-1]),
        direction / np.linalg.norm(direction),
        residual,
        bool(done == size),
    )


def dense_least_eigenpair(matrix: np.ndarray) -> LeastCurvature:
    """The same from the matrix itself; the bound is LAPACK's backward error."""
    values, vectors = np.linalg.eigh(matrix)
    slack = 4 * len(matrix) * 2.0**-52 * float(np.max(np.abs(values)))
    direction = vectors[:, 0]
    residual = float(np.linalg.norm(matrix @ direction - values[0] * direction))
    return LeastCurvature(
        float(values[0]), float(values[0]) - slack, float(values[-1]), direction, residual, True
    )
