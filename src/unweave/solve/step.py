"""One step of Levenberg-Marquardt, the same on the host, under ``jit`` on a device and for a stack of runs.

A damped solve gives the step ``v``; it is kept within reach of the point, and half its second-order correction bends it
along the geodesic (Transtrum and Sethna 2012). What it promises is read off the linear model at the step that is
taken, ``|r|^2 - |r + J v|^2``, which holds for any step, shortened or not. Nielsen's rule (1999) compares it with what was
gained. All formulas take the array namespace ``xp`` and act on the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

Array = Any
REACH = 2.0
"""A step is no longer than this multiple of one more than the length of the parameters."""


def propose(
    theta: Array,
    r: Array,
    solve: Callable[[Array], Array],
    product: Callable[[Array], Array],
    residual: Callable[[Array], Array],
    xp: ModuleType,
    *,
    difference: Array = 0.1,
    longest_bend: Array | None = None,
) -> tuple[Array, Array, Array]:
    """The trial point, its loss and the gain that was promised.

    ``solve`` is ``b -> (J'J + ...)^-1 J'b`` and ``product`` is ``v -> J v``. The step is bent, by a second difference over
    the fraction ``difference`` of it, where the bend is shorter than ``longest_bend`` times the step; None: never.
    """
    v = within_reach(-solve(r), theta, xp)
    slope = product(v)
    promised = -xp.vecdot(slope, 2 * r + slope)
    trial = theta + v
    if longest_bend is not None:
        moved = (residual(theta + difference * v) - r) / difference
        bend = -solve((2 / difference) * (moved - slope))
        gentle = length(bend, xp) < longest_bend * length(v, xp)
        trial = trial + xp.where(gentle[..., None], 0.5 * bend, 0.0)
    after = residual(trial)
    return trial, xp.vecdot(after, after), promised


def within_reach(v: Array, theta: Array, xp: ModuleType) -> Array:
    """The step, shortened where the linear model has nothing to say about its end."""
    share = REACH * (1.0 + length(theta, xp)) / xp.maximum(length(v, xp), 1e-300)
    return v * xp.minimum(1.0, share)[..., None]


def length(v: Array, xp: ModuleType) -> Array:
    return xp.sqrt(xp.vecdot(v, v))


def eased(damping: Array, ratio: Array, least: float, xp: ModuleType) -> Array:
    """The damping after a step that gained ``ratio`` of what it promised."""
    return xp.maximum(damping * xp.maximum(1 / 3, 1 - (2 * xp.minimum(ratio, 1.0) - 1) ** 3), least)
