"""Second-layer units as ridge sums over the planes of the first layer, grown from facets or read off clusters.

In the scale in which it enters the outputs, a second-layer unit's pre-activation is
``z(x) = gamma . (x, 1) + sum_i beta_i |q_i . (x, 1)|``, q_i the planes of the first layer. Its facet at a kink with
signs s_i on the planes is ``gamma + sum_i beta_i s_i q_i``, up to a sign of its own: linear in (beta, gamma). Two
facets of one unit differ by a combination of the planes between them: a test while these are fewer than the inputs.
So a unit *grows*: facets join that fit what is known of beta and leave the rest to planes not crossed before. With two
or more outputs facets also share the unit's direction among the outputs; where that tells units apart,
a *cluster* of facets gives the unit at once, as the null vector of the conditions of all its kinks. Any width will do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.sightings import DEVIATIONS, Sightings

TOLD = 0.02
"""Standard error of a weight, relative to the facets, below which it counts as known."""
CHANCE = 1e-3
"""Most facets that may join a unit by accident."""


@dataclass(frozen=True)
class Unit:
    """A ridge sum: ``beta`` (m,), 0 where no plane between its facets shows it, and ``gamma`` (d + 1,)."""

    beta: np.ndarray
    gamma: np.ndarray
    shown: np.ndarray
    """Planes that lie between its facets."""
    told: np.ndarray
    """Planes whose weight its facets determine."""
    signs: np.ndarray
    """On the planes not shown: the side where all its facets lie."""
    output: np.ndarray
    """Direction among the outputs, with its sign."""
    members: np.ndarray
    misfit: float
    """Median deviation of its facets, in standard errors."""


class Facets:
    """The facets at kinks that no plane of the first layer explains, with their sides of the planes."""

    def __init__(self, sightings: Sightings, planes: Planes, numbers: np.ndarray):
        self.numbers, self.planes = numbers, planes
        self.x, self.facet = sightings.x[numbers], sightings.facet[numbers]
        self.reach = float(np.median(np.linalg.norm(sightings.x, axis=1))) + 1e-12
        self.size = np.linalg.norm(self.facet[:, :-1], axis=1)
        self.output = sightings.output[numbers]
        own = sightings.facet_error[numbers]
        away = sightings.error[numbers] * self.size / self.reach
        far = np.linalg.norm(self.x, axis=1) / self.reach
        self.error = np.maximum(
            np.hypot(own * np.maximum(1.0, far), away), 3e-11 * self.size * np.maximum(1, far)
        )
        self.turn = DEVIATIONS * own / self.size * 2 + 1e-9
        """How far the direction among the outputs may be off."""
        self.scaled = self._scale(self.facet)
        self.ridges = self._scale(np.hstack([planes.normals, planes.offsets[:, None]]))
        self.signs = np.where(planes.heights(self.x) > 0, 1.0, -1.0)
        self.gram = self.ridges @ self.ridges.T

    def __len__(self) -> int:
        return len(self.numbers)

    def _scale(self, rows: np.ndarray) -> np.ndarray:
        scaled = rows.copy()
        scaled[:, -1] /= self.reach
        return scaled

    def unscaled(self, row: np.ndarray) -> np.ndarray:
        row = row.copy()
        row[-1] *= self.reach
        return row

    def alike(self, output: np.ndarray, turn: float) -> np.ndarray:
        """Facets whose direction among the outputs may be ``output``."""
        return np.linalg.norm(self.output - output, axis=1) <= self.turn + turn


@dataclass
class Group:
    members: np.ndarray
    turns: np.ndarray
    beta: np.ndarray
    gamma: np.ndarray
    shown: np.ndarray
    told: np.ndarray
    sides: np.ndarray
    deviations: np.ndarray


def fit_group(facets: Facets, members: np.ndarray, turns: np.ndarray, *, num_passes: int = 3) -> Group:
    """Least squares for (beta, gamma) from facets with their signs; planes on one side of all members are left out."""
    signs = facets.signs[members]
    shown = (signs.max(axis=0) > 0) & (signs.min(axis=0) < 0)
    target = turns[:, None] * facets.scaled[members]
    base = 1 / facets.error[members] ** 2
    robust = np.ones(len(members))
    q, gram = facets.ridges[shown], facets.gram[np.ix_(shown, shown)]
    beta, gamma, misses = np.zeros(len(shown)), np.zeros(target.shape[1]), np.zeros(len(members))
    for _ in range(num_passes):
        weights = base * robust
        weights = weights / weights.sum()
        centre, mean = weights @ target, weights @ signs[:, shown]
        rest, moved = target - centre, signs[:, shown] - mean
        beta = np.zeros(len(shown))
        if shown.any():
            system = (moved.T @ (weights[:, None] * moved)) * gram
            part = np.zeros(int(shown.sum()))
            for _ in range(2):
                left = rest - (part * moved) @ q
                right = np.einsum("ni,ni->i", weights[:, None] * moved, left @ q.T)
                part = part + np.linalg.lstsq(system, right, rcond=1e-13)[0]
            beta[shown] = part
            rest = rest - (part * moved) @ q
            centre = centre - (part * mean) @ q
        gamma = centre
        misses = np.linalg.norm(rest, axis=1) / facets.error[members] / np.sqrt(target.shape[1])
        robust = 1 / np.maximum(1.0, misses / (3 * max(float(np.median(misses)), 1e-3)))
    told = shown.copy()
    if num_passes > 1 and shown.any():
        values, vectors = np.linalg.eigh(system)
        # what is smaller drowns in the rounding of the matrix
        values = np.where(values > 1e-11 * values[-1], values, 1e-300) * base.sum()
        spread = np.sqrt(np.sum(vectors**2 / values, axis=1))
        told[shown] = spread <= TOLD * np.median(facets.size[members])
    return Group(members, turns, beta, gamma, shown, told, signs[0].copy(), misses)


def grow(facets: Facets, seed: int, free: np.ndarray, *, max_rounds: int = 400) -> Group:
    """The group of facets that belong to the unit of facet ``seed``."""
    d = facets.facet.shape[1] - 1
    group = fit_group(facets, np.array([seed]), np.ones(1))
    free = free & facets.alike(facets.output[seed], facets.turn[seed])
    free[seed] = False
    for _ in range(max_rounds):
        rows = np.flatnonzero(free)
        if not len(rows):
            break
        signs = facets.signs[rows]
        predicted = group.gamma + (signs * np.where(group.shown, group.beta, 0.0)) @ facets.ridges
        new = ~group.shown & (signs != group.sides)
        counts = new.sum(axis=1)
        joined = None
        for count in np.unique(counts[counts <= d]):
            joined = _join(
                facets, rows[counts == count], predicted[counts == count], new[counts == count], int(count)
            )
            if joined is not None:
                break
        if joined is None:
            break
        members, turns = joined
        free[members] = False
        group = fit_group(
            facets, np.append(group.members, members), np.append(group.turns, turns), num_passes=1
        )
    return fit_group(facets, group.members, group.turns)


def _join(facets: Facets, rows, predicted, new, count: int):
    """Those of ``rows`` that differ from their prediction by the planes in ``new`` alone, and their signs."""
    d = facets.facet.shape[1] - 1
    left = facets.scaled[rows][:, None] * np.array([1.0, -1.0])[None, :, None] - predicted[:, None]
    if count:
        which = np.nonzero(new)[1].reshape(len(rows), count)
        basis, _ = np.linalg.qr(np.swapaxes(facets.ridges[which], 1, 2))
        left = left - np.einsum("nij,nsj->nsi", basis, np.einsum("nij,nsi->nsj", basis, left))
    misses = np.linalg.norm(left, axis=2)
    side = np.argmin(misses, axis=1)
    miss = misses[np.arange(len(rows)), side]
    freedom = d + 1 - count
    allowed = DEVIATIONS * facets.error[rows] * np.sqrt(freedom) * 1.5
    accident = np.minimum(allowed / facets.size[rows], 1.0) ** freedom * len(rows) * 4
    good = (miss <= allowed) & (accident < CHANCE)
    if not good.any():
        return None
    if count == 0:
        return rows[good], np.where(side[good] == 0, 1.0, -1.0)
    best = np.flatnonzero(good)[np.argmin((miss / allowed)[good])]
    return rows[[best]], np.where(side[[best]] == 0, 1.0, -1.0)


def read_cluster(facets: Facets, rows: np.ndarray) -> Group | None:
    """The unit behind facets that share a direction among the outputs: the null vector of all their conditions."""
    d, m = facets.facet.shape[1] - 1, len(facets.planes)
    signs = facets.signs[rows]
    shown = np.minimum((signs > 0).sum(axis=0), (signs < 0).sum(axis=0)) >= 1
    unknown = int(shown.sum()) + d + 1
    if len(rows) * d < unknown + max(3, unknown // 8):
        return None
    ridges = facets.ridges[shown]
    normals = facets.scaled[rows] / np.linalg.norm(facets.scaled[rows], axis=1, keepdims=True)
    # a facet of the unit is parallel to the measured one: what is left of it across that vanishes
    design = np.concatenate(
        [signs[:, None, shown] * ridges.T[None], np.broadcast_to(np.eye(d + 1), (len(rows), d + 1, d + 1))],
        axis=2,
    )
    design = design - normals[:, :, None] * np.einsum("ni,nij->nj", normals, design)[:, None, :]
    weights = facets.size[rows] / facets.error[rows]
    robust = np.ones(len(rows))
    vector = np.zeros(unknown)
    for _ in range(6):
        weighted = design * (weights * robust / np.max(weights))[:, None, None]
        _, _, vt = np.linalg.svd(weighted.reshape(-1, unknown), full_matrices=False)
        vector = vt[-1]
        misses = np.linalg.norm(design @ vector, axis=1) * weights
        update = 1 / np.sqrt(np.maximum(1.0, misses / (3 * max(float(np.median(misses)), 1e-300))))
        if np.max(np.abs(update - robust)) < 0.02:
            break
        robust = update
    beta = np.zeros(m)
    beta[shown] = vector[: -d - 1]
    facet = vector[-d - 1 :] + (signs * beta) @ facets.ridges
    turns = np.where(np.einsum("ni,ni->n", facet, facets.scaled[rows]) < 0, -1.0, 1.0)
    group = fit_group(facets, rows, turns, num_passes=8)
    good = group.deviations <= DEVIATIONS
    if good.sum() < max(3, 0.6 * len(rows)):
        return None
    kept = rows[good]
    group = fit_group(facets, kept, turns[good])
    if len(kept) * (d + 1) < group.shown.sum() + d + 1 + max(3, unknown // 8):
        return None
    return group if np.max(group.deviations) <= 2 * DEVIATIONS else None
