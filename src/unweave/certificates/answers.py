"""Every answer ever asked against the error bars that the method states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.certificates.base import Check
from unweave.core.network import Network

MOST_BARS = 8.0
"""No answer may lie farther from the network, in error bars: of a million Gaussian errors none does."""
ANSWERS = "answers asked"

ErrorBars = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Error bars (n,) of answers (n, outputs) to questions (n, inputs)."""


def check_answers(network: Network, x: np.ndarray, y: np.ndarray, bars: ErrorBars) -> Check:
    """Whether the network explains each of the answers (x, y), not only most of them."""
    sizes = np.max(np.abs(network(x) - y), axis=1) / np.maximum(bars(x, y), 1e-300)
    worst, num_far = float(np.max(sizes, initial=0.0)), int(np.sum(~(sizes <= MOST_BARS)))
    words = f"the answer farthest from the network, of {len(x):,} asked, is {worst:.1f} error bars away"
    return Check(
        ANSWERS,
        num_far == 0,
        {"num_answers": float(len(x)), "num_far": float(num_far), "max_error_bars": worst},
        words,
        "" if not num_far else f"{num_far} of {len(x):,} answers lie beyond {MOST_BARS:.0f} error bars",
        local=True,
    )
