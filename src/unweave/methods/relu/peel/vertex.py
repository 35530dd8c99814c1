"""What happens where a facet is no longer seen: it bends, or it does not show beyond.

There another zero set crosses. In a plane across both, rays leave the place in up to four directions: two of the facet,
two of the other. Where the facet goes on in another direction their number is even; where it stops to show, because the
other unit is off beyond, there are three.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.peel.trails import WIDTH, Region, clearance
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import Lines
from unweave.probes.looks import look

HALVINGS = 16
"""Times that the way between a place where the facet is seen and one where it is not is halved."""
AROUND, ROOM = 1e-3, 0.2
"""Half width of the square around the place, relative to the domain, and to the next known border."""
OPPOSITE = 0.02
"""Two rays are one straight line if they differ by less, relative to the square."""


def bends_at_end(
    region: Region, features: Known | Lifted, seen: np.ndarray, gone: np.ndarray, normal: np.ndarray
) -> bool:
    """Whether the facet surely bends between a place where it is seen and one where it is not."""
    across = normal / np.linalg.norm(normal)
    for _ in range(HALVINGS):
        middle = (seen + gone) / 2
        width = np.minimum(
            WIDTH * region.scale,
            0.1 * np.minimum(clearance(features, middle[None]), region.room(middle[None])),
        )
        width = np.minimum(width, np.linalg.norm(gone - seen))
        shown = look(region.inquiry, middle[None], across[None], width)
        if not (shown.bent | shown.straight)[0]:
            break
        near = shown.bent[0] and abs(shown.shift[0]) < 0.01 * width[0]
        seen, gone = (middle, gone) if near else (seen, middle)
    place, apart = (seen + gone) / 2, float(np.linalg.norm(gone - seen))
    half = float(
        min(
            AROUND * region.scale,
            ROOM * min(clearance(features, place[None])[0], region.room(place[None])[0]),
        )
    )
    if half < 20 * apart:
        return False
    along = (gone - seen) / apart
    rays = _rays(region, place, along, across, half)
    back = (rays[:, 0] < 0) & (np.abs(rays[:, 1]) < OPPOSITE)
    ahead = (rays[:, 0] > 0) & (np.abs(rays[:, 1]) < OPPOSITE)
    return bool(back.sum() == 1 and not ahead.any() and len(rays) in (2, 4))


def _rays(region: Region, place, along, across, half: float) -> np.ndarray:
    """Where the answers bend on a square around the place, in units of its half width."""
    corners = [(-1, -1, 1, 0), (1, -1, 0, 1), (1, 1, -1, 0), (-1, 1, 0, -1)]
    starts = np.array([place + half * (a * along + b * across) for a, b, _, _ in corners])
    ways = np.array([a * along + b * across for _, _, a, b in corners])
    zeros = np.zeros(4)
    lines = Lines(starts, ways, zeros, zeros + 2 * half, zeros + 2 * half)
    found = []
    for (a, b, c, d), scan in zip(corners, find_kinks(region.inquiry, lines), strict=True):
        t = np.append(scan.positions, scan.unresolved) / half
        found += [(a + c * s, b + d * s) for s in t]
    return np.array(found).reshape(-1, 2)
