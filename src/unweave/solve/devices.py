"""Where a fit runs: NumPy and LAPACK on the CPU, or the same formulas under ``jit`` on an accelerator.

The CPU is the default and needs no compilation. An accelerator is asked for only when one is present and the
normal equations are large enough to repay a compilation of a few seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from unweave.core import clock
from unweave.core.errors import DeviceError
from unweave.core.memory import available_memory

WORTH = 2e9
"""Multiplications in one set of normal equations from which an accelerator pays."""

SHARE = 0.8
"""Of the memory that one fit may take."""


_refused = [float("inf")]
"""Size of the smallest normal equations that an accelerator could not hold in this process."""

Result = TypeVar("Result")


def use_accelerator(num_residuals: int, num_parameters: int) -> bool:
    """Whether this size should go to the accelerator; ``UNWEAVE_DEVICE=cpu`` forbids it."""
    size = float(num_residuals) * num_parameters**2
    if not WORTH <= size < _refused[0] or os.environ.get("UNWEAVE_DEVICE") == "cpu":
        return False
    return has_accelerator()


def try_accelerator(num_residuals: int, num_parameters: int, run: Callable[[], Result]) -> Result | None:
    """What ``run`` finds on the accelerator; None where this size belongs to the host, or fails there."""
    if not use_accelerator(num_residuals, num_parameters):
        return None
    try:
        return run()
    except DeviceError:
        refuse(num_residuals, num_parameters)
        return None


def refuse(num_residuals: int, num_parameters: int) -> None:
    """From now on this size and larger ones belong to the host."""
    _refused[0] = min(_refused[0], float(num_residuals) * num_parameters**2)


@contextmanager
def on_accelerator() -> Iterator[None]:
    """JAX in double precision; whatever fails there is one of our errors."""
    import jax

    try:
        with clock.waiting(), jax.enable_x64(True):
            yield
    except jax.errors.JaxRuntimeError as error:
        first = str(error).strip().partition("\n")[0]
        raise DeviceError(
            f"the accelerator failed ({first}); set UNWEAVE_DEVICE=cpu to do without"
        ) from error


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
    return available_memory()


@lru_cache(maxsize=1)
def has_accelerator() -> bool:
    """Whether JAX is installed and sees anything but the CPU."""
    try:
        import jax
    except ImportError:
        return False
    return jax.default_backend() != "cpu"
