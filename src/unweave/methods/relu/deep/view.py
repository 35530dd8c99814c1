"""What the pool shows of the next layer: open kinks with features and Jacobians, and all lines in known features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool

PLACE = 1e-7
"""A predicted crossing and a kink closer than this, relative to the place on the line, are the same."""

ZERO = 1e-11
"""A feature below this share of the largest is off."""

FAR_OFF, SHARP = 1e-3, 1e-8
"""A normal farther off what layers pass than this, and known as well as this, is not theirs."""

RETRY = 1.5
"""A kink that began no unit is tried again once there is this much more evidence."""


@dataclass(frozen=True)
class Track:
    """The known features (with a one) at the breaks of all lines, line after line: straight in between."""

    line: np.ndarray
    t: np.ndarray
    features: np.ndarray


class LayerView:
    """The evidence for one layer: kinks that no known unit explains, seen through the known features."""

    free: np.ndarray
    open: np.ndarray
    extended: np.ndarray
    rank: Any
    foreign: Any
    off: np.ndarray
    condition: Any
    row: Any
    mask: np.ndarray
    complete: Any
    row_error: np.ndarray
    constraints: np.ndarray
    noise: np.ndarray
    num_constraints: Any

    pool: Pool
    known: Known
    track: Track
    kinks: np.ndarray
    x: np.ndarray
    g: np.ndarray
    error: np.ndarray
    h: np.ndarray
    jac: np.ndarray
    active: np.ndarray

    def __init__(self, pool: Pool, known: Known):
        self.pool, self.known = pool, known
        self.breaks: list[np.ndarray] = []
        self.track = Track(np.zeros(0, dtype=int), np.zeros(0), np.zeros((0, known.width + 1)))
        self._explained = np.zeros(0, dtype=bool)
        self.kinks, self.free = np.zeros(0, dtype=int), np.zeros(0, dtype=bool)
        """Which measured open kinks no unit found so far explains."""
        self.doubtful: list[Any] = []
        """Candidates met too rarely to be sure, and the kinks of those that were asked about."""
        self.asked_about: set[tuple[int, ...]] = set()
        self._rejected: dict[int, int] = {}
        self.update()

    def update(self) -> None:
        """Take in lines and kinks that were added to the pool."""
        pool, known = self.pool, self.known
        assert pool.lines is not None
        begin = len(self.breaks)
        self.breaks += [known.breaks(pool.lines, i) for i in range(begin, len(pool.scans))]
        if len(self.breaks) > begin:
            t = np.concatenate(self.breaks[begin:])
            line = np.repeat(np.arange(begin, len(self.breaks)), [len(b) for b in self.breaks[begin:]])
            h = known.features(pool.lines.points(line, t))
            if known.depth:  # at its own break a feature is zero but for rounding
                h[np.abs(h) <= ZERO * np.max(np.abs(h), axis=1, keepdims=True)] = 0.0
            h = np.hstack([h, np.ones((len(t), 1))])
            old = self.track
            self.track = Track(
                np.append(old.line, line), np.append(old.t, t), np.concatenate([old.features, h])
            )
        fresh = np.arange(len(self._explained), len(pool.t))
        explained = np.zeros(len(fresh), dtype=bool)
        for line in np.unique(pool.line[fresh]):
            mine = np.flatnonzero(pool.line[fresh] == line)
            t = pool.t[fresh[mine]]
            explained[mine] = nearest(self.breaks[line][1:-1], t) <= self.tolerance(line, t)
        self._explained = np.append(self._explained, explained)
        self.open = np.flatnonzero(~self._explained)

    def tolerance(self, line: int | np.ndarray, t: np.ndarray) -> np.ndarray:
        """How far a predicted crossing may be from its kink; on a short line the rows' own errors count."""
        lines = self.pool.lines
        assert lines is not None
        origins = lines.origins[line]
        far = np.sqrt(np.sum(origins**2, axis=-1))
        return PLACE * (lines.scale[line] + np.abs(t)) + 1e-9 * (1e-3 + far + np.abs(t))

    def reject(self, row: int) -> None:
        """Remember that a measured kink began no unit on the evidence there is."""
        self._rejected[int(self.kinks[row])] = len(self.kinks) + len(self.breaks)

    def was_rejected(self, row: int) -> bool:
        """Whether it began none before, and little has been added since."""
        then = self._rejected.get(int(self.kinks[row]))
        return then is not None and len(self.kinks) + len(self.breaks) < RETRY * then

    def load(self) -> None:
        """Features, Jacobians and constraints at the open kinks whose normals are known."""
        pool, known = self.pool, self.known
        taken = self.kinks[~self.free]
        self.kinks = self.open[np.isfinite(pool.normal_error[self.open])]
        self.free = ~np.isin(self.kinks, taken)
        x, g = pool.x[self.kinks], pool.normal[self.kinks]
        self.x, self.g, self.error = x, g, pool.normal_error[self.kinks]
        self.h, self.jac = known.jacobian(x)
        self.active = known.active(self.h)
        self.extended = np.hstack([self.h, np.ones((len(x), 1))])
        u, s, vt = np.linalg.svd(self.jac, full_matrices=False)
        kept = s > 1e-7 * np.maximum(s[:, :1], 1e-300)
        self.rank = kept.sum(axis=1)
        inside = np.einsum("mrd,md->mr", vt, g) * kept
        self.off = 1 - np.linalg.norm(inside, axis=1)
        self.foreign = self.off > np.maximum(1e-8, 100 * self.error**2)
        low = np.min(np.where(kept, s, np.inf), axis=1, initial=np.inf)
        self.condition = s[:, 0] / np.maximum(low, 1e-300)
        # one row (weights, bias) a kink: the shortest that has this normal and vanishes here
        row = np.einsum("mnr,mr->mn", u, np.where(kept, inside / np.where(kept, s, 1.0), 0.0))
        row = np.hstack([row, -np.sum(row * self.h, axis=1, keepdims=True)])
        size = np.linalg.norm(row, axis=1)
        self.row = row / np.maximum(size, 1e-300)[:, None]
        self.mask = np.hstack([self.active, np.ones((len(x), 1), dtype=bool)])
        self.complete = (self.rank == self.active.sum(axis=1)) & ~self.foreign & (size > 0)
        self.row_error = np.where(self.complete, 10 * self.error * self.condition + 1e-12, np.inf)
        self.row_error[self.condition > 1e6] = np.inf
        self._constrain()
        unsure = known.is_unsure(x)
        self.foreign[unsure] = False
        self.row_error[unsure] = self.noise[unsure] = np.inf

    def clearly_foreign(self) -> np.ndarray:
        """Which of them have normals far off all that a unit on top of the known layers can have."""
        return self.foreign & (self.off > FAR_OFF) & (self.error < SHARP)

    def _constrain(self) -> None:
        """Linear constraints (d + 1 a kink) on the row and bias of the unit that bends there, and their rank."""
        m, n = self.h.shape
        d = self.x.shape[1]
        across = (
            np.swapaxes(self.jac, 1, 2)
            - self.g[:, :, None] * np.einsum("mnd,md->mn", self.jac, self.g)[:, None, :]
        )
        size = np.maximum(np.linalg.norm(self.jac, axis=(1, 2)), 1e-300)
        self.constraints = np.zeros((m, d + 1, n + 1))
        self.constraints[:, :d, :-1] = across / size[:, None, None]
        self.constraints[:, d] = self.extended / np.linalg.norm(self.extended, axis=1, keepdims=True)
        self.noise = 30 * self.error + 1e-11
        s = np.linalg.svd(self.constraints, compute_uv=False)
        self.num_constraints = np.sum(s > np.maximum(1e-6, 10 * self.noise)[:, None], axis=1)
        self.noise[self.foreign | (self.rank == 0)] = np.inf


def nearest(places: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Distance of each of ``t`` from the nearest of the sorted ``places``."""
    if not len(places):
        return np.full(len(t), np.inf)
    right = np.clip(np.searchsorted(places, t), 0, len(places) - 1)
    left = np.maximum(right - 1, 0)
    return np.minimum(np.abs(places[right] - t), np.abs(places[left] - t))
