"""Whether units have a crease, as softsign does: across their planes the second derivative of the answers jumps.

On a far circle a unit that levels off stands alone. Where the answers change most they are asked ever more closely:
a quarter of the spacing leaves 1/256 of the fourth differences of smooth answers, but 1/16 where the second derivative
jumps.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from unweave.evidence.meter import Meter

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
"""Fourth differences are looked at down to so many times the rounding of the answers and of their places."""


def shows_crease(meter: Meter, rng: np.random.Generator) -> bool:
    """Whether the strongest unit of one of a few far circles has a crease (stage ``creases``)."""
    with meter.stage("creases"):
        return any(_has_crease(meter, rng) for _ in range(NUM_CIRCLES))


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
    centre, half = (low + high) / 2, (high - low) * 2.0**WIDE
    sizes: list[float] = []  # of fourth differences
    for _ in range(MOST_ZOOMS):
        angles = np.linspace(centre - half, centre + half, NUM_ACROSS)
        answers = ask(angles)
        fourth = np.linalg.norm(np.diff(answers, n=4, axis=0), axis=1)
        place = int(np.argmax(fourth))
        steepest = float(np.max(np.abs(np.diff(answers, axis=0)))) / (angles[1] - angles[0])
        if fourth[place] < CLEAR * EPS * (steepest + float(np.max(np.abs(answers)))):
            break
        sizes.append(float(fourth[place]))
        centre, half = float(angles[place + 2]), half / ZOOM
        last = sizes[-1 - NUM_RATIOS :]
        ratios = [finer / coarser for coarser, finer in pairwise(last)]
        if len(ratios) == NUM_RATIOS and all(CREASED[0] < ratio < CREASED[1] for ratio in ratios):
            return True
    return False
