"""The last hidden layer and the outputs over known generations: every side is counted, the rest is least squares.

With the sides of its units at all points (``sides``) the answers are linear in the rows of the last layer
(``maps.parity``), whatever is open in them. Parts of one unit are found as those that one row explains. Answers that
contradict are taken in until none does.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.lifted.draw import box_faces
from unweave.methods.relu.maps.board import Board, Last
from unweave.methods.relu.maps.parity import fit_last, keep_more_sides, sway
from unweave.methods.relu.peel.climb import Climb
from unweave.methods.relu.peel.sides import count_sides, keep_sides

POINTS = 4.0
"""Points for every unknown of the layer, ..."""
MOST_POINTS = 6000
"""... at most so many."""
UNASKED = 6000
"""Points of the faces of the box at which open rows keep the sides that are counted there."""
REFITS, MOST_TOLD = 8, 400
"""How often answers that contradict are taken in, and how many at a time."""
FLIPS, MOST_FLIPPED, MOST_UNITS, ASIDE = 4, 300, 4, 1e-4
"""How often sides are turned over, of how many answers and for how many units, and how far what is left over may be
off the unit's output."""
CHOICES = 4
"""Other choices of what is open."""
IDLE = 2
"""How often in a row that may leave as many."""
SIDES = 8
"""How often sides are kept at more answers before these are fitted."""
FEW = 0.05
"""Share of the points that may be left out besides those taken in."""
WITHIN = 1e-7
"""Miss of an answer, relative to their spread, within which it agrees."""


