"""Models written in JAX as oracles: Equinox and Flax modules (NNX, or Linen bound to its parameters), jitted functions.

Equinox modules answer one row, so they are mapped over the batch. JAX compiles for every new shape, and methods ask
batches of every size: batches are padded to a power of two (at least 16), so that few programs are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.core.domains import Domain
from unweave.evidence.data import Data
from unweave.models.python_callable import CallableOracle, from_callable

LEAST, MOST = 16, 8192
"""Rows of the smallest and of the largest batch that is compiled for."""


def from_jax(
    model: Any,
    *,
    one_row: bool = False,
    name: str | None = None,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from a function on JAX arrays; ``one_row`` says that it answers single rows."""
    import jax

    name = name or f"JAX model {getattr(model, '__name__', type(model).__name__)}"
    size = _first_width(model) if input_size is None else input_size
    answer = jax.vmap(model) if one_row else model
    function = in_padded_batches(answer)
    return from_callable(function, input_size=size, output_size=output_size, name=name, domain=domain)


def in_padded_batches(function: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """``function`` of a batch, called with batches of few different sizes."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        pieces = []
        for start in range(0, len(x), MOST):
            rows = x[start : start + MOST]
            size = min(max(LEAST, 1 << (len(rows) - 1).bit_length()), MOST)
            padded = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])
            pieces.append(np.asarray(function(padded))[: len(rows)])
        return np.concatenate(pieces)

    return evaluate


def _first_width(model: Any) -> int | None:
    """The number of inputs of the first dense layer a module holds, where it tells."""
    for layer in _layers(model):
        for attribute in ("in_size", "in_features"):
            width = getattr(layer, attribute, None)
            if isinstance(width, int):
                return width
    return None


def _layers(model: Any):
    """The module and what it holds, outermost and first first."""
    yield model
    parts = vars(model).values() if hasattr(model, "__dict__") else ()
    for part in parts:
        for item in part if isinstance(part, list | tuple) else (part,):
            if hasattr(item, "in_features") or hasattr(item, "in_size") or hasattr(item, "layers"):
                yield from _layers(item)
