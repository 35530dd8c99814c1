"""Two and more hidden layers on top of a saturated first layer, from far vertices alone.

At a far vertex the first layer's hidden vector h in {-1, +1}^m is known exactly, whatever stands above, and with it
``f = T(h)`` is a network of one layer less on inputs that are known, bounded and nearly uncorrelated. Over-wide
students (``students.overwide``) recover T there, widths and depth unknown. It needs neither exact rows nor biases of
the first layer: those are read through T afterwards. A first layer wider than the input shows fewer sign patterns,
but still far more than a student needs.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor

import numpy as np

from unweave.core.activations import Activation
from unweave.methods.far_field.top import Top
from unweave.students.effort import Candidate, Effort
from unweave.students.overwide import Pool, search

MOST_VERTICES = 60_000


def peel(
    pool: Pool,
    activation: Activation,
    *,
    hidden: tuple[int, ...] | None,
    max_depth: int,
    noise: float,
    rng: np.random.Generator,
    deadline: float,
    engine: Executor | str | None = None,
) -> Top:
    """The network above the first layer; ``hidden`` are its widths when given, ``max_depth`` bounds them else."""
    depths = range(1, max_depth + 1) if hidden is None else [len(hidden)]
    effort = Effort(
        time_limit=max(deadline - time.monotonic(), 0.0), min_points=len(pool.x), max_points=MOST_VERTICES
    )
    fit = search(
        pool,
        [Candidate(activation.name, depth) for depth in depths],
        hidden=hidden,
        noise=noise,
        rng=rng,
        effort=effort,
        engine=engine,
    )
    attempts = tuple((a.activation, a.widths, a.num_points, a.rms, a.end) for a in fit.attempts)
    network = fit.network if fit.minimal else None
    return Top(network, fit.rms, fit.num_points, fit.reason, attempts)
