"""Where a fit runs: NumPy and LAPACK on the CPU, or the same formulas under ``jit`` on an accelerator.

The CPU is the default and needs no compilation. An accelerator is asked for only when one is present and the
normal equations are large enough to repay a compilation of a few seconds.
"""

from __future__ import annotations

import os
from functools import lru_cache

WORTH = 2e9
"""Multiplications in one set of normal equations from which an accelerator pays."""

SHARE = 0.8
"""Of the memory that one fit may take."""


def use_accelerator(num_residuals: int, num_parameters: int) -> bool:
    """Whether this size should go to the accelerator; ``UNWEAVE_DEVICE=cpu`` forbids it."""
    if num_residuals * num_parameters**2 < WORTH or os.environ.get("UNWEAVE_DEVICE") == "cpu":
        return False
    return has_accelerator()


def fits_memory(num_residuals: int, num_parameters: int) -> bool:
    """Whether one step of a fit of this size fits where it would run: Jacobian, normal matrix, their copies."""
    needed = 8.0 * (2.5 * num_residuals * num_parameters + 4.0 * num_parameters**2)
    return needed <= SHARE * _memory(use_accelerator(num_residuals, num_parameters))


@lru_cache(maxsize=2)
def _memory(accelerated: bool) -> float:
    """Bytes of the accelerator, or of the machine; infinite where neither says."""
    if accelerated:
        import jax

        return float((jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", float("inf")))
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


@lru_cache(maxsize=1)
def has_accelerator() -> bool:
    """Whether JAX is installed and sees anything but the CPU."""
    try:
        import jax
    except ImportError:
        return False
    return jax.default_backend() != "cpu"
