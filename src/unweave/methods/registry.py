"""Every method: one line each, in order of preference.

``method="auto"`` asks each method whether it suits (``Method.suits``) and tries those that do, in this order; for rows
those first whose activations predict best. The name is here so that a wrong one is refused before anything is imported.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

from unweave.core.errors import InputError
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Method


@dataclass(frozen=True)
class Entry:
    """A method by name, where its class is, and what it learns from."""

    name: str
    place: str
    evidence: Evidence

    def load(self) -> Method:
        """The method with its own defaults."""
        return pkgutil.resolve_name(f"unweave.methods.{self.place}")()


REGISTRY = (
    Entry("halfspaces", "high_threshold.decisions:Decisions", Evidence.QUERIES),
    Entry("ridge", "ridge.method:Ridge", Evidence.QUERIES),
    Entry("linear", "linear:Linear", Evidence.QUERIES),
    Entry("relu-lines", "relu.one_layer.lines:ReluLines", Evidence.QUERIES),
    Entry("relu-features", "relu.features:ReluFeatures", Evidence.QUERIES),
    Entry("relu-lifted", "relu.lifted.method:ReluLifted", Evidence.QUERIES),
    Entry("relu-layers", "relu.any_depth:ReluDeep", Evidence.QUERIES),
    Entry("clamped", "relu.one_layer.clamped:Clamped", Evidence.QUERIES),
    Entry("far-field", "far_field.method:FarField", Evidence.QUERIES),
    Entry("skeleton", "skeleton.method:Skeleton", Evidence.QUERIES),
    Entry("corners", "corners.method:Corners", Evidence.QUERIES),
    Entry("hessian-pencil", "hessian.pencil:HessianPencil", Evidence.QUERIES),
    Entry("in-domain", "in_domain.method:InDomain", Evidence.QUERIES),
    Entry("hessian-span", "hessian.span:HessianSpan", Evidence.QUERIES),
    Entry("high-threshold", "high_threshold.method:HighThreshold", Evidence.ROWS),
    Entry("relu-samples", "rows.relu:ReluSamples", Evidence.ROWS),
    Entry("in-domain", "rows.smooth:SmoothSamples", Evidence.ROWS),
)


def entries(evidence: Evidence) -> tuple[Entry, ...]:
    """The methods that learn from this, in order of preference."""
    return tuple(entry for entry in REGISTRY if entry.evidence is evidence)


def named(name: str, evidence: Evidence) -> Method:
    """The method called ``name``; unknown names are refused."""
    for entry in entries(evidence):
        if entry.name == name:
            return entry.load()
    known = ", ".join(sorted(entry.name for entry in entries(evidence)))
    kind = "" if evidence is Evidence.QUERIES else " for samples"
    raise InputError(f"unknown method {name!r}{kind}; known: auto, {known}")
