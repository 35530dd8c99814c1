"""Planes of the first layer told by two kinks: the bend of the answers differs along them.

Along a facet of a second-layer unit the answers bend by the same amount wherever they do. A unit of the first layer is
seen through the second, so that its bend changes where units of that one switch. Two kinks on one plane with different
bends are such a unit, be its plane in a corner of the domain that lines and other planes hardly meet.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.facets import facet_plane, spread_over
from unweave.methods.relu.lifted.planes import LUCK, Planes, explained
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings

CLEARLY = 1e-4
"""Relative difference of two bends, beyond their errors, that is one."""


def find_changing(sightings: Sightings, planes: Planes) -> Planes:
    """Planes beside those known, each through two facets or more that bend differently."""
    s, found = sightings, Planes.none(planes.normals.shape[1])
    kinks = np.flatnonzero(s.measured & ~explained(s, planes))
    kinks = kinks[np.argsort(s.facet_error[kinks] / s.size[kinks], kind="stable")]
    while len(kinks):
        m, kinks = int(kinks[0]), kinks[1:]
        on = kinks[_on_plane(s, m, kinks)]
        if len(on):
            kinks = np.setdiff1d(kinks, on, assume_unique=True)
            kinks = kinks[np.argsort(s.facet_error[kinks] / s.size[kinks], kind="stable")]
            if np.any(_differ(s, m, on)):
                normal, offset, covariance = facet_plane(s, m)
                one = Planes(normal[None], np.array([offset]), covariance[None], np.ones(1))
                found = found.join(one)
    return found


def _on_plane(s: Sightings, m: int, others: np.ndarray) -> np.ndarray:
    """Which of the other facets are on the plane of facet ``m``, to their errors and not by accident."""
    normal, offset, covariance = facet_plane(s, m)
    size = s.size[others]
    normals = s.facet[others, :-1] / size[:, None]
    turned = np.sign(normals @ normal)
    slack = DEVIATIONS * (s.facet_error[others] / size + s.facet_error[m] / s.size[m]) + 1e-12
    height = np.abs(s.x[others] @ normal + offset)
    rates = np.abs(np.einsum("nd,d->n", s.across[others], normal))
    allowed = DEVIATIONS * (spread_over(s.x[others], covariance) + s.error[others] * rates) + 1e-12
    aside = np.linalg.norm(turned[:, None] * normals - normal, axis=1)
    reach = np.maximum(np.ptp(s.x, axis=0).max(), 1e-300)
    chance = len(s) * np.minimum(1.0, slack) ** (len(normal) - 1) * np.minimum(1.0, allowed / reach)
    return (aside <= slack) & (height <= allowed) & (chance < LUCK)


def _differ(s: Sightings, m: int, others: np.ndarray) -> np.ndarray:
    """Which of the other facets bend the answers differently from facet ``m``, whichever way lines crossed them."""
    bends = s.size[:, None] * s.output
    error = s.facet_error[others] + s.facet_error[m]
    apart = np.linalg.norm(bends[others] - bends[m], axis=1)
    return apart > 2 * DEVIATIONS * error + CLEARLY * s.size[m]
