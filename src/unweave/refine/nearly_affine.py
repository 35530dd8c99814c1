"""Nearly affine answers: a large student is fitted to what bends in them, and explains the affine part at the end.

Units that hardly bend are tied to each other by the affine function they share: the damped steps of a fit to all of the
answers crawl along a canyon (condition numbers of 1e7 for trained logistic networks). Without the best affine function
of x (``Layout.bent``) that canyon is gone. There is no theorem: the network that is left after pruning has to
explain all of the answers, and is judged by that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.refine.layout import Layout, without_affine
from unweave.refine.levenberg_marquardt import Minimum, Settings, fit_layout
from unweave.refine.prune import prune

NEARLY_AFFINE = 0.3
"""Answers are nearly affine that bend less than this, relative to their spread."""
CHEAP = 1e8
"""Students of fewer residuals times squared parameters are quickly pruned as they are."""
FINE = 0.01
"""Second difference of these fits, as a fraction of the step."""
LONG, PATIENCE = 4, 60
"""A promising fit has so many times the usual number of steps, while its residual halves over so many of them."""


def is_fitted_bent(layout: Layout, num_residuals: int, bend: float, floor: float) -> bool:
    """Whether exact answers of this bend are better fitted so; forms with skips keep their affine part apart anyway."""
    costly = num_residuals * layout.num_parameters**2 > CHEAP
    return costly and bend < NEARLY_AFFINE and floor == 0 and not layout.skips


def best_affine(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (inputs + 1, outputs) of the best affine function of ``u``, and what it leaves of ``v``."""
    design = np.hstack([u, np.ones((len(u), 1))])
    coefficients = np.linalg.lstsq(design, v, rcond=None)[0]
    return coefficients, v - design @ coefficients


def narrow_down_bent(
    layout: Layout,
    start: Minimum,
    u: np.ndarray,
    v: np.ndarray,
    *,
    accept: float,
    refit: Settings,
    max_steps: int,
) -> tuple[Layout, Minimum]:
    """Converge on what bends at full width, prune, and go back to all of the answers.

    Early removals, the usual way, end in other minima of these ill-conditioned fits.
    """
    bent, seen, refit = replace(layout, bent=True), without_affine(u, v), replace(refit, difference=FINE)
    patient = replace(
        refit,
        target=0.1 * accept,
        max_steps=LONG * max_steps,
        stall_above=0.0,
        stall_gain=0.5,
        stall_steps=PATIENCE,
        patience=8,
    )
    fit = fit_layout(bent, start.parameters, u, seen, settings=patient)
    if fit.rms <= accept:
        bent, fit = prune(bent, fit, u, seen, accept=accept, settings=refit, deadline=refit.deadline)
    layout = replace(bent, bent=False)
    return layout, fit_layout(layout, fit.parameters, u, v, settings=refit)
