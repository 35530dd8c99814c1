"""Which activation recorded rows speak for: one small student of each, ranked by rows it was not fitted to."""

from __future__ import annotations

import numpy as np

from unweave.evidence.rows import Samples
from unweave.methods.base import PIECEWISE_LINEAR, RELU_LIKE, Serves, Traits
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.students.effort import Candidate, Shape, choose_widths
from unweave.students.forms import Form
from unweave.students.standard import Standard
from unweave.students.starts import draw_start
from unweave.students.student import Student

RANKED = (PIECEWISE_LINEAR[0], "tanh", "erf", *RELU_LIKE)
NUM_TRIAL_ROWS, NUM_TRIAL_STEPS = 800, 25


def rank_activations(samples: Samples, rng: np.random.Generator) -> dict[str, float]:
    """Residual of one small student of each activation on rows it was not fitted to, best first."""
    order = rng.permutation(len(samples.x))[:NUM_TRIAL_ROWS]
    cut = (3 * len(order)) // 4
    x, y = samples.x[order[:cut]], samples.y[order[:cut]]
    fresh_x, fresh_y = samples.x[order[cut:]], samples.y[order[cut:]]
    standard = Standard.of(x, y)
    u, v = standard.inputs(x), standard.outputs(y)
    found = {}
    for name in RANKED:
        form = Form.of(name)
        widths = choose_widths(u, v, Candidate(name, 1), Shape(2.5))
        layout = form.layout((u.shape[1], *widths, v.shape[1]))
        settings = Settings(max_steps=NUM_TRIAL_STEPS)
        start = draw_start(layout, u, v, np.random.default_rng(rng.integers(2**32)))
        fit = fit_layout(layout, start, u, v, settings=settings)
        found[name] = Student(standard, layout, fit.parameters).fresh_residual(fresh_x, fresh_y)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def reason_of_rows(traits: Traits, serves: Serves) -> str | None:
    """Why a method of these activations: one was named, or a small student of one predicts best; None: neither."""
    candidates = traits.candidates(serves)
    if not candidates:
        return None
    if traits.activation != "auto":
        return f"the activation is {traits.activation}"
    best = next(iter(traits.ranking), "")
    if best in candidates:
        return f"a small student of {best} units predicts other rows best"
    return "the first choice did not settle it"
