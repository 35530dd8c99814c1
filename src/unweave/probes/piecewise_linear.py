"""Whether the answers are piecewise linear: second differences on short segments vanish to rounding.

A smooth function bends on every segment; a piecewise linear one only on the few that meet a kink. Segments are
short enough to miss most kinks and long enough for a smooth bend to stand out from the error of the answers. Segments
on which the answers do not move say nothing. Where rounding asks for segments so long that most meet a kink, it counts
whether they bend at places or all along (``uneven``).
"""

from __future__ import annotations

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.probes.uneven import bends_at_places, bends_evenly

NEAR, LARGE = 3.0, 10.0
"""The radius at which networks usually bend, and how many times as far a domain reaches that is large."""
FEWEST = 3
"""Segments on which the answers move that are enough to leave out the others."""
LEEWAY = 100.0
"""What answers near by may be off, in the rounding of their own size: large terms may cancel there."""

NUM_LONG = 6
"""Segments looked at again, longer, where rounding hides a bend of short ones."""


def is_piecewise_linear(
    meter: Meter, precision: Precision, rng: np.random.Generator, *, num_segments: int = 6, dense: bool = True
) -> bool:
    """Whether at least half of the segments are straight, from three questions a segment (stage ``kind``).

    ``dense``: kinks may be so dense that most segments meet one; float32 answers that bend are then asked more. In a
    large domain smooth units are straight far out, so those that are straight there are looked at near by as well.
    """
    size = meter.input_size
    starts = meter.domain.sample(4 * num_segments, size, rng)
    # the domain may reach over many scales; stay with the half of the points nearest to its middle
    middle = np.median(starts, axis=0)
    starts = starts[np.argsort(np.linalg.norm(starts - middle, axis=1))[: 2 * num_segments]][::2]
    if not _are_straight(meter, precision, rng, starts, dense=dense):
        return False
    near = meter.domain.nearest(NEAR * rng.standard_normal((len(starts), size)) / np.sqrt(size))
    large = LARGE * NEAR < meter.domain.reach(size) < np.inf
    return not large or _are_straight(meter, precision, rng, near, leeway=LEEWAY, dense=dense)


def _are_straight(
    meter: Meter,
    precision: Precision,
    rng: np.random.Generator,
    starts: np.ndarray,
    *,
    leeway: float = 1.0,
    dense: bool,
) -> bool:
    """Whether most of the segments from each of the points towards another are."""
    size = meter.input_size
    aside = 1e-3 * np.minimum(np.std(starts, axis=0), 1.0)
    towards = starts[::-1] - starts + aside * rng.standard_normal(starts.shape)
    # the error of a rounded answer is at most half a step, so that no bend of a straight segment exceeds one
    slack, reach = (4, 14) if precision.kind == "rounded" else (50, 5)
    length = np.clip(reach * np.sqrt(slack * precision.relative), 1e-4, 0.25)
    with meter.stage("kind"):
        points = np.stack([starts, starts + length / 2 * towards, starts + length * towards])
        points = meter.snap(points.reshape(-1, size)).reshape(points.shape)
        answers = meter.ask(points.reshape(-1, size))
    precision = precision.at(answers)
    first, middle_value, last = answers.reshape(3, len(starts), -1)
    # after rounding to the model's precision the middle point may sit off the middle by a little
    whole = np.linalg.norm(points[2] - points[0], axis=1)
    share = np.linalg.norm(points[1] - points[0], axis=1) / np.maximum(whole, 1e-300)
    bend = np.abs(middle_value - first - share[:, None] * (last - first))
    size_of_answers = np.maximum(np.abs(first), np.abs(last))
    straight = np.all(bend <= leeway * (slack * precision.noise + 1e-13 * size_of_answers), axis=1)
    moving = np.max(np.abs(last - first), axis=1) > 4 * slack * precision.noise
    if np.mean(straight[moving] if np.sum(moving) >= FEWEST else straight) < 0.5:
        dense = dense and precision.kind == "float32"
        return dense and bends_at_places(meter, precision, starts, towards, float(length))
    return precision.kind != "float32" or not bends_evenly(
        meter, precision, starts[:NUM_LONG], 3 * length * towards[:NUM_LONG]
    )
