"""Short lines just beyond the next plane of a unit's zero set, where its facet bends by one weight not known yet.

Inside its cell a facet is known exactly; it is followed, without a question, in random directions to the first plane
of the first layer. If that plane lies between no two facets of the unit yet, a short line across the continuation, a
little beyond the plane, shows the facet there: it differs by one multiple of that plane.
"""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.units import Unit
from unweave.probes.lines import Lines, clip_to_domain

NUM_WAYS = 24
"""Directions in which a facet is followed."""


def walk_lines(
    planes: Planes,
    units: list[Unit],
    x: np.ndarray,
    facets: np.ndarray,
    domain: Domain,
    rng: np.random.Generator,
    *,
    per_unit: int = 4,
    max_lines: int = 96,
    done: set[tuple[bytes, int]] | None = None,
) -> Lines | None:
    """Lines across the continuation of units beyond planes not shown; ``x`` and ``facets`` are those of all kinks."""
    if not len(planes):
        return None
    origins, directions, halves = [], [], []
    done = set() if done is None else done
    for unit in units:
        found = _ways(planes, unit, x, facets, domain, rng)
        taken: set[int] = set()
        for plane, start, way, normal, room, key in found:
            if plane in taken or (key, plane) in done:
                continue
            taken.add(plane)
            done.add((key, plane))
            origins.append(start + 0.35 * room * way)
            directions.append(normal)
            halves.append(1.5 * room)
            if len(taken) >= per_unit:
                break
        if len(origins) >= max_lines:
            break
    if not origins:
        return None
    o, v, h = np.array(origins), np.array(directions), np.array(halves)
    high, low = np.minimum(h, clip_to_domain(domain, o, v)), np.minimum(h, clip_to_domain(domain, o, -v))
    keep = (high > 1e-3 * h) & (low > 1e-3 * h)
    return Lines(o[keep], v[keep], -low[keep], high[keep], h[keep]) if keep.any() else None


def _ways(planes: Planes, unit: Unit, x, facets, domain: Domain, rng):
    """(plane, where it is met, direction, normal, room beyond, kink) for planes not told yet, roomiest first."""
    members = unit.members[rng.permutation(len(unit.members))[:12]]
    d = x.shape[1]
    here = np.repeat(x[members], NUM_WAYS, axis=0)
    normals = facets[members, :-1] / np.linalg.norm(facets[members, :-1], axis=1, keepdims=True)
    normals = np.repeat(normals, NUM_WAYS, axis=0)
    ways = rng.standard_normal((len(here), d))
    ways -= np.einsum("nd,nd->n", ways, normals)[:, None] * normals
    ways /= np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300)
    rates, heights = ways @ planes.normals.T, planes.heights(here)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(heights * rates < 0, -heights / rates, np.inf)
    order = np.argsort(times, axis=1)[:, :2] if times.shape[1] > 1 else np.zeros((len(times), 1), dtype=int)
    first = order[:, 0]
    rows = np.arange(len(here))
    reach = times[rows, first]
    after = times[rows, order[:, 1]] if order.shape[1] > 1 else np.full(len(rows), np.inf)
    good = np.isfinite(reach) & ~unit.told[first]
    # the room beyond: up to the next plane along the way, and off the others sideways
    start = here + np.where(np.isfinite(reach), reach, 0.0)[:, None] * ways
    others = np.abs(planes.heights(start))
    others[rows, first] = np.inf
    beyond = np.where(np.isfinite(reach), after - np.where(np.isfinite(reach), reach, 0.0), 0.0)
    room = np.minimum(np.minimum(beyond, np.min(others, axis=1)), 1 + np.linalg.norm(start, axis=1))
    inside = domain.contains(start + room[:, None] * ways)
    room = np.where(inside, room, 0.5 * np.minimum(room, clip_to_domain(domain, start, ways)))
    good &= (room > 1e-6 * (1 + np.linalg.norm(start, axis=1))) & domain.contains(start)
    rows = rows[good]
    return [
        (int(first[i]), start[i], ways[i], normals[i], float(room[i]), x[members[i // NUM_WAYS]].tobytes())
        for i in rows[np.argsort(-room[rows])]
    ]
