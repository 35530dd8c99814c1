"""Particles that wander on the zero sets of traced units and meet the planes not crossed yet.

A particle moves straight in its facet, in a random direction, to the first plane of the first layer or to the end of
the domain; through planes that are known it goes on along the bent facet, from others it turns back. No question is
asked. Of all places where a unit meets a plane the one with most room around it is worth asking at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.columns import Columns
from unweave.methods.relu.lifted.traces import Traces


@dataclass(frozen=True)
class Particles(Columns):
    """Points on zero sets, with their sides of all planes."""

    unit: np.ndarray
    x: np.ndarray
    signs: np.ndarray

    @staticmethod
    def at(traces: Traces, unit: np.ndarray, x: np.ndarray) -> Particles:
        return Particles(unit, x.copy(), np.where(traces.planes.heights(x) > 0, 1.0, -1.0))


@dataclass(frozen=True)
class Meetings(Columns):
    """Where zero sets meet planes that are not crossed yet."""

    unit: np.ndarray
    plane: np.ndarray
    x: np.ndarray
    signs: np.ndarray
    facet: np.ndarray
    room: np.ndarray
    """Radius around x free of other planes, other zero sets and the end of the domain."""


def wander(
    traces: Traces,
    particles: Particles,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
    num_steps: int = 40,
    stops: list[tuple[np.ndarray, ...]] | None = None,
) -> Meetings:
    """Move all particles ``num_steps`` times, in place; every meeting of a unit with a plane it has not crossed.

    ``stops`` collects (unit, x, facet) at one random place of every step.
    """
    normals, offsets = traces.planes.normals, traces.planes.offsets
    p, rows = len(particles), np.arange(len(particles))
    facet = traces.facets(particles.unit, particles.signs)
    unit, x, signs = particles.unit, particles.x, particles.signs
    last = np.full(p, -1)
    found: list[tuple[np.ndarray, ...]] = []
    for _ in range(num_steps):
        across = facet[:, :-1]
        size = np.einsum("pd,pd->p", across, across)
        x -= ((np.einsum("pd,pd->p", across, x) + facet[:, -1]) / np.maximum(size, 1e-300))[:, None] * across
        v = rng.standard_normal(x.shape)
        # once more: in two inputs little is left of v
        for _ in range(2):
            v -= (np.einsum("pd,pd->p", v, across) / np.maximum(size, 1e-300))[:, None] * across
        v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300)
        at_plane = last >= 0
        back = np.zeros(p, dtype=bool)
        i = np.maximum(last, 0)
        back |= at_plane & (signs[rows, i] * np.einsum("pd,pd->p", v, normals[i]) < 0)
        v[back] *= -1
        heights, rates = x @ normals.T + offsets, v @ normals.T
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(rates * signs < 0, np.maximum(-heights / rates, 0.0), np.inf)
            walls = np.where(v > 0, (high - x) / v, np.where(v < 0, (low - x) / v, np.inf))
        times[rows[at_plane], last[at_plane]] = np.inf
        plane, wall = np.argmin(times, axis=1), np.maximum(np.min(walls, axis=1), 0.0)
        time = times[rows, plane]
        ends = wall <= time
        way = np.minimum(time, wall)
        if stops is not None:
            stops.append((unit, x + (rng.uniform(0.1, 0.9, size=p) * way)[:, None] * v, facet.copy()))
        x += way[:, None] * v
        np.clip(x, low, high, out=x)
        crossed = ~ends & traces.known[unit, plane]
        meets = ~ends & ~crossed
        if meets.any():
            found.append(
                (unit[meets], plane[meets], x[meets].copy(), signs[meets].copy(), facet[meets].copy())
            )
        old = signs[rows, plane]
        signs[rows[crossed], plane[crossed]] *= -1
        change = -2 * traces.beta[unit, plane] * old * crossed
        facet += change[:, None] * traces.ridges[plane]
        last = np.where(ends, -1, plane)
    if not found:
        none = np.zeros(0, dtype=int)
        return Meetings(none, none, x[:0], signs[:0], facet[:0], np.zeros(0))
    unit, plane, x, signs, facet = (np.concatenate(parts) for parts in zip(*found, strict=True))
    meetings = Meetings(unit, plane, x, signs, facet, measure_room(traces, unit, plane, x, low, high))
    return meetings


def measure_room(
    traces: Traces,
    unit: np.ndarray,
    plane: np.ndarray | None,
    x: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> np.ndarray:
    """Radius around places that is free of planes, but their own, of other zero sets and of the end of the box."""
    heights = traces.planes.heights(x)
    rows = np.arange(len(x))
    apart = np.abs(heights)
    if plane is not None:
        apart[rows, plane] = np.inf
    room = np.minimum(apart.min(axis=1), np.minimum(x - low, high - x).min(axis=1))
    # zero sets of the other units, where these are known: a first guess, questions tell
    signs = np.where(heights > 0, 1.0, -1.0)
    for chunk in np.array_split(rows, len(rows) // 4000 + 1):
        z = np.abs(traces.values(x[chunk], heights[chunk]))
        steep = np.linalg.norm(traces.gamma[:, :-1], axis=1) + np.abs(traces.beta).sum(axis=1)
        far = np.where(traces.holds(signs[chunk]), 2 * z / np.maximum(steep, 1e-300), np.inf)
        far[np.arange(len(chunk)), unit[chunk]] = np.inf
        room[chunk] = np.minimum(room[chunk], np.maximum(far.min(axis=1), 0.1 * room[chunk]))
    return room


def pick_best(meetings: Meetings, traces: Traces) -> Meetings:
    """For each unit and plane the meeting with most room, less where the facet is nearly parallel to the plane."""
    normals = traces.planes.normals[meetings.plane]
    across = meetings.facet[:, :-1]
    size = np.linalg.norm(across, axis=1)
    along = np.abs(np.einsum("pd,pd->p", across, normals)) / np.maximum(size, 1e-300)
    score = meetings.room * np.sqrt(np.maximum(1 - along**2, 0.0))
    score = np.where(np.isfinite(score) & np.all(np.isfinite(meetings.x), axis=1), score, -1.0)
    kept = np.flatnonzero(score > 0)
    meetings, score = meetings.take(kept), score[kept]
    key = meetings.unit * traces.known.shape[1] + meetings.plane
    order = np.lexsort((-score, key))
    first = np.append(True, np.diff(key[order]) > 0)[: len(order)]
    return meetings.take(order[first])
