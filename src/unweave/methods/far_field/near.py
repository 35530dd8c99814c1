"""From a network as far-out looks at coarse answers give it to the best that the answers allow.

Far out, float32 arithmetic blurs arguments, so rows come out to a few parts in a thousand; near the origin the same
answers tell the parameters to 1e-5 and better. From such a start least squares on points where the first layer is
active converges at once; further points are chosen for what they tell about the least known parameters.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from unweave.certificates.queries import active_points
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.solve.descend import Settings
from unweave.solve.design import telling_points
from unweave.solve.fit import fit_network, spread_of

PER_PARAMETER = 2.5
"""Answers a parameter, to begin with."""
MOST_TELLING = 3.0
"""Further points, relative to the first ones, at most."""
GOAL = 3e-5
"""Standard errors relative to the largest parameter of a unit: what further points are chosen for."""
SMALL = 4000
"""Parameters up to which points are chosen: their covariance is inverted."""
STAGE = "points near the origin"


def settle(
    network: Network, meter: Meter, precision: Precision, rng: np.random.Generator, deadline: float
) -> tuple[Network, float]:
    """The network fitted to answers near the origin, and its residual relative to their spread."""

    def draw(num_points: int, source: Network) -> np.ndarray:
        points = active_points(source, num_points, rng) * rng.uniform(0.3, 1.6, size=(num_points, 1))
        # rows are not known to lie in the span of those found: every direction has to move
        typical = np.sqrt(np.mean(np.sum(source.weights[0] ** 2, axis=1)))
        points += rng.standard_normal(points.shape) / typical
        return meter.snap(points[meter.domain.contains(points)])

    num_points = int(PER_PARAMETER * network.num_parameters / meter.output_size) + 20
    x = draw(_affordable(meter, num_points), network)
    with meter.stage(STAGE):
        y = meter.ask(x)
    floor = precision.noise / spread_of(y)
    settings = Settings(
        target=0.3 * floor, max_steps=60, damping=1e-3, stationary_gain=1e-3, deadline=deadline
    )
    fit = fit_network(network, x, y, settings=settings)
    if fit.rms > 30 * floor or network.num_parameters > SMALL:
        return fit.network, fit.rms
    chosen = telling_points(
        fit.network,
        x,
        partial(draw, source=fit.network),
        noise=precision.noise,
        goal=GOAL / 2,
        most=_affordable(meter, int(MOST_TELLING * len(x))),
    )
    if not len(chosen):
        return fit.network, fit.rms
    with meter.stage(STAGE):
        x, y = np.concatenate([x, chosen]), np.concatenate([y, meter.ask(chosen)])
    again = fit_network(fit.network, x, y, settings=settings)
    return again.network, again.rms


def _affordable(meter: Meter, num_points: int) -> int:
    """At most what the budget leaves beside a certificate."""
    return int(max(min(num_points, meter.ledger.left - 200), 0))
