"""Normal equations of a layout, on the CPU or an accelerator, at some points or summed over any number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from unweave.solve.accelerated import AcceleratedProblem
from unweave.solve.devices import on_accelerator, try_accelerator
from unweave.solve.layout import Layout

Batches = Iterable[tuple[np.ndarray, np.ndarray]]
HOST_PARAMETERS = 1500
"""Up to here LAPACK on the host is done before an accelerator has compiled inverses of this shape."""
MOST_ENTRIES = 4_000_000
"""Entries of one chunk's Jacobian."""


@dataclass(frozen=True)
class NormalEquations:
    """``|r|^2``, ``J'J`` and ``J'r`` as arrays of ``xp``."""

    loss: float
    matrix: Any
    gradient: Any
    num_residuals: int
    xp: ModuleType = np


def expand_normally(layout: Layout, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> NormalEquations:
    """The normal equations at ``theta``, where they are cheaper."""

    def expand() -> NormalEquations:
        import jax.numpy as jnp

        problem = AcceleratedProblem(layout, x, y)
        here = problem.expand(problem.inside(theta), False)
        matrix, gradient = here.normal
        if layout.num_parameters <= HOST_PARAMETERS:
            return NormalEquations(here.loss, np.array(matrix), np.array(gradient), y.size)
        return NormalEquations(here.loss, matrix, gradient, y.size, jnp)

    found = try_accelerator(y.size, layout.num_parameters, expand)
    if found is not None:
        return found
    outputs, jacobian = layout.linearise(theta, x)
    r = (outputs - y).ravel()
    return NormalEquations(float(r @ r), jacobian.T @ jacobian, jacobian.T @ r, y.size)


def sum_normally(layout: Layout, theta: np.ndarray, batches: Batches) -> NormalEquations:
    """The sums over all rows of ``batches``, in chunks of bounded size."""
    size = layout.num_parameters
    matrix, gradient, loss, count = np.zeros((size, size)), np.zeros(size), 0.0, 0
    step = max(1, MOST_ENTRIES // (size * layout.sizes[-1]))
    for x, y in batches:
        for start in range(0, len(x), step):
            outputs, jacobian = layout.linearise(theta, x[start : start + step])
            r = (outputs - y[start : start + step]).ravel()
            matrix += jacobian.T @ jacobian
            gradient += jacobian.T @ r
            loss += float(r @ r)
            count += len(r)
    return NormalEquations(loss, matrix, gradient, count)


def double_precision(xp: ModuleType) -> AbstractContextManager[Any]:
    """The context in which arrays of ``xp`` keep float64."""
    if xp is np:
        return nullcontext()
    return on_accelerator()
