"""A unit that a sum lacks, or has wrong, from answers that agree on its weights one after another.

Where the others are right, what they leave over of the answers is ``output * relu(z)``, with ``z`` linear in (x, 1) and
in what planes bend beyond a place. Wrong answers around a place tell ``z`` there, if it fits more of them than it has
weights, all within their error bars. Beyond one plane more every answer is a vote for the weight on it: votes that
agree are the unit's own, whatever else is wrong elsewhere. So it grows, plane by plane, as far as answers go. No
question is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unweave.methods.relu.lifted.compare import BEYOND
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

NEAREST = 600
"""Wrong answers around a place that are looked at for a beginning."""
SPARE = 8
"""Answers beyond its weights that a beginning must explain."""
EXACT = 4.0
"""Error bars within which a beginning fits its answers."""
NEAR = 4.0
"""Standard errors that votes may differ by and agree."""
LEAST, SHARE = 4, 0.3
"""Votes that must agree, and share of those that tell at all."""
VAGUE = 0.05
"""A vote known to no better than this share of the unit's slope tells nothing."""
SHARP = 4.0
"""Votes count whose error is at most so many times that of the sharpest."""
PASSES = 4
"""Least squares, each without what the one before could not explain."""
TOLD = 0.01
"""Share of an answer within which it must be foretold to count."""
SLANT = 1e-3
"""Share of its size by which what is left over may differ in direction from a unit's output."""
STEEP = 1.5
"""Slope of a unit that is to be off beyond a plane, relative to its own."""
MARGIN = 1e-9
"""Heights over a plane that are none."""


@dataclass
class Left:
    """What a sum leaves over of answers."""

    point: RidgeSum
    x: np.ndarray
    """(points, d + 1), the last column ones."""
    y: np.ndarray
    bars: np.ndarray
    u: np.ndarray = field(init=False)
    z: np.ndarray = field(init=False)
    left: np.ndarray = field(init=False)
    wrong: np.ndarray = field(init=False)
    """Which answers lie beyond their error bars."""

    def __post_init__(self) -> None:
        values, self.u, self.z = self.point.forward(self.x)
        self.left = self.y - values
        self.wrong = self.misses > BEYOND

    @property
    def misses(self) -> np.ndarray:
        return np.max(np.abs(self.left), axis=1) / self.bars

    def of(self, point: RidgeSum) -> Left:
        """What another sum leaves over of the same answers."""
        return Left(point, self.x, self.y, self.bars)

    def take(self, rows: np.ndarray) -> Left:
        return Left(self.point, self.x[rows], self.y[rows], self.bars[rows])


@dataclass(frozen=True)
class Grown:
    """A unit, which answers it explains, and the planes on which its weights are known; it began on these sides."""

    gamma: np.ndarray
    beta: np.ndarray
    output: np.ndarray
    explained: np.ndarray
    known: np.ndarray
    sides: np.ndarray

    def closed(self, rows: np.ndarray) -> Grown:
        """The same unit, off beyond the planes on which its weights are not known."""
        steep = STEEP * (np.linalg.norm(self.gamma[:-1]) + np.abs(self.beta).sum())
        beyond = np.where(self.known, 0.0, steep / 2)
        return replace(self, gamma=self.gamma + (beyond * self.sides) @ rows, beta=self.beta - beyond)

    def joined(self, point: RidgeSum) -> RidgeSum:
        return replace(
            point,
            gamma=np.vstack([point.gamma, self.gamma]),
            beta=np.vstack([point.beta, self.beta]),
            output=np.vstack([point.output, self.output]),
        )


def grow_unit(state: Left, start: int) -> Grown | None:
    """The unit that answers around the wrong one numbered ``start`` show; None where they show not one alone."""
    rows = np.flatnonzero(state.wrong)
    sides = np.where(state.u[start] > 0, 1.0, -1.0)
    begun = _begin(state, rows, start, sides)
    if begun is None:
        return None
    own, known, values = begun
    _, sizes, vectors = np.linalg.svd(values, full_matrices=False)
    if len(sizes) > 1 and sizes[1] > BEYOND * np.sqrt(len(own)):
        return None
    output = vectors[0] * (1.0 if np.sum(values @ vectors[0]) > 0 else -1.0)
    target, bars = state.left[rows] @ output, state.bars[rows]
    aside = np.max(np.abs(state.left[rows] - target[:, None] * output), axis=1)
    mine = (aside <= BEYOND * bars + SLANT * np.abs(target)) & (target > BEYOND * bars)
    chosen = np.isin(rows, own)[mine]
    rows, target, bars = rows[mine], target[mine], bars[mine]
    x, bends = state.x[rows], np.maximum(-sides * state.u[rows], 0.0)
    if chosen.sum() < x.shape[1] + known.sum():
        return None
    chosen, known = _grow(x, bends, target, bars, chosen, known, sure=TOLD)
    weights, _ = _solve(x, bends[:, known], target, bars, chosen)
    missed = target - np.hstack([x, bends[:, known]]) @ weights
    strange = ((bends > MARGIN) & ~known).any(axis=1)
    explained = rows[~strange & (np.abs(missed) <= BEYOND * bars)]
    gamma, beta = _spread(weights[:, None], known, sides, state.point.rows)
    return Grown(gamma[:, 0], beta[:, 0], output, explained, known, sides)


