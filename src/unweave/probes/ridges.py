"""Units that answer alike on both sides: narrow ridges on far answers that are the same in every direction.

A unit like exp(-z^2) or sech leaves its plane as a ridge that goes on for ever, no wider and no lower far out. Units
that are constant far out leave none where the answers on both sides of their planes agree, and what else lies between
constant answers is a wedge, as wide as it is far. The highest point of a circle is followed outwards.
"""

from __future__ import annotations

import numpy as np

from unweave.evidence.meter import Meter

NEAREST, FARTHEST = 64.0, 1e6
NUM_AROUND, NUM_ACROSS = 256, 33
AWAY = 4.0
"""How far to both sides of the highest place a ridge is looked at, in its own half widths."""
WIDER = 8.0
"""What becomes so many times as wide is no ridge; the first width is that of the place that was looked at at most."""
CLEAR, GONE = 1e-3, 0.3
"""Share of the answers' scale that a ridge rises to, and of its height that is left beside it, or of it far out."""


def shows_ridge(meter: Meter, level: np.ndarray, scale: float, rng: np.random.Generator) -> bool:
    """Whether a ridge over the constant ``level`` goes on as far as one looks (stage ``ridges``)."""
    first, second = np.linalg.qr(rng.standard_normal((meter.input_size, 2)))[0].T

    def height(angles: np.ndarray, radius: float) -> np.ndarray:
        x = radius * (np.cos(angles)[:, None] * first + np.sin(angles)[:, None] * second)
        return np.max(np.abs(meter.ask(x) - level), axis=1)

    with meter.stage("ridges"):
        angles = np.linspace(0, 2 * np.pi, NUM_AROUND, endpoint=False)
        place = float(angles[np.argmax(height(angles, NEAREST))])
        arc, radius, heights, widths = 2 * np.pi / NUM_AROUND * NEAREST, NEAREST, [], []
        while True:
            angles = place + arc / radius * np.linspace(-1, 1, NUM_ACROSS)
            found = height(angles, radius)
            place = float(angles[np.argmax(found)])
            heights.append(float(np.max(found)))
            if heights[-1] < CLEAR * scale:
                return False
            widths.append(max(float(np.mean(found > heights[-1] / 2)), 2 / NUM_ACROSS) * arc)
            if radius >= FARTHEST or widths[-1] > WIDER * widths[0]:
                break
            arc, radius = AWAY * widths[-1], 2 * radius
    alone = float(max(found[0], found[-1])) < GONE * heights[-1]
    return alone and widths[-1] <= WIDER * widths[0] and GONE <= heights[-1] / heights[0] <= 1 / GONE
