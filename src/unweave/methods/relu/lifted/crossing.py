"""What a second-layer unit's weight is, from eleven questions where its zero set meets a plane of the first layer.

Across the plane the gradient of the answers jumps by ``e`` where the unit is off and by ``e + output * b`` where it is
on, whatever else is added up there. So b is a difference of two second differences, on both sides of the zero set.
Five more questions see whether the answers bend where the zero set must lie beyond the plane, and as they must. Where
they bend tells the weight once more, and better: over all of the way beyond the plane, not of the short step across it.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.fit_trace import Places
from unweave.methods.relu.lifted.sharpen import meet_lines
from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.wander import Meetings
from unweave.probes.inquiry import Inquiry

ROUGH = 0.05
"""A weight whose error is larger than this share of the facet is not read."""

ABOUT = 0.2
"""How far a bend beyond a plane may be from what it should be, relative to it."""
ROUGHEST = 0.1
"""Error of its place, relative to the step at which answers around it are asked."""


def measure_crossings(
    inquiry: Inquiry, traces: Traces, meetings: Meetings, *, max_tries: int = 4
) -> tuple[np.ndarray, list[tuple[int, Places]]]:
    """Cross the planes at these meetings; which of them were crossed. ``traces`` learns their weights.

    And places of the zero sets that were met beyond the planes, each with the number of its trace.
    """
    done, places = np.zeros(len(meetings), dtype=bool), []
    room, thin = meetings.room.copy(), np.ones(len(meetings))
    for _ in range(max_tries):
        rows = np.flatnonzero(~done)
        rows = rows[_can_tell(inquiry, traces, meetings.take(rows), room[rows], thin[rows])]
        if not len(rows):
            break
        good, b, error, thinner, beyond = _try(inquiry, traces, meetings.take(rows), room[rows], thin[rows])
        for row in np.flatnonzero(good):
            number = rows[row]
            unit, plane = int(meetings.unit[number]), int(meetings.plane[number])
            if not traces.known[unit, plane]:
                traces.cross(unit, plane, b[row] / 2, error[row] / 2)
                places.append((unit, tuple(part[row : row + 1] for part in beyond)))
        done[rows[good]] = True
        # a large weight wants a shorter step across the plane, any other failure less room
        thin[rows] *= thinner
        room[rows] *= np.where(thinner < 1, 1.0, 0.3)
    return done, places


def _lengths(traces: Traces, m: Meetings, room: np.ndarray, thin: np.ndarray):
    """The normals, the facets' slopes within the planes (n, d), and steps along these and across the planes."""
    normal = traces.planes.normals[m.plane]
    across = m.facet[:, :-1]
    along = np.einsum("nd,nd->n", across, normal)
    flat = across - along[:, None] * normal
    steep = np.maximum(np.linalg.norm(flat, axis=1), 1e-300)
    apart = 0.4 * room
    step = thin * np.minimum(0.3 * room, 0.4 * apart * steep / np.maximum(np.abs(along), 1e-300))
    return normal, flat, steep, apart, step


def _can_tell(inquiry: Inquiry, traces: Traces, m: Meetings, room: np.ndarray, thin: np.ndarray):
    """At which meetings there is room enough for the error bars of answers and of the unit."""
    _, _, steep, apart, step = _lengths(traces, m, room, thin)
    error = 4 * inquiry.bars(m.x, np.zeros((len(m), 1))) / np.maximum(step, 1e-300)
    blur = traces.spread(m.unit, m.x, traces.planes.heights(m.x))
    fine = error <= ROUGH * np.linalg.norm(m.facet[:, :-1], axis=1)
    return fine & (DEVIATIONS * blur < 0.5 * apart * steep)


