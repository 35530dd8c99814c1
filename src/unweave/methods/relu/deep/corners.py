"""What the answers say around corners of the known layers: the derivative of the function by their features.

Near a point the answers are ``a . h`` plus a constant, h the known features, until a unit of the next layer or above
switches; ``a = sum_u c_u r_u`` over the active units u of the next layer. At a corner a follows by least squares,
however few inputs there are, and holds whatever is found of the next layer later: every corner is asked once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.spots import RANK, find_corners

MODEL = 1e-9
"""Relative error to expect of what the features found predict."""
NUM_STARTS, MANY_STARTS = 48, 144
"""Points from which corners are looked for, and where few of them will do."""
SPARE = 6
"""Answers beyond those that a corner needs: a step over a border shows in them."""


@dataclass(frozen=True)
class Corner:
    """``slopes`` (r, k): derivatives of the answers along the orthonormal ``basis`` (n, r) of feature space."""

    x: np.ndarray
    features: np.ndarray
    basis: np.ndarray
    slopes: np.ndarray
    errors: np.ndarray
    """Largest error to expect of each of the slopes."""

    @property
    def moving(self) -> np.ndarray:
        """Which features change around it at all."""
        return np.max(np.abs(self.basis), axis=1) > 1e-12

    @property
    def whole(self) -> bool:
        """Whether the derivative by every feature that moves is known."""
        return int(self.moving.sum()) == self.basis.shape[1]

    @property
    def derivative(self) -> np.ndarray:
        """(n, k), in the directions that are known."""
        return self.basis @ self.slopes


@dataclass
class Corners:
    """All corners of some known layers that have been asked."""

    pool: Pool
    known: Known
    asked: list[Corner] = field(default_factory=list)
    failed: dict[Any, int] = field(default_factory=dict)
    """How often entries of units of the next layer were asked for in vain."""

    def add(
        self,
        num: int,
        rows: np.ndarray,
        near: np.ndarray | None = None,
        *,
        least: int = 1,
        whole: bool = False,
        stands: dict[int, bool] | None = None,
        moving: int | None = None,
    ) -> int:
        """Ask up to ``num`` more that keep off the zero sets of ``rows`` and have ``least`` directions.

        ``whole``: only such at which the derivative by every feature that moves will be known. ``stands``: how some of
        the rows have to stand there, one of them at least. ``moving``: a feature that moves there.
        """
        num_starts = NUM_STARTS if stands is None else MANY_STARTS
        x, rank, room, free = find_corners(self.known, rows, self.pool, num_starts, near)
        fine = (rank >= least) & (free | (not whole))
        if stands:
            z = self.known.features(x) @ rows[:, :-1].T + rows[:, -1]
            fine &= np.any([(z[:, unit] > 0) == side for unit, side in stands.items()], axis=0)
        if moving is not None:
            fine &= self.known.arguments(x)[-1][:, moving] > -1e-9 * (1 + np.linalg.norm(x, axis=1))
        enough = np.flatnonzero(fine)
        count = 0
        for i in enough[np.argsort(self._again(x[enough], rows), kind="stable")][: 3 * num]:
            if count == num:
                break
            corner = self._read(x[i], int(rank[i]), float(room[i]))
            if corner is not None:
                self.asked.append(corner)
                count += 1
        return count

    def _again(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """How many corners come before each at which ``rows`` stand in the same way, those asked included."""
        old = np.array([corner.x for corner in self.asked]).reshape(-1, self.known.input_size)
        patterns = self.known.features(np.concatenate([old, x])) @ rows[:, :-1].T + rows[:, -1] > 0
        same = np.all(patterns[:, None] == patterns[None], axis=2)
        return np.tril(same, -1).sum(axis=1)[len(old) :]

    def _read(self, x: np.ndarray, rank: int, room: float) -> Corner | None:
        """The derivative at one corner; None where the steps do not stay within one piece, or nothing changes."""
        pool, known = self.pool, self.known
        d, h = known.input_size, known.features(x[None])
        start = min(0.5 * room, 0.05 * (1 + np.linalg.norm(x)))
        for shrink in (1.0, 0.1, 0.01):
            eps, best = start * shrink, None
            for _ in range(6):
                moves = pool.rng.standard_normal((rank + SPARE, d))
                moves *= eps / np.linalg.norm(moves, axis=1, keepdims=True)
                rise = known.features(x + moves) - h
                u, s, vt = np.linalg.svd(rise, full_matrices=False)
                if best is None or s[rank - 1] > best[2][rank - 1]:
                    best = (moves, u, s, vt)
            assert best is not None
            moves, u, s, vt = best
            if s[rank - 1] < RANK * s[0] or s[rank - 1] < 1e-6 * eps:
                return None
            points = np.concatenate([x[None], x + moves])
            if not np.all(pool.inquiry.meter.domain.contains(points)):
                return None
            answers, bars = pool.inquiry.ask(points)
            y = answers[1:] - answers[0]
            noise = 4 * float(bars.max()) + MODEL * float(np.max(np.abs(y)))
            slopes = (u[:, :rank].T @ y) / s[:rank, None]
            if np.max(np.abs((u[:, :rank] * s[:rank]) @ slopes - y)) > 20 * noise:
                continue
            errors = noise / s[:rank]
            if np.linalg.norm(slopes) < 100 * errors.max():
                return None
            return Corner(x, h[0], vt[:rank].T, slopes, errors)
        return None


def common_frame(corners: list[Corner], need: int | None = None) -> tuple[np.ndarray, list[Corner]]:
    """Features whose derivatives many corners know, most of them (and that of ``need``), and these corners."""
    corners = [corner for corner in corners if corner.whole and (need is None or corner.moving[need])]
    if not corners:
        return np.zeros(0, dtype=bool), []
    moving = np.array([corner.moving for corner in corners])
    holds = np.all(moving[None] | ~moving[:, None], axis=2)
    score = np.minimum(holds.sum(axis=1), 6) * moving.sum(axis=1)
    best = int(np.argmax(score))
    return moving[best], [corners[i] for i in np.flatnonzero(holds[best])]
