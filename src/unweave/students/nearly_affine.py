"""Nearly affine answers: a large student is fitted to what bends in them, and explains the affine part at the end.

Units that hardly bend are tied to each other by the affine function they share: the damped steps of a fit to all of the
answers crawl along a canyon (condition numbers of 1e7 for trained logistic networks). Without the best affine function
of x (``Layout.bent``) that canyon is gone. There is no theorem: the network that is left after pruning has to
explain all of the answers, and is judged by that.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.layout import Layout, without_affine
from unweave.students.prune import prune

NEARLY_AFFINE = 0.3
"""Answers are nearly affine that bend less than this, relative to their spread."""
CHEAP = 1e8
"""Students of fewer residuals times squared parameters are quickly pruned as they are."""
FINE = 0.01
"""Second difference of these fits, as a fraction of the step."""
CONVERGED, PRUNABLE = 1e-9, 1e-6
"""Residuals at full width, relative to what bends: enough of it, where surplus units make the rest slow; and the
largest that removals start from."""
HARMLESS = 3.0
"""Removals from such a student stand that leave no more than so many times its residual: surplus units make the
last digits slow."""
TRIES = 3
"""Batches of removals that are tried at a time before a student has converged."""
LONG, PATIENCE = 6, 120
"""A promising fit has so many times the usual number of steps, while its residual halves over so many of them."""


def is_fitted_bent(layout: Layout, num_residuals: int, bend: float, floor: float) -> bool:
    """Whether exact answers of this bend are better fitted so; forms with skips keep their affine part apart anyway."""
    costly = num_residuals * layout.num_parameters**2 > CHEAP
    return costly and bend < NEARLY_AFFINE and floor == 0 and not layout.skips


def is_nearly_affine(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the answers hardly bend over these points, of which there are enough to tell."""
    return len(x) > 2 * x.shape[1] and bend_of(x, y) < NEARLY_AFFINE


def bend_of(u: np.ndarray, v: np.ndarray) -> float:
    """The residual of the best affine function, relative to the spread: what there is to explain by units."""
    return float(np.sqrt(np.mean(best_affine(u, v)[1] ** 2))) / spread_of(v)


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
    """Prune at once if that leaves an exact student; else converge on what bends at full width, and prune then.

    Early removals, the usual way, often take units of little effect with the surplus ones. The network that is left
    goes back to all of the answers.
    """
    bent, seen, refit = replace(layout, bent=True), without_affine(u, v), replace(refit, difference=FINE)
    cut = partial(prune, x=u, y=seen, settings=refit)
    narrow, fit = cut(bent, start, accept=accept, max_tries=TRIES)
    if accept < fit.rms <= PRUNABLE:
        narrow, fit = cut(narrow, fit, accept=HARMLESS * fit.rms)
    if fit.rms > accept:
        patient = replace(
            refit,
            target=CONVERGED,
            max_steps=LONG * max_steps,
            stall_above=0.0,
            stall_gain=0.5,
            stall_steps=PATIENCE if len(layout.hidden) > 1 else PATIENCE // 2,
            patience=8,
        )
        narrow, fit = bent, fit_layout(bent, start.parameters, u, seen, settings=patient)
        if fit.rms <= PRUNABLE:
            narrow, fit = cut(bent, fit, accept=max(accept, HARMLESS * fit.rms))
    layout, parameters = replace(narrow, bent=False), fit.parameters.copy()
    # the constant is the one thing that what bends does not tell
    layout.block(parameters, layout.num_layers - 1)[:, -1] += np.mean(
        v - layout.forward(parameters, u), axis=0
    )
    return layout, fit_layout(layout, parameters, u, v, settings=refit)