def grow_base(state: Left, start: int, rng: np.random.Generator) -> RidgeSum | None:
    """The sum with all that is linear told anew by the largest region that answers around a place agree on.

    ``state`` is of the sum without it.
    """
    rows = np.arange(len(state.x))
    sides = np.where(state.u[start] > 0, 1.0, -1.0)
    begun = _begin(state, rows, start, sides)
    if begun is None:
        return None
    own, known, _ = begun
    direction = rng.standard_normal(state.y.shape[1])
    target = state.left @ (direction / np.linalg.norm(direction))
    x, bends = state.x, np.maximum(-sides * state.u, 0.0)
    chosen, known = _grow(x, bends, target, state.bars, np.isin(rows, own), known, sure=np.inf)
    weights, _ = _solve(x, bends[:, known], state.left, state.bars, chosen)
    gamma, beta = _spread(weights, known, sides, state.point.rows)
    return replace(state.point, above=np.vstack([beta, gamma]))


def misread_weight(state: Left, unit: int) -> RidgeSum | None:
    """The sum with that weight of a unit on a plane changed, on one side, which most wrong answers agree on."""
    point = state.point
    size = float(np.linalg.norm(point.output[unit]))
    if size == 0:
        return None
    output = point.output[unit] / size
    rows = np.flatnonzero(state.wrong)
    along = state.left[rows] @ output
    aside = np.max(np.abs(state.left[rows] - along[:, None] * output), axis=1)
    value, error = along / size + np.maximum(state.z[rows, unit], 0.0), state.bars[rows] / size
    mine = (aside <= BEYOND * state.bars[rows] + SLANT * np.abs(along)) & (value > BEYOND * error)
    rows, change, error = rows[mine], (value - state.z[rows, unit])[mine], error[mine]
    slope = float(np.linalg.norm(point.gamma[unit, :-1]))
    best: tuple[int, int, float, float] | None = None
    for plane in range(len(point.rows)):
        for side in (1.0, -1.0):
            height = side * state.u[rows, plane]
            mine = height > MARGIN
            if mine.sum() < LEAST:
                continue
            votes, errors = change[mine] / height[mine], error[mine] / height[mine]
            clear = errors < VAGUE * np.maximum(np.abs(votes), TOLD * slope)
            if clear.sum() < LEAST:
                continue
            agreeing, vote = agreement(votes[clear], errors[clear])
            if agreeing >= max(LEAST, SHARE * clear.sum()) and (best is None or agreeing > best[0]):
                best = agreeing, plane, side, vote
    if best is None:
        return None
    _, plane, side, vote = best
    gamma, beta = point.gamma.copy(), point.beta.copy()
    beta[unit, plane] += vote / 2
    gamma[unit] += side * vote / 2 * point.rows[plane]
    return replace(point, gamma=gamma, beta=beta)


def _spread(weights: np.ndarray, known: np.ndarray, sides: np.ndarray, rows: np.ndarray):
    """Weights of (x, 1) and of |u| from those of (x, 1) and of what the known planes bend beyond the start."""
    beta = np.zeros((len(sides), weights.shape[1]))
    beta[known] = weights[rows.shape[1] :] / 2
    return weights[: rows.shape[1]] - rows.T @ (sides[:, None] * beta), beta


def _grow(x, bends, target, bars, chosen, known, *, sure: float) -> tuple[np.ndarray, np.ndarray]:
    """Answers that one function linear in (x, bends) explains, and the planes whose bends it knows."""
    beyond = bends > MARGIN
    for _ in range(2 * bends.shape[1]):
        weights, spread = _solve(x, bends[:, known], target, bars, chosen)
        features = np.hstack([x, bends[:, known]])
        missed = target - features @ weights
        errors = np.sqrt(np.einsum("np,np->n", features @ spread, features) + bars**2)
        strange = beyond & ~known
        count = strange.sum(axis=1)
        told = (count == 0) & (np.abs(missed) <= 1.5 * NEAR * errors) & (errors < sure * np.abs(target))
        if told.sum() > chosen.sum():
            chosen = told
            continue
        slope = float(np.linalg.norm(weights[: x.shape[1] - 1]))
        best = _elect(missed, errors, bends, strange, count, slope)
        if best is None:
            break
        plane, value = best
        voters = np.flatnonzero((count == 1) & strange[:, plane])
        near = np.abs(missed[voters] - value * bends[voters, plane]) <= 1.5 * NEAR * errors[voters]
        known, chosen = known.copy(), chosen.copy()
        known[plane] = chosen[voters[near]] = True
    return chosen, known


