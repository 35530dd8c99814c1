"""Whether rough answers bend at places or all along, where kinks are so dense that most segments meet one.

Second differences on a row of points are those of a smooth function all over it, and of a piecewise linear one beside
its kinks only. Segments are halved until few of them show a bend above the error of the answers: at the last length at
which enough of them did, a kink stands alone, while a smooth bend is as even as on any. A segment that bends alike at
all its places settles it: units such as selu have a kink and bend beside it, kinks alone do not make an even row.
"""

from __future__ import annotations

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision

NUM_INTERVALS = 8
GRID = 2.0**-20
"""Points lie on multiples of this part of the largest coordinate, which single precision represents."""
STRONG = 12.0
"""Bends that count, in errors of a second difference."""
QUIET, SHARE = 4.0, 0.05
"""A place without a bend: below so many errors, or below this part of the segment's largest bend."""
FEWEST, UNEVEN = 2, 0.4
"""Segments with a strong bend that a length must show, and the share of them that must bend at places."""
EVEN = 3
"""Lengths at which every segment bends evenly that settle it."""
LEAST, ALIKE = 3.0, (1.5, 0.2)
"""Bends of a row of places are alike where their mean is at least so many errors, and each of them within so many
errors and this part of it."""
MOST_STRETCHES, STRETCH = 4, 3.0
"""Lengths at which segments without a strong bend are looked at, and from one to the next."""
MOST_HALVINGS = 8
MOST_SEGMENTS = 8


def bends_at_places(
    meter: Meter, precision: Precision, starts: np.ndarray, towards: np.ndarray, length: float
) -> bool:
    """Whether the answers on segments from ``starts``, ``length`` of the way along ``towards``, bend at single places.

    Nine questions a segment at first and four at every halving (stage ``kind``); false where nothing bends, where all
    segments bend evenly at three lengths, and where one bends alike at all its places.
    """
    starts, towards = starts[:MOST_SEGMENTS], towards[:MOST_SEGMENTS]
    verdict, num_even = False, 0
    for halving in range(MOST_HALVINGS):
        found = np.nan_to_num(bends(meter, precision, starts, length / 2**halving * towards))
        if np.any(_are_alike(found)):
            return False
        sizes = np.abs(found)
        strong = sizes.max(axis=1, initial=0.0) > STRONG
        if np.sum(strong) < FEWEST:
            break
        uneven = _are_uneven(sizes[strong])
        verdict = bool(np.sum(uneven) >= FEWEST and np.mean(uneven) > UNEVEN)
        num_even += not np.any(uneven)
        if num_even == EVEN or np.mean(strong) < 0.3:
            break
    return verdict


def bends_evenly(meter: Meter, precision: Precision, starts: np.ndarray, towards: np.ndarray) -> bool:
    """Whether longer segments bend alike all along: a smooth function whose bend on short ones rounding hides.

    Segments grow until half of them bend.
    """
    for number in range(MOST_STRETCHES):
        found = np.nan_to_num(bends(meter, precision, starts, STRETCH**number * towards))
        if len(found) < len(starts):
            break
        if np.sum(_are_alike(found)) >= FEWEST:
            return True
        if np.mean(np.abs(found).max(axis=1) > STRONG) >= 0.5:
            break
    return False


def bends(meter: Meter, precision: Precision, starts: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Second differences (segments, places) on segments of these spans, signed and in their errors, of one output.

    The output is that which bends most at the place. NaN where an answer says nothing, at the end of the range of a
    squashing; segments that leave the domain are none.
    """
    largest = np.max(np.abs(np.vstack([starts, starts + spans])), axis=0)
    unit = GRID * 2.0 ** np.ceil(np.log2(largest + 1e-300))
    first, steps = np.round(starts / unit) * unit, np.round(spans / NUM_INTERVALS / unit) * unit
    points = first[:, None, :] + np.arange(NUM_INTERVALS + 1)[:, None] * steps[:, None, :]
    inside = meter.domain.contains(points.reshape(-1, meter.input_size)).reshape(points.shape[:2])
    points = points[np.all(inside, axis=1)]
    if not len(points):
        return np.zeros((0, NUM_INTERVALS - 1))
    with meter.stage("kind"):
        answers = meter.ask(points.reshape(-1, meter.input_size))
    blur = meter.blur(answers).reshape(points.shape[:2])
    errors = np.where(blur < 1e100, np.hypot(precision.at(answers).noise, 2 * blur), np.nan)
    answers = answers.reshape(*points.shape[:2], -1)
    second = answers[:, 2:] - 2 * answers[:, 1:-1] + answers[:, :-2]
    second = np.take_along_axis(second, np.argmax(np.abs(second), axis=2)[:, :, None], axis=2)[:, :, 0]
    error = np.sqrt(errors[:, 2:] ** 2 + 4 * errors[:, 1:-1] ** 2 + errors[:, :-2] ** 2)
    return second / np.maximum(error, np.finfo(float).tiny)


def _are_uneven(sizes: np.ndarray) -> np.ndarray:
    """Which segments bend nowhere at more than half of their places, though they bend somewhere."""
    quiet = sizes <= np.maximum(QUIET, SHARE * sizes.max(axis=1, keepdims=True))
    return np.sum(quiet, axis=1) > sizes.shape[1] / 2


def _are_alike(found: np.ndarray) -> np.ndarray:
    """Which segments bend to one side and about as much at all of their places."""
    if not found.size:
        return np.zeros(len(found), dtype=bool)
    mean = np.mean(found, axis=1)
    off = np.max(np.abs(found - mean[:, None]), axis=1)
    return (np.abs(mean) >= LEAST) & (off <= ALIKE[0] + ALIKE[1] * np.abs(mean))
