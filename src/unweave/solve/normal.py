"""Normal equations of a layout, on the CPU or an accelerator, for the stages that work on ``J'J`` directly."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from unweave.solve.accelerated import AcceleratedProblem
from unweave.solve.devices import use_accelerator
from unweave.solve.layout import Layout

HOST_PARAMETERS = 1500
"""Up to here LAPACK on the host is done before an accelerator has compiled inverses of this shape."""


@dataclass(frozen=True)
class NormalEquations:
    """``|r|^2``, ``J'J`` and ``J'r`` as arrays of ``xp``."""

    loss: float
    matrix: Any
    gradient: Any
    xp: ModuleType


def expand_normally(layout: Layout, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> NormalEquations:
    """The normal equations at ``theta``, where they are cheaper."""
    if use_accelerator(y.size, layout.num_parameters):
        import jax.numpy as jnp

        problem = AcceleratedProblem(layout, x, y)
        here = problem.expand(problem.inside(theta), False)
        matrix, gradient = here.normal
        if layout.num_parameters <= HOST_PARAMETERS:
            return NormalEquations(here.loss, np.array(matrix), np.array(gradient), np)
        return NormalEquations(here.loss, matrix, gradient, jnp)
    outputs, jacobian = layout.linearise(theta, x)
    r = (outputs - y).ravel()
    return NormalEquations(float(r @ r), jacobian.T @ jacobian, jacobian.T @ r, np)


def double_precision(xp: ModuleType) -> AbstractContextManager:
    """The context in which arrays of ``xp`` keep float64."""
    if xp is np:
        return nullcontext()
    import jax

    return jax.enable_x64(True)
