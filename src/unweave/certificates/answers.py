"""Every answer ever asked against its error bar: the method's, or the accuracy that was measured.

A network that was fitted to most answers may miss some by far, and one of another kind all of them by a little. Neither
is the model, whatever the fresh points say.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.certificates.base import Check
from unweave.certificates.certificate import EXACT
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import gradient_norms

MOST_BARS = 8.0
"""No answer may lie farther from the network, in error bars: of a million Gaussian errors none does."""
ANSWERS = "answers asked"
CHUNK = 4_000_000
"""Numbers of the questions whose bars are computed at once."""

ErrorBars = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Error bars, (n,) or one an output, of answers (n, outputs) to questions (n, inputs)."""


def measured_bars(network: Network, meter: Meter, precision: Precision) -> ErrorBars:
    """Noise, and rounding of the answer and of its input; for exact answers no less than what a claim allows.

    Where units grow, an answer far out next to a bend may be rounded on the side where its unit is on: the typical
    slope counts there too. Far out in an endless domain a network of noisy answers is itself known to their relative
    accuracy only.
    """
    exact = precision.kind in ("float64", "float32")
    endless = np.isinf(meter.domain.reach(meter.input_size))
    own = 0.0 if exact or not endless else precision.relative
    grows = any(np.isinf(act.get(name).limits).any() for name in network.hidden_activations)

    def bars(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        noise = (
            np.hypot(precision.noise, meter.blur(y))
            if meter.is_squashed
            else np.full(len(x), precision.noise)
        )
        parts = np.array_split(np.arange(len(x)), x.size // CHUNK + 1)
        slopes = np.concatenate([gradient_norms(network, x[rows]) for rows in parts])
        if grows:
            slopes = np.maximum(slopes, np.sqrt(np.mean(slopes**2, axis=0)))
        leverage = np.linalg.norm(x, axis=1)[:, None] * slopes
        sizes = np.hypot(noise[:, None], precision.unit * (leverage + np.abs(y)) + own * leverage)
        if precision.kind == "float64":
            spread = np.maximum(np.std(y, axis=0), 1e-300)
            sizes = np.maximum(sizes, EXACT / MOST_BARS * np.maximum(spread, leverage))
        return sizes

    return bars


def measure_misses(network: Network, x: np.ndarray, y: np.ndarray, bars: ErrorBars) -> np.ndarray:
    """How far each of the answers (x, y) lies from the network, in error bars."""
    allowed = np.maximum(bars(x, y), 1e-300).reshape(len(x), -1)
    return np.max(np.abs(network(x) - y) / allowed, axis=1)


def check_answers(network: Network, x: np.ndarray, y: np.ndarray, bars: ErrorBars) -> Check:
    """Whether the network explains each of the answers (x, y), not only most of them."""
    sizes = measure_misses(network, x, y, bars)
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
