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

import numpy as np
import scipy.linalg

from unweave.refine.layout import Layout
from unweave.refine.levenberg_marquardt import Minimum, Settings, fit_layout, spread_of

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
        plan = plan_removals(layout, best, x, y, stop=affordable)
        size = _up_to_the_gap(plan, affordable)
        while size:
            narrow, indices = layout.without(_kept(layout, plan[:size]))
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
    layout: Layout, fit: Minimum, x: np.ndarray, y: np.ndarray, *, stop: float
) -> list[Removal]:
    """The greedy order of removals, up to the first that is predicted to leave a residual above ``stop``."""
    outputs, jacobian = layout.linearise(fit.parameters, x)
    num_residuals, scale = jacobian.shape[0], spread_of(y)
    hessian = jacobian.T @ jacobian
    ridge = RIDGE * max(float(np.trace(hessian)) / len(hessian), 1e-300)
    hessian[np.diag_indices_from(hessian)] += ridge
    inverse = _inverse(hessian)
    theta = fit.parameters.copy()
    units = [(layer, u) for layer, width in enumerate(layout.hidden) for u in range(width)]
    counts = list(layout.hidden)
    groups = {unit: layout.outgoing(*unit) for unit in units}
    loss = float(np.sum((outputs - y) ** 2))
    gone = np.zeros(0, dtype=int)
    plan: list[Removal] = []
    while units:
        costs = [_cost(inverse, theta, groups[unit]) if counts[unit[0]] > 1 else np.inf for unit in units]
        cheapest = int(np.argmin(costs))
        loss += costs[cheapest]
        predicted = float(np.sqrt(loss / num_residuals)) / scale
        if not predicted <= stop:
            break
        layer, unit = units.pop(cheapest)
        counts[layer] -= 1
        out = groups[layer, unit]
        own = np.setdiff1d(layout.incoming(layer, unit), gone)
        gone = np.concatenate([gone, out, own])
        theta = theta - inverse[:, out] @ np.linalg.solve(inverse[np.ix_(out, out)], theta[out])
        theta[out] = 0.0
        inverse = _conditioned(inverse, np.concatenate([out, own]))
        for other in units:  # a group no longer counts weights into a unit that is gone
            groups[other] = np.setdiff1d(groups[other], own, assume_unique=True)
        plan.append(Removal(layer, unit, theta.copy(), predicted))
    return plan


def _allowed(rms: float, num_removed: int, num_residuals: int) -> float:
    """The residual up to which fewer parameters are the better explanation (Bayesian criterion)."""
    return rms * float(np.exp(0.5 * num_removed * np.log(num_residuals) / num_residuals))


def _cost(inverse: np.ndarray, theta: np.ndarray, group: np.ndarray) -> float:
    if not len(group):
        return 0.0
    cost = float(theta[group] @ np.linalg.solve(inverse[np.ix_(group, group)], theta[group]))
    return max(cost, 0.0) if np.isfinite(cost) else float("inf")


def _conditioned(inverse: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """The inverse of the matrix without the rows and columns ``fixed``, which become zero."""
    block = inverse[np.ix_(fixed, fixed)]
    columns = inverse[:, fixed]
    inverse = inverse - columns @ np.linalg.solve(block, columns.T)
    inverse[fixed], inverse[:, fixed] = 0.0, 0.0
    return inverse


def _inverse(matrix: np.ndarray) -> np.ndarray:
    factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
    return scipy.linalg.cho_solve(factor, np.eye(len(matrix)), check_finite=False)


def _kept(layout: Layout, removals: list[Removal]) -> list[np.ndarray]:
    kept = [np.ones(width, dtype=bool) for width in layout.hidden]
    for removal in removals:
        kept[removal.layer][removal.unit] = False
    return kept
