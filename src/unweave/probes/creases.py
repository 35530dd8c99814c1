"""Whether units have a crease, as softsign and elu do: across their planes the second derivative of the answers jumps.

Where the answers change most they are asked ever more closely: a quarter of the spacing leaves 1/256 of the fourth
differences of smooth answers, but 1/16 where the second derivative jumps. On a far circle a unit that levels off stands
alone; in a domain that ends lines across it are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.probes.lines import draw_lines

RADIUS = 1e4
"""Far enough for planes to lie apart, near enough for places to be exact."""
NUM_CIRCLES = 3
NUM_AROUND, NUM_ACROSS = 65, 65
MOST_HALVINGS, WIDE = 40, 3
"""A place is found once so many halvings in a row left parts on both sides."""
EVEN = 0.8
MOST_ZOOMS, ZOOM, NUM_RATIOS = 9, 4, 2
"""The first zooms may only find the place; so many in a row decide."""
CREASED = 1 / 40, 1 / 7
"""What each zoom leaves of them: 1/16, and 1/256 where the answers are smooth."""
CLEAR, EPS = 1e3, 2.0**-52
"""Fourth differences are looked at down to so many times the rounding of the answers and of their places ..."""
CLEARLY = 100.0
"""... and the error of an answer."""
NUM_LINES, NUM_ALONG, SMOOTH = 2, 129, 1 / 100
"""Lines across a domain, and points on each; a quarter of the spacing leaves less than this of a smooth one."""

Ask = Callable[[np.ndarray], np.ndarray]


def shows_crease(meter: Meter, rng: np.random.Generator) -> bool:
    """Whether the strongest unit of one of a few far circles has a crease (stage ``creases``)."""
    with meter.stage("creases"):
        return any(_has_crease(meter, rng) for _ in range(NUM_CIRCLES))


def crosses_crease(meter: Meter, precision: Precision, rng: np.random.Generator) -> bool:
    """Whether one of two lines across a domain that ends meets a crease (stage ``creases``)."""
    lines = draw_lines(meter.domain, NUM_LINES, meter.input_size, rng)
    with meter.stage("creases"):
        for number in range(NUM_LINES):

            def ask(t: np.ndarray, number: int = number) -> np.ndarray:
                return meter.ask(lines.points(np.full(len(t), number), t))

            ends = float(lines.low[number]), float(lines.high[number])
            t = np.linspace(*ends, NUM_ALONG)
            answers = ask(t)
            fine, coarse = (_fourth_differences(answers[::stride]) for stride in (1, 4))
            place, clear = int(np.argmax(fine)), CLEARLY * precision.noise
            if fine[place] <= max(clear, SMOOTH * float(np.max(coarse))):
                continue
            if _stays_creased(ask, float(t[place + 2]), 2 * ZOOM * float(t[1] - t[0]), ends, clear):
                return True
    return False


def _has_crease(meter: Meter, rng: np.random.Generator) -> bool:
    first, second = np.linalg.qr(rng.standard_normal((meter.input_size, 2)))[0].T

    def ask(angles: np.ndarray) -> np.ndarray:
        return meter.ask(RADIUS * (np.cos(angles)[:, None] * first + np.sin(angles)[:, None] * second))

    angles = np.linspace(0, np.pi, NUM_AROUND)
    answers = ask(angles)
    i = int(np.argmax(np.linalg.norm(np.diff(answers, axis=0), axis=1)))
    low, high, before, after = angles[i], angles[i + 1], answers[i], answers[i + 1]
    num_even = 0
    for _ in range(MOST_HALVINGS):
        middle = (low + high) / 2
        there = ask(np.array([middle]))[0]
        left, right = float(np.linalg.norm(there - before)), float(np.linalg.norm(after - there))
        if left > right:
            high, after = middle, there
        else:
            low, before = middle, there
        num_even = num_even + 1 if max(left, right) < EVEN * (left + right) else 0
        if num_even == WIDE:
            break
    return _stays_creased(ask, (low + high) / 2, (high - low) * 2.0**WIDE)


def _stays_creased(
    ask: Ask,
    centre: float,
    half: float,
    ends: tuple[float, float] = (-np.inf, np.inf),
    least: float = 0.0,
) -> bool:
    """Whether fourth differences shrink as those of a crease do around a place that is asked ever more closely."""
    sizes: list[float] = []  # of fourth differences
    for _ in range(MOST_ZOOMS):
        centre = min(max(centre, ends[0] + half), ends[1] - half)
        places = np.linspace(centre - half, centre + half, NUM_ACROSS)
        answers = ask(places)
        fourth = _fourth_differences(answers)
        place = int(np.argmax(fourth))
        steepest = float(np.max(np.abs(np.diff(answers, axis=0)))) / (places[1] - places[0])
        rounding = EPS * (steepest * max(1.0, abs(centre)) + float(np.max(np.abs(answers))))
        if fourth[place] < max(CLEAR * rounding, least):
            break
        sizes.append(float(fourth[place]))
        centre, half = float(places[place + 2]), half / ZOOM
        last = sizes[-1 - NUM_RATIOS :]
        ratios = [finer / coarser for coarser, finer in pairwise(last)]
        if len(ratios) == NUM_RATIOS and all(CREASED[0] < ratio < CREASED[1] for ratio in ratios):
            return True
    return False


def _fourth_differences(answers: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.diff(answers, n=4, axis=0), axis=1)
