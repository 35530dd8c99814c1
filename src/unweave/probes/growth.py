"""How the answers grow far out: the cheapest question that separates the families of activations.

Along a ray the answers of a saturating network become constant, those of a relu-like network (relu, softplus,
gelu, silu, elu) become affine; softsign units level off like one over the distance; anything else grows faster or not
regularly. Four rays at three radii tell; more are asked where most end at one answer, as rays along which every unit of
a relu layer is off do.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from unweave.core.errors import NotANumber
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

RADIUS = 1e6
ROUGHLY = 0.02
"""Relative error above which linear growth could not be told from none."""
HALVED = 0.02
"""How closely a second change is half the first where answers level off like one over the distance."""


class Growth(StrEnum):
    """What happens far out; the value is used in sentences."""

    CONSTANT = "the answers are the same everywhere"
    SATURATING = "the answers level off far out"
    SLOW = "the answers level off slowly, like one over the distance"
    LINEAR = "the answers grow linearly far out"
    OTHER = "the answers neither level off nor grow linearly far out"
    UNSEEN = "the domain does not reach far out"


def observe_growth(
    meter: Meter, precision: Precision, rng: np.random.Generator, *, num_rays: int = 4, num_more: int = 16
) -> Growth:
    """Classify the growth along random rays, charged to the stage ``growth``."""
    if meter.domain.reach(meter.input_size) < 4 * RADIUS:
        return Growth.UNSEEN
    rays = rng.standard_normal((num_rays, meter.input_size))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    points = RADIUS * np.array([1.0, 2.0, 4.0])[:, None, None] * rays[None]
    try:
        with meter.stage("growth"):
            near, middle, far = meter.ask(points.reshape(-1, meter.input_size)).reshape(3, num_rays, -1)
    except NotANumber:  # overflow far out is a kind of growth; a server that is down is none
        return Growth.OTHER
    # the rounding of sums that nearly cancel along one ray is that of the others
    size = np.max(np.abs(near) + np.abs(middle) + np.abs(far), axis=0)
    slack = 1e-9 * max(precision.scale, 1e-300) + 100 * precision.noise
    slack = slack + float(np.clip(30 * precision.relative, 1e-7, ROUGHLY)) * size
    first, second = middle - near, far - middle
    if _halves(first, second, precision):
        return Growth.SLOW
    level = np.all(np.abs(first) <= slack, axis=1)  # a ray close to some unit's hyperplane levels off later
    if np.mean(level) > 0.5 and np.all(np.abs(second) <= slack):
        everywhere = np.concatenate([near, meter.transcript("precision")[1]])
        allowed = 10 * precision.noise + 1e-12 * np.abs(everywhere).max()
        if np.all(np.ptp(everywhere, axis=0) <= allowed):
            return Growth.CONSTANT
        same = np.all(np.abs(far[:, None] - far) <= allowed, axis=2).sum(axis=1)
        if num_more and 2 * same.max() > num_rays and meter.input_size > 2:
            return observe_growth(meter, precision, rng, num_rays=num_more, num_more=0)
        return Growth.SATURATING
    if np.all(np.abs(second - 2 * first) <= slack):
        return Growth.LINEAR
    return Growth.OTHER


def _halves(first: np.ndarray, second: np.ndarray, precision: Precision) -> bool:
    """Whether doubling the distance halves the change on every ray, far above what rounding leaves of it."""
    told = np.abs(first) > 1e3 * precision.noise
    if precision.kind != "float64" or not np.all(np.any(told, axis=1)):
        return False
    return bool(np.all(np.abs(second[told] / first[told] - 0.5) < HALVED))
