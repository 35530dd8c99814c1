"""Prune a fitted over-wide student to minimal width: optimal brain surgeon on whole units, then refit.

Near a fit of residual r the loss is quadratic with matrix ``H = J'J``. Removing a unit sets the weights
S it feeds to zero; with the best compensation by all other parameters this costs
``theta_S' (H^-1_SS)^-1 theta_S`` (Hassibi and Stork 1993). Duplicated, dead, constant and linear-pair units
cost next to nothing however they arose, so the same rule merges and prunes. After each removal the inverse is
conditioned on the removed parameters, so a whole batch needs one inverse. A batch stands if the refit brings
the residual back; otherwise it is halved, and a single unit that cannot go means the widths are minimal.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from unweave.refine.layout import Layout
from unweave.refine.levenberg_marquardt import Minimum, Settings, fit_layout, spread_of
from unweave.refine.normal import double_precision, expand_normally

RIDGE = 1e-10
AFFORDABLE = 2e-2


@dataclass(frozen=True)
class Removal:
    """One greedy removal: which unit, the parameters after it, and the residual it is predicted to leave."""

    layer: int
    unit: int
    parameters: np.ndarray
    predicted: float


def prune(
    layout: Layout,
    start: Minimum,
    x: np.ndarray,
    y: np.ndarray,
    *,
    accept: float,
    settings: Settings,
    noisy: bool = False,
    affordable: float = AFFORDABLE,
    deadline: float = float("inf"),
) -> tuple[Layout, Minimum]:
    """Remove units while refits return to the relative residual ``accept``.

    With ``noisy`` answers a removal stands while the Bayesian information criterion prefers it. Every refit
    is bounded by ``settings``; each accepted batch removes a unit and a refused one is halved, so the
    number of refits is at most (units) x log2(units).
    """
    best = start
    for _ in range(sum(layout.hidden)):
        if time.monotonic() > deadline:
            break
        plan = plan_removals(layout, best, x, y, stop=affordable, deadline=deadline)
        size = _up_to_the_gap(plan, affordable)
        while size and time.monotonic() <= deadline:
            narrow, indices = layout.without(units_kept(layout, plan[:size]))
            fit = fit_layout(narrow, plan[size - 1].parameters[indices], x, y, settings=settings)
            num_removed = layout.num_parameters - narrow.num_parameters
            limit = _allowed(best.rms, num_removed, y.size) if noisy else accept
            if fit.rms <= max(limit, settings.target):
                break
            size //= 2
        else:
            break
        layout, best = narrow, fit
    return layout, best


def _up_to_the_gap(plan: list[Removal], stop: float) -> int:
    """How many removals to try at once: up to the largest jump of the predicted residual."""
    if not plan:
        return 0
    predicted = np.array([removal.predicted for removal in plan] + [stop])
    return int(np.argmax(predicted[1:] / np.maximum(predicted[:-1], 1e-300))) + 1


def plan_removals(
    layout: Layout,
    fit: Minimum,
    x: np.ndarray,
    y: np.ndarray,
    *,
    stop: float,
    deadline: float = float("inf"),
) -> list[Removal]:
    """The greedy order of removals, up to the first that is predicted to leave a residual above ``stop``.

    Removed parameters stay in the inverse as an identity block, so that shapes do not change.
    """
    equations = expand_normally(layout, fit.parameters, x, y)
    xp, scale = equations.xp, spread_of(y)
    outgoing = [
        np.stack([layout.outgoing(layer, u) for u in range(width)])
        for layer, width in enumerate(layout.hidden)
    ]
    alive = [np.ones(width, dtype=bool) for width in layout.hidden]
    loss = equations.loss
    plan: list[Removal] = []
    with double_precision(xp):
        inverse = _ridge_inverse(equations.matrix, xp)
        theta = xp.asarray(fit.parameters)
        for _ in range(sum(layout.hidden)):
            costs = [_costs(inverse, theta, groups, xp) for groups in outgoing]
            costs = [np.where(a & (a.sum() > 1), c, np.inf) for a, c in zip(alive, costs, strict=True)]
            layer = int(np.argmin([c.min() for c in costs]))
            unit = int(np.argmin(costs[layer]))
            loss += float(costs[layer][unit])
            predicted = float(np.sqrt(loss / y.size)) / scale
            if not predicted <= stop or time.monotonic() > deadline:
                break
            alive[layer][unit] = False
            out = outgoing[layer][unit]
            columns = inverse[:, out]
            theta = theta - columns @ xp.linalg.solve(columns[out], theta[out])
            fixed = np.union1d(out, layout.incoming(layer, unit))
            theta = _put(theta, fixed, 0.0, xp)
            inverse = _conditioned(inverse, fixed, xp)
            plan.append(Removal(layer, unit, np.array(theta), predicted))
    return plan


def _allowed(rms: float, num_removed: int, num_residuals: int) -> float:
    """The residual up to which fewer parameters are the better explanation (Bayesian criterion)."""
    return rms * float(np.exp(0.5 * num_removed * np.log(num_residuals) / num_residuals))


def _ridge_inverse(matrix: Any, xp: ModuleType) -> Any:
    """The inverse with the least ridge that leaves it positive on the diagonal."""
    unit = max(float(xp.trace(matrix)) / len(matrix), 1e-300)
    for factor in (1.0, 1e2, 1e4):
        inverse = xp.linalg.inv(matrix + factor * RIDGE * unit * xp.eye(len(matrix)))
        if float(xp.min(xp.diag(inverse))) > 0:
            break
    return inverse


def _costs(inverse: Any, theta: Any, groups: np.ndarray, xp: ModuleType) -> np.ndarray:
    """What removing each unit of a layer costs, given the weights it feeds."""
    values = theta[groups]
    blocks = inverse[groups[:, :, None], groups[:, None, :]]
    costs = np.array(xp.sum(values * xp.linalg.solve(blocks, values[:, :, None])[:, :, 0], axis=1))
    return np.where(np.isfinite(costs), np.maximum(costs, 0.0), np.inf)


def _conditioned(inverse: Any, fixed: np.ndarray, xp: ModuleType) -> Any:
    """The inverse of the matrix without the rows and columns ``fixed``, which become those of the identity."""
    columns = inverse[:, fixed]
    inverse = inverse - columns @ xp.linalg.solve(columns[fixed], columns.T)
    inverse = _put(inverse, fixed, 0.0, xp)
    inverse = _put(inverse, (slice(None), fixed), 0.0, xp)
    return _put(inverse, (fixed, fixed), 1.0, xp)


def _put(array: Any, where: Any, value: float, xp: ModuleType) -> Any:
    if xp is not np:
        return array.at[where].set(value)
    array[where] = value
    return array


def units_kept(layout: Layout, removals: list[Removal]) -> list[np.ndarray]:
    """Which units are left after the removals, one array of booleans a hidden layer."""
    kept = [np.ones(width, dtype=bool) for width in layout.hidden]
    for removal in removals:
        kept[removal.layer][removal.unit] = False
    return kept
