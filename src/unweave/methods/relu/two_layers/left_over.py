"""Second-layer units that lines have not shown whole, from what the other units leave over of the answers.

With the first layer known and oriented, and all second-layer units but a few, the answers less the network of those
few are ``sum_l c_l relu(B_l . h + b_l)`` over the units that are missing, h the first layer's features. Where one of
them alone is on, this is c_l times an affine function of h: points with the same direction c_l give its row by linear
least squares. Answers already paid for mostly do; where they leave a weight open, points close to them are asked.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.beside import points_beside
from unweave.methods.relu.two_layers.oriented import OrientedLayer
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.methods.relu.two_layers.stack import Stack
from unweave.probes.inquiry import SAFETY, Inquiry

MOST_UNITS = 4
MOST_WRONG = 0.5
"""Share of the answers that the missing units may spoil."""
PARALLEL = 1e-4
"""Directions of what is left within this of each other are of one unit."""
FITS = 1e-5
"""Relative miss below which an answer is explained by a unit."""
ROUGHLY, FEWEST = 1e-2, 10
"""Error of a direction that may still tell it from others, and the least number of answers that begin a search."""
MOSTLY, HARDLY = 0.95, 0.02
"""Share of its own points that a unit must explain, and of the others that it may spoil."""
REGULAR = 1e-14
"""Least singular value of a fit, relative to the largest: below, only rounding is left."""
KNOWN = 1e-6
"""Standard error of a weight that is known, relative to the largest."""
ROUNDS = 8
SHOWN = 4
"""Points of a unit at which a feature is on, for its weight to be told by them."""
MORE = 6
"""Points asked for every weight of a unit of which some do not show."""


def find_left_over(
    inquiry: Inquiry, layer: OrientedLayer, stack: Stack, rng: np.random.Generator
) -> list[PreActivation]:
    """The units missing from ``stack``, as many as the answers show one by one; weights may be open."""
    remains = _Remains(inquiry, layer, stack)
    found: list[PreActivation] = []
    for _ in range(MOST_UNITS):
        direction = remains.commonest_direction(rng)
        if direction is None:
            break
        row = remains.fit(direction)
        if row is None:
            remains.ask_beside(direction, rng)
            row = remains.fit(direction)
        unit = None if row is None else remains.take_away(direction, row)
        if unit is None:
            break
        found.append(unit)
    return found


class _Remains:
    """What is left of the answers, and the first layer's features there."""

    def __init__(self, inquiry: Inquiry, layer: OrientedLayer, stack: Stack):
        self.inquiry, self.layer, self.stack = inquiry, layer, stack
        self._look(*inquiry.meter.transcript())

    def _look(self, x: np.ndarray, answers: np.ndarray) -> None:
        self.x, self.left = x, answers - self.stack(x)
        self.features = np.hstack([self.layer.features(x), np.ones((len(x), 1))])
        self.bars = SAFETY * (self.inquiry.bars(x, answers) + self.stack.error(x))

    @property
    def sizes(self) -> np.ndarray:
        return np.linalg.norm(self.left, axis=1)

    def commonest_direction(self, rng: np.random.Generator) -> np.ndarray | None:
        """The direction of what is left at most points that are wrong; none where too few or too many are."""
        sizes = self.sizes
        wrong = np.flatnonzero(sizes > self.bars / ROUGHLY)
        if len(wrong) < FEWEST or np.mean(sizes > self.bars) > MOST_WRONG:
            return None
        wrong = rng.choice(wrong, size=min(len(wrong), 400), replace=False)
        directions, errors = self.left[wrong] / sizes[wrong, None], self.bars[wrong] / sizes[wrong]
        apart = np.linalg.norm(directions[:, None] - directions[None], axis=2)
        near = apart < PARALLEL + errors[:, None] + errors[None]
        best = np.sum(self.left[wrong[near[int(np.argmax(near.sum(axis=1)))]]], axis=0)
        return best / np.linalg.norm(best)

    def _of(self, direction: np.ndarray) -> np.ndarray:
        """Where the unit of this direction alone is on."""
        sizes = self.sizes
        along = self.left @ direction
        aside = np.linalg.norm(self.left - along[:, None] * direction, axis=1)
        return np.flatnonzero((sizes > self.bars) & (along > 0) & (aside < PARALLEL * along + self.bars))

    def fit(self, direction: np.ndarray) -> np.ndarray | None:
        """Weights and bias of the unit, in units of ``direction``; None where its points disagree or do not show them.

        NaN: weights of features that hardly ever are on where the unit is.
        """
        everything = self._of(direction)
        shown = np.sum(self.features[everything] > 0, axis=0) >= SHOWN
        for _ in range(ROUNDS):
            mine = everything[np.all(self.features[np.ix_(everything, ~shown)] == 0, axis=1)]
            found = self._solve(mine, direction, shown) if shown[-1] else None
            if found is None:
                return None
            row, deviations = found
            poor = deviations > KNOWN * np.max(np.abs(row))
            if not poor.any():
                whole = np.full(len(shown), np.nan)
                whole[shown] = row
                return whole
            shown[np.flatnonzero(shown)[poor]] = False
        return None

    def _solve(
        self, mine: np.ndarray, direction: np.ndarray, shown: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Weights of the features ``shown`` from the points ``mine``, and their standard errors."""
        heights = self.left[mine] @ direction
        weights = 1 / np.maximum(FITS * heights, self.bars[mine])
        kept = np.ones(len(mine), dtype=bool)
        features = self.features[np.ix_(mine, shown)]
        for _ in range(ROUNDS):
            if kept.sum() < len(shown) + 10:
                return None
            design = features[kept] * weights[kept, None]
            columns = np.linalg.norm(design, axis=0)
            if not columns.all():
                return None
            u, s, vt = np.linalg.svd(design / columns, full_matrices=False)
            s = np.maximum(s, REGULAR * s[0])
            row = (vt.T @ ((u.T @ (weights * heights)[kept]) / s)) / columns
            misses = np.abs(features @ row - heights) * weights
            sound = misses <= max(3 * float(np.median(misses)), 1.0)
            if np.array_equal(sound, kept):
                break
            kept = sound
        if sound.mean() < MOSTLY:
            return None
        error = float(np.sqrt(np.mean(misses[sound] ** 2)))
        return row, error * np.sqrt(np.sum((vt.T / s) ** 2, axis=1)) / columns

    def ask_beside(self, direction: np.ndarray, rng: np.random.Generator) -> None:
        """Answers around the points where the unit is on, at every distance."""
        mine = self._of(direction)
        if not len(mine):
            return
        points = points_beside(self.x[mine], MORE * self.features.shape[1], self.inquiry.meter.domain, rng)
        with self.inquiry.meter.stage("second layer"):
            self.inquiry.meter.ask(points)
        taken = len(self.x)
        x, answers = self.inquiry.meter.transcript()
        known = self.left
        self._look(x, answers)
        self.left[:taken] = known

    def take_away(self, direction: np.ndarray, row: np.ndarray) -> PreActivation | None:
        """The unit, whose part what is left then lacks; None where it contradicts answers."""
        known = np.isfinite(row)
        row = np.where(known, row, 0.0)
        told = np.all(self.features[:, ~known] == 0, axis=1)
        mine, arguments = self._of(direction), self.features @ row
        mine = mine[told[mine]]
        after = self.left - np.maximum(arguments, 0.0)[:, None] * direction
        allowed = np.maximum(self.bars, FITS * self.sizes)
        was_right, is_wrong = told & (self.sizes <= self.bars), np.linalg.norm(after, axis=1) > allowed
        if is_wrong[mine].mean() > 1 - MOSTLY or is_wrong[was_right].mean() > HARDLY:
            return None
        off = np.flatnonzero(told & (arguments < 0))
        if not len(off):
            return None
        self.left = np.where(told[:, None], after, 0.0)
        return self.layer.unit(row, known[:-1], direction, self.x[mine[0]], self.x[off[0]])