@dataclass
class Closing:
    """The traces of the last layer over the generations of a climb, and what fits them."""

    climb: Climb
    traces: list[Trace]
    last: Last | None = None

    def __post_init__(self) -> None:
        climb = self.climb
        self.traces = climb.candidates = traces = climb.orient(self.traces)
        self.features = features = climb.features
        self.odd = np.zeros((0, features.input_size))
        """Where answers contradict whatever the rows are: something is missing there."""
        self.below: list[Trace] = []
        self.base: Known | Lifted = features
        if isinstance(features, Lifted):
            self.base, self.below = features.known, climb.generations[-1]
        x, y = climb.pool.inquiry.meter.transcript()
        p, k = features.width + 1, y.shape[1]
        wanted = int(POINTS * (p + len(traces) * p / k)) + 200
        some = climb.region.rng.permutation(len(x))[: min(wanted, MOST_POINTS)]
        seeds = [trace.seed for trace in traces]
        outputs, jumps = climb.pool.output[seeds], climb.pool.slope_jump[seeds]
        outputs = outputs * np.where(np.sum(outputs * jumps, axis=1, keepdims=True) < 0, -1.0, 1.0)
        chains = [trace.places for trace in traces]
        self.board = Board(
            *self._points(x[some], y[some]),
            outputs,
            [self._below(part) for part in chains],
            features.rows if isinstance(features, Lifted) else np.zeros((0, features.width + 1)),
            [trace.null for trace in self.below],
            climb.deadline,
            self._signs(x[some]),
            [self._signs(part) for part in chains],
        )
        region, d = climb.region, features.input_size
        domain = region.inquiry.meter.domain
        unasked = np.concatenate(
            [
                domain.sample(UNASKED // 3, d, region.rng),
                box_faces(region.low, region.high, UNASKED, region.rng),
            ]
        )
        sides = count_sides(region, features, traces, unasked)
        self.board.unasked = self._below(unasked), sides, self._signs(unasked)

    def fit(self) -> bool:
        """Whether the layer explains every answer, those that contradict it taken in."""
        climb = self.climb
        x, y = climb.pool.inquiry.meter.transcript()
        if self.last is None:
            self.last = fit_last(self.board, climb.say)
        odd, fewest, idle = np.zeros(0, dtype=int), len(x) + 1, 0
        for _ in range(REFITS):
            wrong = np.setdiff1d(self.misses(x, y), odd)
            if self.last is not None and len(wrong):
                wrong = self._keep_sides(x, y, wrong, odd)
                if self._turn_below(x[wrong]):
                    wrong = np.setdiff1d(self.misses(x, y), odd)
            climb.say(f"  {len(wrong)} of {len(x)} answers contradict, {len(odd)} are odd")
            fewest, idle = (
                min(fewest, len(wrong) + len(odd)),
                idle + 1 if len(wrong) + len(odd) >= fewest else 0,
            )
            if self.last is None or not len(wrong) or idle > IDLE:
                break
            told = wrong[:: 1 + len(wrong) // MOST_TOLD]
            before, board = len(self.board.y), replace(self.board)
            self.board.add(*self._points(x[told], y[told]), self._signs(x[told]))
            fit = fit_last(self.board, climb.say, self.last)
            if fit is None:  # the sides are miscounted where something is missing
                kept = self.board.trim(self.last.groups, FEW + len(told) / len(self.board.y))
                odd = np.union1d(odd, told[~kept[before:]])
                fit = fit_last(self.board, climb.say, self.last)
            if fit is None:
                self.board, odd = board, np.union1d(odd, told)
            else:
                self.last = fit
        wrong = self.misses(x, y)
        for _ in range(FLIPS):
            if self.last is None or not 0 < len(wrong) <= MOST_FLIPPED or not self._flip(x, y, wrong):
                break
            wrong = self.misses(x, y)
        self.odd = x[wrong] if self.last is not None else x[:0]
        return not len(wrong)

    def _flip(self, x: np.ndarray, y: np.ndarray, wrong: np.ndarray) -> bool:
        """Whether fewer answers contradict with one unit on its other side at those that do.

        A zero set that is not known on the way there is not counted.
        """
        last, climb = self.last, self.climb
        assert last is not None
        low, _, sides = self._points(x[wrong], y[wrong])
        signs = self._signs(x[wrong])
        h = np.hstack([self._with(last.below).features(x[wrong]), np.ones((len(wrong), 1))])
        rest, values = y[wrong] - last(h), np.abs(h @ last.rows.T) * np.linalg.norm(last.outputs, axis=1)
        size = np.linalg.norm(rest, axis=1)
        along = rest @ last.outputs.T
        aside = np.linalg.norm(rest[:, None] - along[:, :, None] * last.outputs, axis=2)
        mine = aside <= ASIDE * size[:, None]
        order = np.argsort(np.median(values, axis=0) - 1e300 * np.mean(mine, axis=0))
        for unit in order[:MOST_UNITS]:
            which = np.flatnonzero(mine[:, unit])
            if not len(which):
                continue
            turned = sides[which].copy()
            turned[:, last.groups[unit][0]] *= -1
            board, before = replace(self.board), self.board
            board.forget(low[which])
            board.add(low[which], y[wrong[which]], turned, signs[which])
            fit = fit_last(board, climb.say, last)
            if fit is None:
                board.trim(last.groups, FEW + len(which) / len(board.y))
                fit = fit_last(board, climb.say, last)
            if fit is None:
                continue
            self.board, self.last = board, fit
            left = self.misses(x, y)
            climb.say(f"  flipped at {len(which)} answers: {len(wrong)} -> {len(left)} contradict")
            if len(left) < len(wrong):
                return True
            self.board, self.last = before, last
        return False

    def doubtful(self, num: int) -> np.ndarray:
        """Places at which other choices of what is open, that keep all sides seen, answer otherwise."""
        last, region = self.last, self.climb.region
        assert last is not None
        domain, d = region.inquiry.meter.domain, self.features.input_size
        x = np.concatenate(
            [
                domain.sample(UNASKED, d, region.rng),
                box_faces(region.low, region.high, 2 * UNASKED, region.rng),
            ]
        )
        h = np.hstack([self._with(last.below).features(x), np.ones((len(x), 1))])
        y, chosen = last(h), []
        for _ in range(CHOICES):
            apart = np.max(np.abs(sway(self.board, last, region.rng)(h) - y), axis=1)
            there = np.flatnonzero(apart > 10 * WITHIN * np.std(y))
            chosen.append(region.rng.permutation(there)[: num // CHOICES])
        return x[np.unique(np.concatenate(chosen))]

    def _keep_sides(self, x: np.ndarray, y: np.ndarray, wrong: np.ndarray, odd: np.ndarray) -> np.ndarray:
        """Where open rows only have the wrong sign nothing need be fitted; the answers that contradict even so."""
        assert self.last is not None
        for _ in range(SIDES):
            told = wrong[:: 1 + len(wrong) // MOST_TOLD]
            low, _, sides = self._points(x[told], y[told])
            self.board.keep_at(low, sides, self._signs(x[told]))
            before, self.last = self.last, keep_more_sides(self.board, self.last)
            left = np.setdiff1d(self.misses(x, y), odd)
            if len(left) > len(wrong):
                self.last = before
                break
            few, wrong = len(left) > 0.5 * len(wrong), left
            if few or not len(wrong):
                break
        return wrong

    def _turn_below(self, x: np.ndarray) -> bool:
        """Whether units below have another sign at the points than is counted; their rows are turned then."""
        assert self.last is not None
        if not len(x) or not self.below:
            return False
        x = x[:: 1 + len(x) // MOST_TOLD]
        differs = np.any(np.sign(self._below(x) @ self.last.below.T) != self._signs(x), axis=0)
        units = [j for j in np.flatnonzero(differs) if self.below[j].null.shape[1]]
        if not units:
            return False
        traces = []
        for j in units:
            trace = copy(self.below[j])
            trace.row = self.last.below[j] * np.sign(self.last.below[j] @ trace.row)
            traces.append(trace)
        rows = keep_sides(self.climb.region, self.base, traces, x)
        below = self.last.below.copy()
        below[units] = rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        fit = fit_last(self.board, self.climb.say, replace(self.last, below=below))
        self.last = self.last if fit is None else fit
        return fit is not None

    def misses(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Answers that contradict."""
        if self.last is None:
            return np.arange(len(x))
        h = np.hstack([self._with(self.last.below).features(x), np.ones((len(x), 1))])
        return np.flatnonzero(np.max(np.abs(self.last(h) - y), axis=1) > WITHIN * (np.std(y) + 1e-300))

    def result(self) -> tuple[Lifted, np.ndarray]:
        """All features, and the outputs (features + 1, k)."""
        last = self.last
        assert last is not None
        size = np.linalg.norm(last.rows[:, :-1], axis=1)
        features = Lifted(self._with(last.below), last.rows / size[:, None])
        middle = np.vstack([last.affine[:, :-1].T, size[:, None] * last.outputs])
        return features, np.vstack([middle, last.affine[:, -1]])

    def _points(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._below(x), y, count_sides(self.climb.region, self.features, self.traces, x)

    def _signs(self, x: np.ndarray) -> np.ndarray:
        return count_sides(self.climb.region, self.base, self.below, x)

    def _with(self, rows: np.ndarray) -> Known | Lifted:
        """The features with these rows of the generation below."""
        return Lifted(self.base, rows) if isinstance(self.features, Lifted) else self.features

    def _below(self, x: np.ndarray) -> np.ndarray:
        """What the units of the last generation are rows of, with a one."""
        return np.hstack([self.base.features(x), np.ones((len(x), 1))])
