"""How far a network of quadratic units can be from the global minimum, for any data set.

With ``M = W' diag(v) W`` the loss is ``f(M) = 1/(2n) sum_i (x_i' M x_i - y_i)^2``, convex in M, with gradient
``S = 1/n sum_i r_i x_i x_i'``. Lemma 6.1 of Soltanolkotabi, Javanmard and Lee 2017: S = 0 makes W a global minimum.
Made quantitative: ``L - L* <= n |S|_F^2 / (2 s^2)``, s the least non-zero singular value of the half-vectorised
design, whatever the widths and signs. Where the fixed output weights all have one sign, M is confined to a cone, S need
not vanish, and ``L - L* <= <S, M> + max(0, -lambda_min(S)) T`` with T a bound on the trace of any better M.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.symmetric_forms import ROUNDING, least_singular_value, num_forms
from unweave.shallow.loss import LocalLoss

LARGEST_DESIGN = 40_000_000
"""Entries of a half-vectorised design that may be formed."""


@dataclass(frozen=True)
class GapBound:
    """``L - L* <= gap``; ``reason`` says where it comes from, or why there is none."""

    gap: float | None
    reason: str
    least_singular_value: float | None = None


def bound_gap(here: LocalLoss) -> GapBound:
    """The better of the two bounds; ``gap`` None when neither can be computed."""
    x, r = here.loss.x, here.residual
    n, d = x.shape
    s_matrix = (x * r[:, None]).T @ x / n
    size = float(np.linalg.norm(s_matrix))
    # Each entry of S is a sum of n rounded products of rounded residuals.
    squares = np.sum(x**2, axis=1)
    form = np.sum(np.abs(here.phi) * np.abs(here.output), axis=1) + np.abs(here.loss.y)
    slack = ROUNDING * (d + here.loss.width + 4) * float(np.mean(form * squares))
    slack += ROUNDING * float(np.mean(np.abs(r) * squares)) * np.sqrt(n)
    if min(n, num_forms(d)) ** 2 + n * d > LARGEST_DESIGN or n * num_forms(d) > 4 * LARGEST_DESIGN:
        return GapBound(None, f"{n} samples of {d} inputs are too many for the singular values")
    least = least_singular_value(x)
    free = None
    if least is not None:
        free = GapBound(
            n * (size + slack) ** 2 / (2 * least.lower**2),
            f"Lemma 6.1: n |S|^2/(2 s^2) with |S| = {size:.1e}, s = {least.lower:.1e}",
            least.lower,
        )
    cone = None if here.loss.output is None else _cone_bound(here, s_matrix, slack)
    found = [bound for bound in (free, cone) if bound is not None and bound.gap is not None]
    if not found:
        return GapBound(None, "rounding hides which singular values of the design are zero")
    return min(found, key=lambda bound: bound.gap if bound.gap is not None else np.inf)


def _cone_bound(here: LocalLoss, s_matrix: np.ndarray, slack: float) -> GapBound | None:
    """For fixed output weights of one sign: M stays positive (or negative) semidefinite."""
    signs = np.sign(here.output[here.output != 0])
    if not len(signs) or abs(float(np.sum(signs))) < len(signs):
        return None
    sign = float(signs[0])
    x, n = here.loss.x, here.loss.num_samples
    matrix = sign * (here.weights * here.output[:, None]).T @ here.weights
    gradient = sign * s_matrix
    spread = float(np.linalg.eigvalsh(x.T @ x)[0]) * (1 - 1e-9)
    if not spread > 1e-9 * float(np.sum(x**2)):
        return None
    # A better M has sum_i x_i' M x_i <= sum_i (sign y_i) + n sqrt(2 L), and at least its trace times ``spread``.
    trace = max(float(np.sum(sign * here.loss.y)) + n * np.sqrt(2 * float(here.value)), 0.0) / spread
    lowest = float(np.linalg.eigvalsh(gradient)[0]) - slack
    inner = float(np.sum(gradient * matrix)) + slack * float(np.trace(matrix))
    gap = max(inner, 0.0) + max(-lowest, 0.0) * trace
    reason = f"output weights of one sign: <S, M> = {inner:.1e}, least eigenvalue of S {lowest:.1e}"
    return GapBound(gap, reason)
