"""The common eigenvectors of two symmetric matrices ``A' D A`` and ``A' E A``: the rows of A."""

from __future__ import annotations

import numpy as np


def eigen_pencil(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors (columns) of ``first second^-1`` for symmetric matrices."""
    return np.linalg.eig(np.linalg.solve(second, first).T)