def _try(inquiry: Inquiry, traces: Traces, m: Meetings, room: np.ndarray, thin: np.ndarray):
    """One attempt: which are good, the weights, their errors, by how much steps are too long, and places beyond."""
    n = len(m)
    rows = np.arange(n)
    side = m.signs[rows, m.plane]
    output = traces.output[m.unit]
    across = m.facet[:, :-1]
    normal, flat, steep, apart, step = _lengths(traces, m, room, thin)
    v = flat / steep[:, None]
    # onto the plane, exactly as far as it is known
    x = m.x - traces.planes.heights(m.x)[rows, m.plane][:, None] * normal
    on, off = x + apart[:, None] * v, x - apart[:, None] * v
    lift = step[:, None] * normal
    points = np.concatenate([on, on + lift, on - lift, off, off + lift, off - lift])
    domain = inquiry.meter.domain
    points = domain.nearest(points)
    answers, bars = inquiry.ask(points)
    bars = bars.reshape(6, n).max(axis=0)
    parts = answers.reshape(6, n, -1)
    jump = parts[1] + parts[2] - 2 * parts[0] - (parts[4] + parts[5] - 2 * parts[3])
    jump = jump / step[:, None]
    error = 4 * bars / step
    b = np.einsum("nk,nk->n", jump, output)
    rest = np.linalg.norm(jump - b[:, None] * output, axis=1)
    size = np.linalg.norm(across, axis=1)
    blur = traces.spread(m.unit, m.x, traces.planes.heights(m.x))
    turn = traces.turn[m.unit]
    good = rest <= DEVIATIONS * (error + turn * np.abs(b))
    good &= (error <= ROUGH * size) & (DEVIATIONS * blur < 0.5 * apart * steep)
    deep = np.abs(b) * step < 0.5 * apart * steep
    # beyond: the bent facet, and whether the answers bend there
    far = m.facet - (b * side)[:, None] * traces.ridges[m.plane]
    beyond = far[:, :-1]
    length = np.maximum(np.linalg.norm(beyond, axis=1), 1e-300)
    across_far = beyond / length[:, None]
    slide = -side[:, None] * normal
    slide = slide - np.einsum("nd,nd->n", slide, across_far)[:, None] * across_far
    slant = np.linalg.norm(slide, axis=1)
    slide = slide / np.maximum(slant, 1e-300)[:, None]
    good &= deep & (slant > 1e-4)
    go = np.flatnonzero(good)
    reach, tilt = 0.5 * room, np.abs(np.einsum("nd,nd->n", across_far, normal))
    y = x + reach[:, None] * slide
    y = y - ((np.einsum("nd,nd->n", y, beyond) + far[:, -1]) / length)[:, None] * across_far
    width = np.minimum(0.25 * room, 0.5 * reach * slant / np.maximum(tilt, 1e-300))
    jump, jump_error, place_error = np.zeros(n), np.full(n, np.inf), np.full(n, np.inf)
    if len(go):
        met, shift, spot, jumps, bar = meet_lines(inquiry, y[go], across_far[go], width[go], ROUGHEST)
        jump[go], jump_error[go] = np.einsum("nk,nk->n", jumps, output[go]), bar
        place_error[go] = spot * length[go]
        aside = np.linalg.norm(jumps - jump[go, None] * output[go], axis=1)
        off = np.abs(jump[go] - length[go])
        met &= (off <= DEVIATIONS * (bar + error[go]) + 1e-9 * length[go]) & (off <= ABOUT * length[go])
        met &= aside <= DEVIATIONS * (bar + turn[go] * length[go])
        slack = (error * reach + blur)[go] + place_error[go]
        met &= np.abs(shift) * length[go] <= DEVIATIONS * slack
        good[go] = met
        # the weight with which the zero set lies where it was met
        y[go] += shift[:, None] * across_far[go]
        away = (
            np.einsum("nd,nd->n", y[go], traces.planes.normals[m.plane[go]])
            + traces.planes.offsets[m.plane[go]]
        )
        away = np.where(np.abs(away) > 0, away, 1e-300)
        blur_there = traces.spread(m.unit[go], y[go], traces.planes.heights(y[go]))
        better = (blur_there + place_error[go]) / np.abs(away)
        found = b[go] + length[go] * shift / (side[go] * away)
        b[go], error[go] = np.where(better < error[go], (found, better), (b[go], error[go]))
    thinner = np.where(
        deep, 1.0, np.clip(0.3 * apart * steep / np.maximum(np.abs(b) * step, 1e-300), 0.01, 0.5)
    )
    return good, b, error, thinner, (y, place_error, far, np.abs(jump), jump_error)
