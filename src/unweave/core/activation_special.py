"""Special functions in either array namespace."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special

from unweave.core.activation import Array


def special(name: str, xp: ModuleType) -> Callable[[Array], Array]:
    if xp is np:
        return getattr(scipy.special, name)
    import jax.scipy.special

    return getattr(jax.scipy.special, name)


def sigmoid(z: Any, xp: Any) -> Any:
    return special("expit", xp)(z)


def sigmoid_first(z: Any, xp: Any) -> Any:
    s = sigmoid(z, xp)
    return s * (1 - s)
