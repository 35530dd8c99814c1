"""Many outputs: the in-domain search for the network behind the few combinations of them that move independently.

How many there are shows in some answers, twice as many as directions are found. The last layer of what is found is
taken back to all outputs (``students.output_span``), which costs no digits and no questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem
from unweave.methods.in_domain.reduced import View
from unweave.students.output_span import OutputSpan

LEAST_OUTPUTS = 30
FIRST = 16
"""Answers that are looked at first."""
OF_SPAN = ("standard_errors", "singular_values")
"""Details that speak of the parameters of the network in the span."""


def recover_in_span(
    meter: Meter, problem: Problem, search: Callable[[Meter, Problem], Finding]
) -> Finding | None:
    """What ``search`` finds in the span of the outputs, with all of them; None where they are few, or all count."""
    span = _find_span(meter, problem)
    if span is None:
        return None
    found = search(_Combined(meter, span), problem)
    network = None if found.network is None else span.lift(found.network)
    student = None if found.student is None else span.lift(found.student)
    details = {name: value for name, value in found.details.items() if name not in OF_SPAN}
    return replace(found, network=network, student=student, details=details)


def _find_span(meter: Meter, problem: Problem) -> OutputSpan | None:
    """The span, once twice as many answers as it has directions show it; None where it is not much smaller."""
    size, rng = meter.input_size, problem.rng("output span")
    bounded = np.isfinite(meter.domain.reach(size))
    count, x = FIRST, np.zeros((0, size))
    while meter.output_size >= LEAST_OUTPUTS and 2 * count <= meter.output_size:
        more = count - len(x)
        if more > meter.ledger.left / 2:
            return None
        fresh = meter.domain.sample(more, size, rng) if bounded else rng.standard_normal((more, size))
        x = np.concatenate([x, meter.snap(fresh)])
        with meter.stage("outputs"):
            span = OutputSpan.of(meter.ask(x), problem.precision.noise)
        if 2 * span.size < count:
            return span
        count *= 2
    return None


class _Combined(View):
    """Questions to another meter, answered inside a span of its outputs."""

    def __init__(self, meter: Meter, span: OutputSpan):
        super().__init__(meter, meter.domain, meter.input_size, span.size)
        self._span = span

    def ask(self, x: np.ndarray) -> np.ndarray:
        return self._span.inside(self._whole.ask(x))

    def blur(self, answers: np.ndarray) -> np.ndarray:
        return self._whole.blur(self._span.outside(answers))
