"""unweave: from a black box back to its weights.

The public names are loaded on first use, so that ``import unweave`` and ``unweave --help`` stay instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from unweave.version import __version__

if TYPE_CHECKING:
    from unweave import plots
    from unweave.certificates.certificate import Certificate
    from unweave.citations import citation
    from unweave.comparison import Comparison, compare
    from unweave.core.domains import Ball, Box, Everywhere, Normal
    from unweave.core.errors import Outcome, UnweaveError
    from unweave.core.network import Network
    from unweave.estimator import NetworkRegressor
    from unweave.evidence.data import Data
    from unweave.methods.high_threshold.halfspaces import Halfspaces
    from unweave.methods.high_threshold.method import HighThreshold
    from unweave.models.http_model import ServedModel
    from unweave.models.resolve import resolve
    from unweave.result import Identification, load
    from unweave.run import identify, learn
    from unweave.shallow.fitting import FittedNetwork, fit
    from unweave.shallow.global_minimum import GlobalCertificate, Verdict, certify
    from unweave.shallow.grid import LandscapeGrid, landscape

_HOME = {
    "Ball": "core.domains",
    "Box": "core.domains",
    "Certificate": "certificates.certificate",
    "Comparison": "comparison",
    "Data": "evidence.data",
    "Everywhere": "core.domains",
    "FittedNetwork": "shallow.fitting",
    "GlobalCertificate": "shallow.global_minimum",
    "Halfspaces": "methods.high_threshold.halfspaces",
    "HighThreshold": "methods.high_threshold.method",
    "Identification": "result",
    "LandscapeGrid": "shallow.grid",
    "Network": "core.network",
    "NetworkRegressor": "estimator",
    "Normal": "core.domains",
    "Outcome": "core.errors",
    "ServedModel": "models.http_model",
    "UnweaveError": "core.errors",
    "Verdict": "shallow.global_minimum",
    "certify": "shallow.global_minimum",
    "citation": "citations",
    "compare": "comparison",
    "fit": "shallow.fitting",
    "identify": "run",
    "landscape": "shallow.grid",
    "learn": "run",
    "load": "result",
    "resolve": "models.resolve",
}

__all__ = [
    "Ball",
    "Box",
    "Certificate",
    "Comparison",
    "Data",
    "Everywhere",
    "FittedNetwork",
    "GlobalCertificate",
    "Halfspaces",
    "HighThreshold",
    "Identification",
    "LandscapeGrid",
    "Network",
    "NetworkRegressor",
    "Normal",
    "Outcome",
    "ServedModel",
    "UnweaveError",
    "Verdict",
    "__version__",
    "certify",
    "citation",
    "compare",
    "fit",
    "identify",
    "landscape",
    "learn",
    "load",
    "plots",
    "resolve",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"unweave.{_HOME[name]}"), name)
    if name == "plots":
        return importlib.import_module("unweave.plots")
    raise AttributeError(f"module 'unweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
