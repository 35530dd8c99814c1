"""Where to ask so that missing units can be told: around wrong answers, and beyond the planes next to what has grown.

A unit begins where answers around a wrong one fit one affine function, and grows by votes from beyond one plane more
(``consensus``). Where too few answers lie there, these are the places. Nothing is asked here.
"""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.methods.relu.lifted.consensus import MARGIN, Grown, Left, grow_unit

AROUND, LEAST_REACH, MOST_REACH = 2, 1e-3, 0.05
"""Places around a wrong answer for each weight of an affine function, and how far away, relative to the box."""
VOTERS, TRIES = 6, 1500
"""Places beyond a plane, and points that are looked at for them."""
FARTHER = 1.5
"""How far beyond what has grown, relative to its own extent."""


def places_to_grow(
    state: Left, starts: np.ndarray, domain: Domain, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Points (n, d) that would let units begin at the wrong answers numbered ``starts``, and grow."""
    places, seen = [], np.zeros(len(state.x), dtype=bool)
    for start in starts:
        if seen[start]:
            continue
        grown = grow_unit(state, start)
        if grown is None:
            places.append(_around(state, start, low, high, rng))
        else:
            seen[grown.rows] = True
            places.append(_beyond(state, grown, low, high, rng))
    return domain.nearest(np.concatenate(places)) if places else np.zeros((0, len(low)))


def _around(state: Left, start: int, low, high, rng: np.random.Generator) -> np.ndarray:
    """Points so near that no known plane, nor an answer that is right, lies between."""
    x = state.x[start, :-1]
    room = np.min(np.abs(state.u[start]) / np.linalg.norm(state.point.rows[:, :-1], axis=1), initial=np.inf)
    right = state.x[~state.wrong, :-1]
    if len(right):
        room = min(room, float(np.min(np.linalg.norm((right - x) / (high - low), axis=1)) * np.min(high - low)))
    size = float(np.mean(high - low))
    reach = np.clip(0.5 * room, LEAST_REACH * size, MOST_REACH * size)
    ways = rng.standard_normal((AROUND * (len(x) + 2) + 4, len(x)))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    return x + reach * rng.uniform(0.3, 1.0, (len(ways), 1)) * ways


def _beyond(state: Left, grown: Grown, low, high, rng: np.random.Generator) -> np.ndarray:
    """Points at which the unit is on beyond one plane on which its weight is not known."""
    own = state.x[grown.rows, :-1]
    if len(own) < 2:
        return own[:0]
    start, one, other = (own[rng.integers(len(own), size=TRIES)] for _ in range(3))
    x = start + FARTHER * rng.uniform(size=(TRIES, 1)) * (one - other)
    x = x[np.all((x >= low) & (x <= high), axis=1)]
    x1 = np.hstack([x, np.ones((len(x), 1))])
    u = x1 @ state.point.rows.T
    value = x1 @ grown.gamma + np.abs(u) @ grown.beta
    strange = (-grown.sides * u > MARGIN) & ~grown.known
    useful = (value > 0) & (strange.sum(axis=1) == 1)
    x, strange = x[useful], strange[useful]
    chosen = [np.flatnonzero(strange[:, plane])[:VOTERS] for plane in range(strange.shape[1])]
    return x[np.concatenate(chosen)]
