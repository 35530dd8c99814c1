"""From a promising fit to minimal width: prune, and where that is refused converge first.

Surplus units make the last digits of a fit slow, and early removals may take units of little effect with them: so
pruning, converging and walking down alternate, each bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unweave.core import clock
from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.nearly_affine import narrow_down_bent
from unweave.students.prune import AFFORDABLE, EXACT, plan_removals, prune, units_kept

STALLED = 2e-3
"""A start that stops gaining above this residual, relative to that of the best affine function, is given up; one that
runs out of steps below it is pruned as a promising one."""
MAX_WALK = 8
"""Rounds of removals that a slowly converging student may take."""
NEARER, LONG = 0.3, 4
"""A student that pruning brought below this fraction of its residual, but not to the end, has so many times the
usual number of steps at full width. One of another activation stays where it is."""

UNSURE = 3.0
"""The noise of answers is measured within this factor."""
ROUNDED = 1e-5
"""Noise below this part of what bends is rounding: until a student comes near it, its answers are as good as exact."""


def narrow_down(
    layout: Layout,
    start: Minimum,
    u: np.ndarray,
    v: np.ndarray,
    *,
    bend: float,
    floor: float,
    max_steps: int,
    deadline: float,
    bent: bool = False,
) -> tuple[Layout, Minimum]:
    """Prune from a promising fit; where that is refused, converge at the present widths first, then prune.

    ``bent``: ``start`` was fitted without the affine part, and so the student converges (``nearly_affine``).
    """
    accept = max(EXACT, 1.03 * floor)
    refit = Settings(
        target=max(1e-13, 0.3 * floor),
        max_steps=60,
        damping=1e-3,
        stall_above=STALLED * bend,
        inexact=floor == 0,  # noisy answers want the very minimum
        deadline=deadline,
    )
    if bent:
        return narrow_down_bent(layout, start, u, v, accept=accept, refit=refit, max_steps=max_steps)
    course = _Course(u, v, bend, accept, refit, max_steps)
    if floor == 0:
        return course.narrow(layout, start)
    if start.rms > UNSURE * floor and floor < ROUNDED * bend:
        early = replace(course, accept=UNSURE * floor, refit=replace(refit, inexact=True))
        layout, start = early.narrow(layout, start)
    refit = replace(refit, stationary_gain=1e-3, patience=3)
    start = fit_layout(layout, start.parameters, u, v, settings=refit)
    affordable = AFFORDABLE * bend
    return prune(layout, start, u, v, accept=accept, settings=refit, noisy=True, affordable=affordable)


@dataclass(frozen=True)
class _Course:
    """Exact answers, or rounded ones of a student that has far to go to the rounding."""

    u: np.ndarray
    v: np.ndarray
    bend: float
    accept: float
    refit: Settings
    max_steps: int

    def narrow(self, layout: Layout, start: Minimum) -> tuple[Layout, Minimum]:
        """Prune; where that is refused, walk down; last, converge at full width."""
        full = replace(self.refit, max_steps=self.max_steps, stall_steps=40, patience=8)
        affordable = AFFORDABLE * self.bend
        cut = partial(
            prune, x=self.u, y=self.v, accept=self.accept, settings=self.refit, affordable=affordable
        )
        narrow, fit = cut(layout, start)
        if fit.rms <= self.accept:
            return narrow, fit
        narrow, fit = _walk_down(narrow, fit, self.u, self.v, self.accept, affordable, full)
        if fit.rms <= self.accept:
            return cut(narrow, fit)
        if fit.rms < NEARER * start.rms and clock.now() < self.refit.deadline:
            # units of little effect may have gone with the surplus ones: converge at full width, however slowly
            long = replace(full, max_steps=LONG * self.max_steps)
            whole = fit_layout(layout, start.parameters, self.u, self.v, settings=long)
            if whole.rms <= self.accept:
                return cut(layout, whole)
        return narrow, fit


def _walk_down(
    layout: Layout,
    fit: Minimum,
    u: np.ndarray,
    v: np.ndarray,
    accept: float,
    affordable: float,
    settings: Settings,
) -> tuple[Layout, Minimum]:
    """Converge where surplus units make convergence slow: after a long fit, drop units as long as the narrower
    student does no worse with the same effort, and stop at the first one that is exact.
    """
    fit = fit_layout(layout, fit.parameters, u, v, settings=settings)
    for _ in range(MAX_WALK):
        if fit.rms <= accept or clock.now() > settings.deadline:
            break
        plan = plan_removals(layout, fit, u, v, stop=affordable, deadline=settings.deadline)
        while plan:
            narrow, indices = layout.without(units_kept(layout, plan))
            trial = fit_layout(narrow, plan[-1].parameters[indices], u, v, settings=settings)
            if trial.rms <= max(accept, fit.rms) or clock.now() > settings.deadline:
                break
            plan = plan[: len(plan) // 2]
        if not plan or trial.rms > max(accept, fit.rms):
            break
        layout, fit = narrow, trial
    return layout, fit
