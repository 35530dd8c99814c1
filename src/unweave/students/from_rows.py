"""Two hidden layers whose first one is known but for the lengths of its rows: students begin with it.

With the planes of all units of the first layer in place, to a few digits, students with a wide second layer come close
in a few dozen exact steps on all parameters, where those from random rows end in valleys of their own. The second layer
may still do so: then the next student begins with the first layer of the best one so far and other units above. A few
further units stand for planes that were not seen. Surplus ones are sifted out in the end (``sift``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unweave.core import clock
from unweave.solve.devices import fits_memory
from unweave.students.forms import Form
from unweave.students.overwide import OverwideFit
from unweave.students.plenty import HELD, Buy, Class, num_needed, sift_out
from unweave.students.racer import Racer
from unweave.students.standard import Standard
from unweave.students.starts import draw_start
from unweave.students.student import PROMISING, Attempt

ARGUMENT = 1.0
"""Root mean square of a unit's argument over the domain that its row is given, less what its offset adds."""
SPAN = 5.0
"""Measured lengths are taken as far as this factor from it."""
SURE = 4.0
"""A length that is fewer standard errors from zero leaves the side open: such a unit is given both."""
FURTHER = 0.1
"""Units for planes that were not seen, for each one that was."""
WIDTHS = 3 * (1.75, 1.75, 2.5, 1.75, 2.5, 3.5)
"""Widths of the second layers of the students tried in turn, for each plane that was seen."""
ROUNDS, GAIN = (3, 6), 0.75
"""How often each changes its points: at least, and at most while it falls to this fraction."""
HOPELESS = 0.1
"""One that leaves more than this of what bends is given up; ..."""
CLOSE = 1e-3
"""... one that leaves less is rid of its surplus units."""
BEHIND = 4.0
"""An activation that is so many times worse than another rests."""
RATIO, LOOK = 9.0, 1000
"""Residuals a parameter: three sets that change; and points from which standard coordinates are taken."""


@dataclass(frozen=True)
class Planes:
    """``normals . x + offsets = 0``, one row a unit.

    For units that are not odd, lengths, negative where they are turned.
    """

    normals: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray
    doubts: np.ndarray
    """Standard errors of the lengths."""


def search_from_rows(
    buy: Buy,
    activations: Sequence[str],
    planes: Planes,
    *,
    rng: np.random.Generator,
    time_limit: float,
) -> OverwideFit:
    """Students of growing second layers on the known planes, until one is exact at minimal width."""
    deadline = clock.now() + time_limit
    x, y = buy(1.0, LOOK)
    standard = Standard.of(x, y)
    num_planes, attempts = len(planes.offsets), list[Attempt]()
    least = dict.fromkeys(activations, np.inf)
    rows: dict[str, np.ndarray] = {}
    for name in activations:
        known = standard_rows(standard, planes, oriented=Form.of(name).unit.reflection is None)
        others = rng.standard_normal((int(np.ceil(FURTHER * num_planes)), known.shape[1]))
        rows[name] = np.vstack(
            [known, ARGUMENT * others / np.linalg.norm(others[:, :-1], axis=1, keepdims=True)]
        )
    for share in WIDTHS:
        for name in activations:
            second = max(int(np.ceil(share * num_planes)), 4)
            layout = Form.of(name).layout((x.shape[1], len(rows[name]), second, y.shape[1]))
            size = layout.num_parameters
            behind = np.isfinite(least[name]) and least[name] > BEHIND * min(least.values())
            if behind or clock.now() > deadline or not fits_memory(int(RATIO * size), size):
                continue
            missing = num_needed(size, RATIO, y.shape[1]) - len(x)
            if missing > 0:
                more_x, more_y = buy(1.0, missing)
                x, y = np.concatenate([x, more_x]), np.concatenate([y, more_y])
                if len(more_x) < missing:
                    break
            course = Class.of(x, y, deadline, standard=standard)
            start = draw_start(layout, course.u[HELD:], course.v[HELD:], rng, [rows[name]])
            racer = Racer([name], layout, start, keen=True)
            for turn in range(ROUNDS[1]):
                course.advance(racer)
                slow = turn + 1 >= ROUNDS[0] and racer.last > GAIN * racer.fresh[-2]
                if slow or not PROMISING < racer.last < HOPELESS:
                    break
            if racer.last < least[name]:
                least[name], rows[name] = racer.last, layout.block(racer.parameters, 0).copy()
            trial = sift_out(course, racer) if racer.last < CLOSE else None
            if trial is None:
                continue
            found, attempt = trial
            attempts.append(attempt)
            if found is not None and found.minimal:
                told = (found.polished, found.undetermined)
                return OverwideFit(found.network, found.rms, True, len(x), tuple(attempts), *told)
    rms = min((attempt.rms for attempt in attempts), default=np.inf)
    return OverwideFit(
        None, rms, False, len(x), tuple(attempts), reason="no student on the planes seen fitted"
    )


def standard_rows(standard: Standard, planes: Planes, oriented: bool) -> np.ndarray:
    """The planes as rows in standard coordinates, biases last: of one length, or turned and as long as was measured."""
    rows = standard.rows(planes.normals, planes.offsets)
    usual = ARGUMENT / np.linalg.norm(rows[:, :-1], axis=1)
    if not oriented:
        return usual[:, None] * rows
    sure = np.abs(planes.lengths) > SURE * planes.doubts
    sizes = np.where(sure, np.clip(np.abs(planes.lengths), usual / SPAN, usual * SPAN), usual)
    rows = (np.where(planes.lengths < 0, -1.0, 1.0) * sizes)[:, None] * rows
    return np.vstack([rows, -rows[~sure]])
