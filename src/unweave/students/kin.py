"""Activations of one shape: a student of one of them stands for all until it nearly fits, and changes over then.

tanh and erf, or gelu, silu and softplus in their even parts, differ by a few per cent once arguments and values are
scaled. Students far from a fit cannot tell them apart, so one of each kind is tried; a student that has found the
units can: its parameters are taken over to the next of kin, ``phi(z) ~ gain psi(stretch z) + shift``, where a few
steps show which of them goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unweave.core.activations import Activation
from unweave.solve.layout import Layout
from unweave.students.forms import Form

REACH = 3.0
"""Arguments, up to which two activations are compared ..."""
STRETCHES = np.exp(np.linspace(np.log(0.2), np.log(5.0), 65))
"""... and by how much they may be scaled."""


@dataclass(frozen=True)
class Likeness:
    """``phi(z) ~ gain psi(stretch z) + shift``."""

    stretch: float
    gain: float
    shift: float


def group_kin(activations: Sequence[str]) -> list[list[str]]:
    """The activations by kind (even parts, bounded, others), each kind in the order given."""
    kinds: dict[tuple[bool, bool], list[str]] = {}
    for name in activations:
        form = Form.of(name)
        kinds.setdefault((form.skips, form.unit.saturates), []).append(name)
    return list(kinds.values())


@lru_cache
def compare_units(own: Activation, other: Activation) -> Likeness:
    """How a unit of ``own`` is written by one of ``other``, as nearly as it can be."""
    z = np.linspace(-REACH, REACH, 121)
    values, best, least = own.value(z, np), Likeness(1.0, 1.0, 0.0), np.inf
    for stretch in STRETCHES.tolist():
        design = np.column_stack([other.value(stretch * z, np), np.ones_like(z)])
        solution = np.linalg.lstsq(design, values, rcond=None)[0]
        error = float(np.sum((design @ solution - values) ** 2))
        if error < least:
            best, least = Likeness(stretch, *solution.tolist()), error
    return best


def take_over(layout: Layout, parameters: np.ndarray, activation: str) -> tuple[Layout, np.ndarray]:
    """A student of a kindred activation that answers nearly as this one does."""
    other = Form.of(activation).layout(layout.sizes)
    changed = np.array(parameters, dtype=np.float64)
    for layer, width in enumerate(layout.hidden):
        likeness = compare_units(layout.activations[layer], other.activations[layer])
        layout.block(changed, layer)[:] *= likeness.stretch
        for later in range(layer + 1, layout.num_layers if layout.skips else layer + 2):
            first = sum(layout.sizes[layer + 2 : later + 1]) if layout.skips else 0
            block = layout.block(changed, later)
            block[:, -1] += likeness.shift * block[:, first : first + width].sum(axis=1)
            block[:, first : first + width] *= likeness.gain
    return other, changed
