"""Prune a fitted over-wide student to minimal width: optimal brain surgeon on whole units, then refit.

Each unit has a cost in the quadratic model of the loss (``surgeon``). Duplicated, dead, constant and
linear-pair units cost next to nothing however they arose, so the same rule merges and prunes. A batch stands
if the refit brings the residual back; otherwise it is halved, and a single unit that cannot go means the
widths are minimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import clock
from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.layout import Layout
from unweave.students.surgeon import open_surgery

AFFORDABLE = 2e-2
EXACT = 1e-11
"""Largest relative residual of an exact fit before the polish."""
BOLD = 1e3
"""Before a student is exact, removals go together that are predicted to leave so many times its residual."""
HOPELESS = 1.0
"""A batch is halved without a refit that leaves more than this: the quadratic model has nothing to say about it."""
PROGRESS = 0.5
"""A refit that lowers the residual to this fraction stands although it is not exact yet."""


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
    max_tries: int = 64,
) -> tuple[Layout, Minimum]:
    """Remove units while refits return to the relative residual ``accept``, or lower it markedly.

    With ``noisy`` answers a removal stands while the Bayesian information criterion prefers it. Every refit
    is bounded by ``settings``; each accepted batch removes a unit and a refused one is halved, ``max_tries``
    of them in a row at most, so the number of refits is at most (units) x log2(units).
    """
    best = start
    for _ in range(sum(layout.hidden)):
        if clock.now() > settings.deadline:
            break
        stop = affordable if noisy or best.rms <= max(EXACT, accept) else min(affordable, BOLD * best.rms)
        plan = plan_removals(layout, best, x, y, stop=stop, deadline=settings.deadline)
        size = _up_to_the_gap(plan, stop)
        num_tries = 0
        while size and num_tries < max_tries and clock.now() <= settings.deadline:
            narrow, indices = layout.without(units_kept(layout, plan[:size]))
            adjusted = plan[size - 1].parameters[indices]
            if size > 1 and not _residual(narrow, adjusted, x, y) < HOPELESS:
                size //= 2
                continue
            fit, num_tries = fit_layout(narrow, adjusted, x, y, settings=settings), num_tries + 1
            num_removed = layout.num_parameters - narrow.num_parameters
            limit = _allowed(best.rms, num_removed, y.size) if noisy else accept
            if fit.rms <= max(limit, settings.target) or (not noisy and fit.rms < PROGRESS * best.rms):
                break
            size //= 2
        else:
            break
        layout, best = narrow, fit
    return layout, best


def _residual(layout: Layout, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean((layout.forward(parameters, x) - y) ** 2))) / spread_of(y)


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
    """The greedy order of removals, up to the first that is predicted to leave a residual above ``stop``."""
    surgeon, scale = open_surgery(layout, fit.parameters, x, y), spread_of(y)
    alive = [np.ones(width, dtype=bool) for width in layout.hidden]
    loss = surgeon.loss
    plan: list[Removal] = []
    for _ in range(sum(layout.hidden)):
        costs = [np.where(a & (a.sum() > 1), c, np.inf) for a, c in zip(alive, surgeon.costs(), strict=True)]
        layer = int(np.argmin([c.min() for c in costs]))
        unit = int(np.argmin(costs[layer]))
        loss += float(costs[layer][unit])
        predicted = float(np.sqrt(loss / y.size)) / scale
        if not predicted <= stop or clock.now() > deadline:
            break
        alive[layer][unit] = False
        plan.append(Removal(layer, unit, surgeon.remove(layer, unit), predicted))
    return plan


def _allowed(rms: float, num_removed: int, num_residuals: int) -> float:
    """The residual up to which fewer parameters are the better explanation (Bayesian criterion)."""
    return rms * float(np.exp(0.5 * num_removed * np.log(num_residuals) / num_residuals))


def units_kept(layout: Layout, removals: list[Removal]) -> list[np.ndarray]:
    """Which units are left after the removals, one array of booleans a hidden layer."""
    kept = [np.ones(width, dtype=bool) for width in layout.hidden]
    for removal in removals:
        kept[removal.layer][removal.unit] = False
    return kept
