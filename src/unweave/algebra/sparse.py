"""Sparse vectors from few linear measurements: orthogonal matching pursuit.

``y = G w`` with w of k non-zeros among d and G of m random rows: columns are added greedily by their
correlation with the residual, each time with exact least squares on the support. O(k log d) random rows
suffice with high probability (Tropp and Gilbert 2007); whether they did is seen on rows that were held out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SparseVector:
    """``values`` on ``support``; ``residual`` is the norm of what is left relative to that of y."""

    support: np.ndarray
    values: np.ndarray
    residual: float

    def dense(self, size: int) -> np.ndarray:
        full = np.zeros(size)
        full[self.support] = self.values
        return full


def recover_sparse(
    rows: np.ndarray, y: np.ndarray, *, tolerance: float = 1e-11, max_support: int | None = None
) -> SparseVector:
    """Orthogonal matching pursuit until the relative residual is below ``tolerance``.

    ``max_support`` defaults to half the number of rows, beyond which nothing is determined.
    """
    limit = min(len(rows) // 2 if max_support is None else max_support, rows.shape[1])
    norms = np.linalg.norm(rows, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    size = max(float(np.linalg.norm(y)), 1e-300)
    support: list[int] = []
    residual = np.array(y, dtype=np.float64)
    frame = np.empty((limit, len(rows)))  # orthonormal, spans the chosen columns
    while len(support) < limit and np.linalg.norm(residual) > tolerance * size:
        scores = np.abs(residual @ rows) / norms
        scores[support] = -1.0
        support.append(int(np.argmax(scores)))
        column, known = rows[:, support[-1]], frame[: len(support) - 1]
        for _ in range(2):
            column = column - (known @ column) @ known
        frame[len(support) - 1] = column / max(float(np.linalg.norm(column)), 1e-300)
        residual = residual - (frame[len(support) - 1] @ residual) * frame[len(support) - 1]
    values = np.linalg.lstsq(rows[:, support], y, rcond=None)[0]
    residual = y - rows[:, support] @ values
    keep = np.abs(values) > 1e-9 * np.max(np.abs(values), initial=0.0)
    if not np.all(keep):
        support = [j for j, kept in zip(support, keep, strict=True) if kept]
        values = np.linalg.lstsq(rows[:, support], y, rcond=None)[0]
        residual = y - rows[:, support] @ values
    return SparseVector(np.array(support, dtype=int), values, float(np.linalg.norm(residual)) / size)
