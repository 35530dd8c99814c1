"""Figures of a result, each a matplotlib ``Figure``: save it, or show it in a notebook.

``unweave.plots.network(found).savefig("network.svg")``. The report page is made of the same figures.
"""

from unweave.report.account import ledger, timings
from unweave.report.agreement import outputs
from unweave.report.drawing import network
from unweave.report.heat import weights
from unweave.report.kinks import kinks
from unweave.report.landscape import landscape
from unweave.report.spectra import residuals, spectrum, units

__all__ = [
    "kinks",
    "landscape",
    "ledger",
    "network",
    "outputs",
    "residuals",
    "spectrum",
    "timings",
    "units",
    "weights",
]
