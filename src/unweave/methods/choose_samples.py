"""Which method for which rows: the table ``learn(method="auto")`` chooses from, in the open.

The choice uses what the user said and, when the activation is not named, one small student of each kind fitted to
some of the rows: the residual on other rows ranks them. Piecewise linear units go to ``relu-samples``, smooth ones to
``in-domain``; when the first finds nothing that passes the certificate, the other is tried.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.errors import InputError
from unweave.evidence.rows import Samples
from unweave.methods.base import SampleMethod
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.students.effort import Candidate, Shape, choose_widths
from unweave.students.forms import Form
from unweave.students.standard import Standard
from unweave.students.starts import draw_start
from unweave.students.student import Student

SAMPLE_METHODS = {
    "high-threshold": ("high_threshold.method", "HighThreshold"),
    "relu-samples": ("rows.relu", "ReluSamples"),
    "in-domain": ("rows.smooth", "SmoothSamples"),
}
"""Every method by name: the module it lives in and its class, imported when it is chosen."""

KINKED = ("relu", "leaky_relu")
SMOOTH = ("tanh", "erf", "gelu", "silu", "softplus", "gelu_tanh")
NUM_TRIAL_ROWS, NUM_TRIAL_STEPS = 800, 25


@dataclass(frozen=True)
class SampleChoice:
    """A method with the candidate activations it is given, and why it was chosen."""

    method: SampleMethod
    activations: tuple[str, ...]
    reason: str


def named_method(method: str) -> SampleMethod:
    """The method called ``method``; unknown names are refused."""
    if method not in SAMPLE_METHODS:
        known = ", ".join(sorted(SAMPLE_METHODS))
        raise InputError(f"unknown method {method!r} for samples; known: auto, {known}")
    module, cls = SAMPLE_METHODS[method]
    return getattr(importlib.import_module(f"unweave.methods.{module}"), cls)()


def choose_for_samples(
    method: str | SampleMethod, activation: str, samples: Samples, rng: np.random.Generator
) -> tuple[list[SampleChoice], dict[str, float]]:
    """Methods to try in order, and the residuals that ranked the activations (empty when one was named)."""
    if not isinstance(method, str):
        return [SampleChoice(method, () if activation == "auto" else (activation,), "asked for")], {}
    if method != "auto":
        names = (activation,) if activation != "auto" else (SMOOTH if method == "in-domain" else KINKED)
        return [SampleChoice(named_method(method), names, "asked for")], {}
    if activation == "step" or (activation == "auto" and _two_valued(samples.y)):
        why = "y takes two values only" if activation == "auto" else "the activation is step"
        return [SampleChoice(named_method("high-threshold"), ("step",), why)], {}
    if activation != "auto":
        kinked = act.get(activation).name.startswith(KINKED)
        name = "relu-samples" if kinked else "in-domain"
        return [SampleChoice(named_method(name), (activation,), f"the activation is {activation}")], {}
    residuals = rank_activations(samples, ("relu", *SMOOTH), rng)
    smooth = tuple(name for name in residuals if name != "relu")
    relu_first = next(iter(residuals)) == "relu"
    why = f"a small student of {next(iter(residuals))} units predicts other rows best"
    choices = [
        SampleChoice(named_method("relu-samples"), KINKED, why),
        SampleChoice(named_method("in-domain"), smooth, why),
    ]
    choices = choices if relu_first else choices[::-1]
    second = choices[1]
    return [
        choices[0],
        SampleChoice(second.method, second.activations, "the first choice did not settle it"),
    ], residuals


def _two_valued(y: np.ndarray) -> bool:
    return y.shape[1] == 1 and len(np.unique(y)) == 2


def rank_activations(samples: Samples, names: tuple[str, ...], rng: np.random.Generator) -> dict[str, float]:
    """Residual of one small student of each activation on rows it was not fitted to, best first."""
    order = rng.permutation(len(samples.x))[:NUM_TRIAL_ROWS]
    cut = (3 * len(order)) // 4
    x, y = samples.x[order[:cut]], samples.y[order[:cut]]
    fresh_x, fresh_y = samples.x[order[cut:]], samples.y[order[cut:]]
    standard = Standard.of(x, y)
    u, v = standard.inputs(x), standard.outputs(y)
    found = {}
    for name in names:
        form = Form.of(name)
        widths = choose_widths(u, v, Candidate(name, 1), Shape(2.5))
        layout = form.layout((u.shape[1], *widths, v.shape[1]))
        settings = Settings(max_steps=NUM_TRIAL_STEPS)
        start = draw_start(layout, u, v, np.random.default_rng(rng.integers(2**32)))
        fit = fit_layout(layout, start, u, v, settings=settings)
        found[name] = Student(standard, layout, fit.parameters).fresh_residual(fresh_x, fresh_y)
    return dict(sorted(found.items(), key=lambda item: item[1]))
