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
    from unweave.learning import learn
    from unweave.network import Network
    from unweave.oracles.http_model import ServedModel
    from unweave.oracles.resolve import resolve
    from unweave.pipeline import identify
    from unweave.result import Identification, load

_HOME = {
    "Ball": "domains",
    "Box": "domains",
    "Certificate": "certificate",
    "Comparison": "comparison",
    "Everywhere": "domains",
    "Identification": "result",
    "Network": "network",
    "Normal": "domains",
    "Outcome": "errors",
    "ServedModel": "oracles.http_model",
    "UnweaveError": "errors",
    "citation": "citations",
    "compare": "comparison",
    "identify": "pipeline",
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
    "Identification",
    "Network",
    "Normal",
    "Outcome",
    "ServedModel",
    "UnweaveError",
    "__version__",
    "citation",
    "compare",
    "identify",
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
