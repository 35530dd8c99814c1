"""Traced units to the accuracy of the answers, from places of their zero sets that tell most.

A unit is linear in its parameters: where its zero set lies at a place is one equation for them. Particles offer places;
of these the ones are asked at, five questions each, at which the unit's value is least certain, in the order in which
each lowers what the ones before have left open.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.sharpen import meet_lines
from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.wander import Particles, measure_room, wander
from unweave.probes.inquiry import Inquiry

STEP, READABLE = 0.25, 0.25
"""Answers are asked so far from a place, relative to its room, and bends so far from it, relative to that, are read."""
GOAL = 4.0
"""Values of a unit are to be known to so many errors of one place."""


def offer_places(
    traces: Traces,
    particles: Particles,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
    num_steps: int = 25,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(unit, x, facet, room) all over the zero sets."""
    stops: list[tuple[np.ndarray, ...]] = []
    wander(traces, particles, low, high, rng, num_steps, stops)
    unit, x, facet = (np.concatenate(parts) for parts in zip(*stops, strict=True))
    room = measure_room(traces, unit, None, x, low, high)
    blur = traces.spread(unit, x, traces.planes.heights(x)) / np.linalg.norm(facet[:, :-1], axis=1)
    good = (room > 1e-3 * np.median(room)) & (DEVIATIONS * blur < READABLE * STEP * room)
    return unit[good], x[good], facet[good], room[good]


def choose_places(
    traces: Traces,
    unit: np.ndarray,
    x: np.ndarray,
    facet: np.ndarray,
    room: np.ndarray,
    inquiry: Inquiry,
    most: int,
) -> np.ndarray:
    """Rows of the places to ask at, at most ``most`` a unit."""
    bars = inquiry.bars(x, np.zeros((len(x), 1))) * 3
    chosen: list[int] = []
    heights = np.abs(traces.planes.heights(x))
    for j in range(len(traces)):
        rows = np.flatnonzero(unit == j)
        if not len(rows):
            continue
        features = np.hstack([x[rows], np.ones((len(rows), 1)), heights[rows]])
        # the place of the bend is known to bars / jump, the jump over the step being size * room / 4
        sigma = bars[rows]
        covariance = traces.covariance[j].copy()
        product = features @ covariance
        spread = np.einsum("np,np->n", product, features)
        for _ in range(most):
            gain = spread / sigma**2
            best = int(np.argmax(gain))
            if gain[best] < GOAL**2:
                break
            chosen.append(int(rows[best]))
            # what the place leaves open
            direction = product[best] / np.sqrt(spread[best] + sigma[best] ** 2)
            along = features @ direction
            spread = spread - along**2
            product = product - along[:, None] * direction
            spread[best] = 0.0
    return np.array(chosen, dtype=int)


def measure_places(
    inquiry: Inquiry, traces: Traces, unit: np.ndarray, x: np.ndarray, facet: np.ndarray, room: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Bends at places of zero sets: which were read, where they are, and their errors in the unit's own scale."""
    size = np.linalg.norm(facet[:, :-1], axis=1)
    normal = facet[:, :-1] / size[:, None]
    step = STEP * room
    heights = traces.planes.heights(x)
    blur = traces.spread(unit, x, heights) / size
    steepness = traces.spread_along(unit, normal, np.where(heights > 0, 1.0, -1.0))
    good, shift, error = np.zeros(len(x), dtype=bool), np.zeros(len(x)), np.full(len(x), np.inf)
    jump, jump_error = np.zeros(len(x)), np.full(len(x), np.inf)
    for _ in range(3):
        rows = np.flatnonzero(~good)
        if not len(rows):
            break
        good[rows], shift[rows], error[rows], jumps, jump_error[rows] = meet_lines(
            inquiry, x[rows], normal[rows], step[rows]
        )
        jump[rows] = np.linalg.norm(jumps, axis=1)
        good &= np.abs(shift) <= DEVIATIONS * (blur + error)
        good &= np.abs(jump - size) <= DEVIATIONS * np.maximum(jump_error, steepness) + 0.05 * size
        step[~good] *= 0.2
    return good, x + shift[:, None] * normal, error * size, jump, jump_error