def _begin(
    state: Left, rows: np.ndarray, start: int, sides: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Answers around one that an affine function with bends at some planes explains; these planes; its values."""
    width = state.x.shape[1]
    scale = np.std(state.x[:, :-1], axis=0) + 1e-300
    apart = np.linalg.norm((state.x[rows, :-1] - state.x[start, :-1]) / scale, axis=1)
    rows = rows[np.argsort(apart)[:NEAREST]]
    bends = np.maximum(-sides * state.u[rows], 0.0)
    beyond = bends > MARGIN
    known = np.zeros(len(sides), dtype=bool)
    while True:
        count = (beyond & ~known).sum(axis=1)
        own = np.flatnonzero(count == 0)
        if len(own) >= width + known.sum() + SPARE:
            break
        next_door = beyond[count == 1] & ~known
        gains = next_door.sum(axis=0)
        if not len(next_door) or gains.max() < 2 or known.sum() > width:
            return None
        known[int(np.argmax(gains))] = True
    own = own[: 3 * (width + known.sum()) + SPARE]
    known &= beyond[own].any(axis=0)
    inverse = 1 / state.bars[rows[own]]
    design = np.hstack([state.x[rows[own]], bends[own][:, known]]) * inverse[:, None]
    lengths = np.linalg.norm(design, axis=0) + 1e-300
    target = state.left[rows[own]] * inverse[:, None]
    weights = np.linalg.lstsq(design / lengths, target, rcond=1e-10)[0]
    values = design / lengths @ weights
    if np.max(np.abs(values - target)) > EXACT:
        return None
    return rows[own], known, values


def _solve(x, bends, target, bars, chosen) -> tuple[np.ndarray, np.ndarray]:
    """Weights of (x, bends) by least squares on most of the chosen answers, and their covariance."""
    rows, design = np.flatnonzero(chosen), np.hstack([x[chosen], bends[chosen]]) / bars[chosen, None]
    lengths = np.linalg.norm(design, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    design, right = design / lengths, (target[rows].T / bars[rows]).T
    weights, inverse, kept = np.zeros(0), np.zeros((0, 0)), np.ones(len(rows), dtype=bool)
    for _ in range(PASSES):
        values, vectors = np.linalg.eigh(design[kept].T @ design[kept])
        good = values > 1e-13 * values[-1]
        inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T
        weights = inverse @ (design[kept].T @ right[kept])
        misses = np.abs(design @ weights - right).reshape(len(rows), -1).max(axis=1)
        sound = misses <= max(BEYOND, 3 * float(np.median(misses)))
        if np.array_equal(sound, kept) or sound.sum() < design.shape[1]:
            break
        kept = sound
    return (weights.T / lengths).T, inverse / lengths[:, None] / lengths


def _elect(missed, errors, bends, strange, count, slope: float) -> tuple[int, float] | None:
    """The plane on whose weight most answers beyond it alone agree, and the weight."""
    best: tuple[int, int, float] | None = None
    for plane in np.flatnonzero(strange[count == 1].any(axis=0)):
        voters = np.flatnonzero((count == 1) & strange[:, plane])
        value, error = missed[voters] / bends[voters, plane], errors[voters] / bends[voters, plane]
        clear = error < VAGUE * (slope + np.abs(value))
        clear &= error <= SHARP * np.partition(error, min(LEAST, len(error)) - 1)[min(LEAST, len(error)) - 1]
        if clear.sum() < LEAST:
            continue
        agreeing, value = agreement(value[clear], error[clear])
        if agreeing >= max(LEAST, SHARE * clear.sum()) and (best is None or agreeing > best[0]):
            best = agreeing, int(plane), value
    return None if best is None else best[1:]


def agreement(value: np.ndarray, error: np.ndarray) -> tuple[int, float]:
    """How many of the votes agree with the one that most do, and their mean."""
    order = np.argsort(value)
    value, error = value[order], error[order]
    first = np.searchsorted(value, value - NEAR * error)
    last = np.searchsorted(value, value + NEAR * error, side="right")
    best = int(np.argmax(last - first))
    own = slice(first[best], last[best])
    shares = 1 / error[own] ** 2
    return int(last[best] - first[best]), float(value[own] @ shares / shares.sum())
