"""What a search by students has found, as a finding: the network and what of it is open, or how close what came."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from unweave.methods.base import Finding, Problem
from unweave.students.forms import Form
from unweave.students.overwide import OverwideFit


def describe_fit(fit: OverwideFit, problem: Problem) -> Finding:
    """Networks of surplus units and parameters that no answer tells are named as such."""
    details = {
        "attempts": [(a.activation, a.widths, a.num_points, a.rms, a.end) for a in fit.attempts],
        "num_points": fit.num_points,
    }
    alternatives = _residuals(fit)
    if fit.network is None:
        return Finding(None, reason=_advise(fit, problem), alternatives=alternatives, details=details)
    if fit.polished is not None:
        details["singular_values"] = fit.polished.singular_values
        details["standard_errors"] = fit.polished.standard_errors
    undetermined = fit.undetermined
    if _has_idle_inputs(fit):
        undetermined = (*undetermined, "layer 1: weights of inputs that do not move in the data")
    if not fit.minimal and fit.polished is not None:
        undetermined = (*undetermined, "units: one of them could be removed")
    elif not fit.minimal:
        undetermined = (*undetermined, "all parameters: the student did not converge")
    return Finding(fit.network, fit.reason, (), undetermined, alternatives, details)


def _has_idle_inputs(fit: OverwideFit) -> bool:
    """Whether weights of the first layer were left open because the data do not move along some input."""
    if fit.polished is None or fit.network is None or Form.of(fit.network.activations[0]).free_per_unit:
        return False
    return fit.minimal and fit.polished.null_directions.shape[1] > 0


def _residuals(fit: OverwideFit) -> dict[str, float]:
    """The least residual each activation reached at the largest size it was tried at."""
    latest: dict[str, dict[int, float]] = defaultdict(dict)
    for attempt in fit.attempts:
        at_size = latest[attempt.activation]
        at_size[attempt.num_points] = min(at_size.get(attempt.num_points, np.inf), attempt.rms)
    return {name: at_size[max(at_size)] for name, at_size in latest.items()}


def _advise(fit: OverwideFit, problem: Problem) -> str:
    tried = ", ".join(problem.activations)
    return (
        f"{fit.reason} (least relative residual {fit.rms:.1e} with {tried}); the true activation or depth "
        f"may be outside what was tried: name it with activation= or hidden=, or give more answers"
    )
