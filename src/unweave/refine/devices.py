"""Where a fit runs: NumPy and LAPACK on the CPU, or the same formulas under ``jit`` on an accelerator.

The CPU is the default and needs no compilation. An accelerator is asked for only when one is present and the
normal equations are large enough to repay a compilation of a few seconds.
"""

from __future__ import annotations

import os
from functools import lru_cache

WORTH = 2e9
"""Multiplications in one set of normal equations from which an accelerator pays."""


def use_accelerator(num_residuals: int, num_parameters: int) -> bool:
    """Whether this size should go to the accelerator; ``UNWEAVE_DEVICE=cpu`` forbids it."""
    if num_residuals * num_parameters**2 < WORTH or os.environ.get("UNWEAVE_DEVICE") == "cpu":
        return False
    return has_accelerator()


@lru_cache(maxsize=1)
def has_accelerator() -> bool:
    """Whether JAX sees anything but the CPU."""
    import jax

    return jax.default_backend() != "cpu"
