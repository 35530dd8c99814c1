"""Weights of traced units from kinks of lines that lie beyond planes which no question could cross.

Where a zero set meets a plane in a cell too small for the error bars of answers, it goes on beyond all the same, and
lines bend there. A kink beyond one plane that a trace has not crossed gives the weight with which it would lie on the
trace, and then the jump that it must have; kinks of several lines that give the same weight are the unit's own. No
question is asked.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings
from unweave.methods.relu.lifted.traces import Traces

NEAR = 3.0
"""Standard errors that weights may differ by and be the same."""
LEAST = 3
"""Lines that must agree."""
CHANCE = 1e-4
"""Chance of an accident up to which agreement is none."""
VAGUE = 0.05
"""A weight that is known to no better than this share of the facet is no vote."""


def cross_by_votes(sightings: Sightings, traces: Traces, kinks: np.ndarray) -> int:
    """How many weights the numbered kinks, which no trace owns, tell; ``traces`` learns them."""
    s, found = sightings, 0
    if not len(kinks):
        return 0
    heights = traces.planes.heights(s.x[kinks])
    signs = np.where(heights > 0, 1.0, -1.0)
    for j in range(len(traces)):
        strange = ~traces.known[j] & (signs != traces.sides[j])
        rows = np.flatnonzero(strange.sum(axis=1) == 1)
        if len(rows) < LEAST:
            continue
        plane = np.argmax(strange[rows], axis=1)
        weight, error, good = _votes(s, traces, j, kinks[rows], heights[rows], signs[rows], plane)
        for p in np.unique(plane[good]):
            own = np.flatnonzero(good & (plane == p))
            best = _agree(weight[own], error[own], s.line[kinks[rows[own]]])
            if best is not None:
                traces.cross(j, int(p), *best)
                found += 1
    return found


def _votes(s: Sightings, traces: Traces, j: int, kinks, heights, signs, plane):
    """The weight on its plane with which each kink would lie on the trace, its error, and whether the jump is right."""
    rows, who = np.arange(len(kinks)), np.full(len(kinks), j)
    x, v = s.x[kinks], s.across[kinks]
    away = np.abs(heights[rows, plane])
    facet = traces.facets(who, signs)
    rate = np.einsum("nd,nd->n", facet[:, :-1], v)
    value = traces.values(x, heights)[:, j]
    weight = -value / (2 * away)
    turned = 2 * traces.sides[j, plane] * np.einsum("nd,nd->n", traces.planes.normals[plane], v)
    # the trace has no weight on the plane yet, so that its facet there is the one before the plane
    rate = rate - weight * turned
    blur = traces.spread(who, x, heights)
    error = (s.error[kinks] * np.abs(rate) + blur) / (2 * away)
    slack = s.jump_error[kinks] + traces.turn[j] * np.abs(rate) + error * np.abs(turned)
    slack = slack + traces.spread_along(who, v, signs)
    misses = np.max(np.abs(s.jump[kinks] - np.abs(rate)[:, None] * traces.output[j]), axis=1)
    size = np.linalg.norm(traces.gamma[j, :-1])
    steep = np.linalg.norm(s.jump[kinks], axis=1)
    return (
        weight,
        error,
        (misses <= DEVIATIONS * slack) & (DEVIATIONS * slack < steep) & (error < VAGUE * size),
    )


def _agree(weight: np.ndarray, error: np.ndarray, line: np.ndarray) -> tuple[float, float] | None:
    """The weight that most votes agree on, and its error; None where they may agree by accident."""
    near = np.abs(weight[:, None] - weight) <= NEAR * (error[:, None] + error)
    counts = np.array([len(np.unique(line[row])) for row in near])
    best = int(np.argmax(counts))
    own = near[best]
    width = 2 * NEAR * (error[best] + float(np.median(error[own])))
    spread = float(np.ptp(np.quantile(weight, [0.1, 0.9]))) + width
    accident = len(weight) * width / max(spread, 1e-300)
    accident = min(1.0, accident) if np.sum(~own) else width / max(abs(float(weight[best])), width)
    if counts[best] < LEAST or len(weight) * accident ** (int(counts[best]) - 1) > CHANCE:
        return None
    shares = 1 / error[own] ** 2
    return float(weight[own] @ shares / shares.sum()), float(np.sqrt(1 / shares.sum()))
