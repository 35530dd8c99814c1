"""Conjugate gradients: ``A^-1 b`` for a positive definite A given by its products, as roughly as is wanted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Linear = Callable[[np.ndarray], np.ndarray]


def conjugate_gradients(
    multiply: Linear, b: np.ndarray, *, enough: float, most: int = 200, precondition: Linear = np.asarray
) -> np.ndarray:
    """Until the (preconditioned) residual is the fraction ``enough`` of the first, ``most`` products at most."""
    solution, rest = np.zeros_like(b), b
    direction = steepest = precondition(rest)
    size = first = float(rest @ steepest)
    for _ in range(most):
        if not size > enough**2 * first or not np.isfinite(size):
            break
        image = multiply(direction)
        step = size / float(direction @ image)
        solution, rest = solution + step * direction, rest - step * image
        steepest = precondition(rest)
        size, before = float(rest @ steepest), size
        direction = steepest + (size / before) * direction
    return solution
