"""unweave: from a black box back to its weights.

The public names are loaded on first use, so that ``import unweave`` and ``unweave --help`` stay instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from unweave.version import __version__

if TYPE_CHECKING:
    from unweave import plots
    from unweave.certificate import Certificate
    from unweave.citations import citation
    from unweave.comparison import Comparison, compare
    from unweave.domains import Ball, Box, Everywhere, Normal
    from unweave.errors import Outcome, UnweaveError
    from unweave.fitting import FittedNetwork, fit
    from unweave.global_minimum import GlobalCertificate, Verdict, certify
    from unweave.halfspaces import Halfspaces
    from unweave.learning import learn
    from unweave.methods.high_threshold import HighThreshold
    from unweave.network import Network
    from unweave.oracles.http_model import ServedModel
    from unweave.oracles.resolve import resolve
    from unweave.pipeline import identify
    from unweave.result import Identification, load
    from unweave.shallow.grid import LandscapeGrid, landscape

_HOME = {
    "Ball": "domains",
    "Box": "domains",
    "Certificate": "certificate",
    "Comparison": "comparison",
    "Everywhere": "domains",
    "FittedNetwork": "fitting",
    "GlobalCertificate": "global_minimum",
    "Halfspaces": "halfspaces",
    "HighThreshold": "methods.high_threshold",
    "Identification": "result",
    "LandscapeGrid": "shallow.grid",
    "Network": "network",
    "Normal": "domains",
    "Outcome": "errors",
    "ServedModel": "oracles.http_model",
    "UnweaveError": "errors",
    "Verdict": "global_minimum",
    "certify": "global_minimum",
    "citation": "citations",
    "compare": "comparison",
    "fit": "fitting",
    "identify": "pipeline",
    "landscape": "shallow.grid",
    "learn": "learning",
    "load": "result",
    "resolve": "oracles.resolve",
}

__all__ = [
    "Ball",
    "Box",
    "Certificate",
    "Comparison",
    "Everywhere",
    "FittedNetwork",
    "GlobalCertificate",
    "Halfspaces",
    "HighThreshold",
    "Identification",
    "LandscapeGrid",
    "Network",
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
