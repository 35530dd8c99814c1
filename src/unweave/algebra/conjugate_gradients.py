"""Conjugate gradients: ``A^-1 b``, or least squares, for an A given by its products, as roughly as is wanted."""

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


def shortest_least_squares(
    multiply: Linear, adjoint: Linear, b: np.ndarray, *, enough: float, least: float = 0.0, most: int = 200
) -> np.ndarray:
    """The shortest v that minimises ``|A v - b|`` (CGLS): squaring A costs no digits.

    Until ``|A'(A v - b)|`` is the fraction ``enough`` of the first or its square ``least``, ``most`` products with A at
    most.
    """
    rest, gradient = b, adjoint(b)
    solution, direction = np.zeros_like(gradient), gradient
    size = first = float(gradient @ gradient)
    for _ in range(most):
        if not size > max(enough**2 * first, least) or not np.isfinite(size):
            break
        image = multiply(direction)
        step = size / float(image @ image)
        solution, rest = solution + step * direction, rest - step * image
        gradient = adjoint(rest)
        size, before = float(gradient @ gradient), size
        direction = gradient + (size / before) * direction
    return solution
