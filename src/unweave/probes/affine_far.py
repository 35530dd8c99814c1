"""A far field that is one affine function, where the answers near by are none.

Units of which one side is steeper than the other bend the far field along their planes. Where it does not bend,
though the answers do near by, both sides of the units have one slope (tanhshrink, hardshrink), or a linear term passes
by units that level off. Two questions opposite to those of the growth tell most networks from these.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import NotANumber
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.probes.growth import RADIUS
from unweave.probes.jumps import JUMPING, shows_jump
from unweave.probes.piecewise_linear import is_piecewise_linear

NUM_OPPOSITE, NUM_MORE = 2, 8
EVEN = 1e-4
"""Share of far answers that is no affine function: constants have this size at most."""
BENT = 1e-3
"""Share of the scale of near answers that shows that they are not affine."""
UNBENT = (
    "far out the answers are one affine function, near by they are not: units with the same slope on both sides "
    "(tanhshrink, hardshrink), or a skip connection past units that level off; with the activations tried only units "
    "in parallel pairs do so"
)


def see_affine_far(meter: Meter, precision: Precision, rng: np.random.Generator) -> str:
    """Why answers that grow linearly are not those of the activations tried; nothing where they may be."""
    x, y = meter.transcript("growth")
    farthest = np.argsort(np.linalg.norm(x, axis=1), kind="stable")[-NUM_OPPOSITE:]
    try:
        with meter.stage("growth"):
            opposite = meter.ask(-x[farthest])
        if not _are_odd(y[farthest], opposite):
            return ""
        slope = _far_slope(meter, rng)
    except NotANumber:
        return ""
    if slope is None:
        return ""
    near_x, near_y = meter.transcript("precision")
    rest = near_y - near_x @ slope
    if np.all(np.ptp(rest, axis=0) <= BENT * precision.scale + 100 * precision.noise):
        return ""
    if not is_piecewise_linear(meter, precision, rng, dense=False):
        return UNBENT
    return JUMPING if shows_jump(meter, precision, rng) else ""


def _are_odd(here: np.ndarray, there: np.ndarray) -> bool:
    return bool(np.all(np.abs(here + there) <= EVEN * np.abs(here - there)))


def _far_slope(meter: Meter, rng: np.random.Generator) -> np.ndarray | None:
    """The slope (inputs, outputs) of the far field; None where it is not affine."""
    rays = rng.standard_normal((meter.input_size + NUM_MORE, meter.input_size))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    with meter.stage("growth"):
        far = meter.ask(4 * RADIUS * rays) / (4 * RADIUS)
    slope = np.linalg.lstsq(rays, far, rcond=None)[0]
    return slope if np.max(np.abs(rays @ slope - far)) <= EVEN * np.max(np.abs(far)) else None
