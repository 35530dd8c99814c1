"""What a caller may give: each function returns the value in its own type, or refuses it in one line with its name."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.errors import InputError

MOST = 2**62
"""Larger whole numbers count nothing that fits into a computer."""


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, ``least`` or more; truth values and 3.0 are none."""
    counts = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not counts or not least <= value <= MOST:
        kind = "positive whole number" if least == 1 else f"whole number, {least} or more"
        raise InputError(f"{name}={shown(value)}: give a {kind}")
    return int(value)


def number(name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf) -> float:
    """A finite number, at least ``least`` and larger than ``above``."""
    kind = "positive number" if above == 0 else "number"
    bound = f", {least:g} or more" if least > -math.inf else ""
    try:
        found = float(value) if np.ndim(value) == 0 and not isinstance(value, str | bytes) else math.nan
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (math.isfinite(found) and found > above and found >= least):
        raise InputError(f"{name}={shown(value)}: give a {kind}{bound}")
    return found


def numbers(name: str, value: Any) -> np.ndarray:
    """Numbers of any shape, as float64."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise InputError(f"{name}={shown(value)}: give real numbers")
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name}={shown(value)}: give real numbers") from error


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={shown(value)}: give True or False")
    return bool(value)


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    """One of the words that are known."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}={shown(value)}: give one of {', '.join(known)}")
    return value


def listener(name: str, value: Any) -> None:
    """A function to call on the way, or None."""
    if value is not None and not callable(value):
        raise InputError(f"{name}={shown(value)}: give a function, or None")


def file(name: str, value: Any) -> Path:
    """The path of a file, there or not."""
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{name}={shown(value)}: give the path of a file")
    return Path(value)


def shown(value: Any) -> str:
    """A value in a message: short, and on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of more digits than Python prints, an object that cannot tell
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
