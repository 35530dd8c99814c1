"""Climbs of functions that are linear between hyperplanes, over polytopes in a box; many at once.

Each goes along edges as the simplex method does, an active set of constraints at a time, and through a hyperplane where
the function rises beyond. Where it bends downwards there a climb may end beside a higher place: begin from several.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_STEPS = 80
TINY = 1e-9
"""Slopes and distances, relative to the largest, that are none."""


@dataclass
class Climb:
    """Climbs in coordinates in which the box is [-1, 1]; what each climbs is up to the caller to fill in.

    Constraint i of climb q is ``sign[q, i] (rows[i] . t + offsets[i]) >= 0``, rows of length one: first the
    hyperplanes, then the sides of the box.
    """

    rows: np.ndarray
    offsets: np.ndarray
    sign: np.ndarray
    """(climbs, constraints): on which side of each."""
    counts: np.ndarray
    """(climbs, constraints): which hold the climb up, or may."""
    crossable: np.ndarray
    """(climbs, constraints): those that a climb may go through."""
    bends: np.ndarray
    """(climbs, constraints): by how much the slope of what is climbed changes across those."""
    slope: np.ndarray
    """(climbs, d): in the cell where each climb begins."""
    fixed: np.ndarray
    """(climbs,): the hyperplane that a climb keeps to, or -1."""

    @staticmethod
    def begin(rows: np.ndarray, offsets: np.ndarray, t: np.ndarray) -> Climb:
        """Climbs of nothing yet from ``t``, held up by nothing but the box."""
        count, (n, d) = len(t), rows.shape
        shape = (count, n + 2 * d)
        sign, counts = np.ones(shape), np.ones(shape, dtype=bool)
        sign[:, :n] = np.where(t @ rows.T + offsets > 0, 1.0, -1.0)
        counts[:, :n] = False
        return Climb(
            np.concatenate([rows, np.eye(d), -np.eye(d)]),
            np.append(offsets, np.ones(2 * d)),
            sign,
            counts,
            np.zeros(shape, dtype=bool),
            np.zeros(shape),
            np.zeros((count, d)),
            np.full(count, -1),
        )

    def rise(self, linear: np.ndarray, ridges: np.ndarray) -> None:
        """Climb ``linear . t + sum_i ridges_i |rows_i . t + offsets_i|``, through hyperplanes with such a ridge."""
        n = ridges.shape[1]
        self.slope += linear + (ridges * self.sign[:, :n]) @ self.rows[:n]
        self.counts[:, :n] |= ridges != 0
        self.crossable[:, :n] |= ridges != 0
        self.bends[:, :n] += 2 * ridges

    def run(self, t: np.ndarray, until: np.ndarray | None = None) -> np.ndarray:
        """The ends of the climbs from ``t``; with ``until``, a constraint each, a climb ends where it reaches it."""
        t, count = t.copy(), len(t)
        active = np.zeros(self.sign.shape, dtype=bool)
        kept = self.fixed >= 0
        active[np.flatnonzero(kept), self.fixed[kept]] = True
        going = np.ones(count, dtype=bool)
        for _ in range(MOST_STEPS):
            q = np.flatnonzero(going)
            if not len(q):
                break
            growth, v, left = self._look(q, active[q])
            best = np.argmax(growth, axis=1)
            gain = growth[np.arange(len(q)), best]
            steep = np.linalg.norm(self.slope[q], axis=1)
            loosen = gain > TINY * steep
            self._loosen(q[loosen], best[loosen], left[loosen], active)
            still = ~loosen & (np.linalg.norm(v, axis=1) <= TINY * steep)
            going[q[still]] = False
            move = np.flatnonzero(~loosen & ~still)
            if len(move):
                reached = self._move(t, q[move], v[move], active)
                if until is not None:
                    going[q[move][reached == until[q[move]]]] = False
        return np.clip(t, -1.0, 1.0)

    def _look(self, q: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What leaving each active constraint gains, the direction along all of them, and whether to the far side."""
        d = self.rows.shape[1]
        chosen = np.argsort(~active, axis=1, kind="stable")[:, :d]
        real = np.take_along_axis(active, chosen, axis=1)
        normals = self.rows[chosen] * (np.take_along_axis(self.sign[q], chosen, axis=1) * real)[:, :, None]
        gram = normals @ np.swapaxes(normals, 1, 2) + np.where(real, 1e-13, 1.0)[:, :, None] * np.eye(d)
        share = np.linalg.solve(gram, (normals @ self.slope[q][:, :, None]))[:, :, 0]
        v = self.slope[q] - np.einsum("qi,qid->qd", share, normals)
        beyond = np.take_along_axis(self.bends[q], chosen, axis=1) - share
        beyond = np.where(np.take_along_axis(self.crossable[q], chosen, axis=1), beyond, -np.inf)
        held = ~real | (chosen == self.fixed[q][:, None])
        gains = np.where(held, -np.inf, np.maximum(share, beyond))
        growth, left = np.full(active.shape, -np.inf), np.zeros(active.shape, dtype=bool)
        np.put_along_axis(growth, chosen, gains, axis=1)
        np.put_along_axis(left, chosen, beyond > share, axis=1)
        return growth, v, left

    def _loosen(self, q: np.ndarray, which: np.ndarray, left: np.ndarray, active: np.ndarray) -> None:
        """No longer along these constraints, one a climb; through those that rise beyond."""
        active[q, which] = False
        through = left[np.arange(len(q)), which]
        q, which = q[through], which[through]
        self.slope[q] -= (self.bends[q, which] * self.sign[q, which])[:, None] * self.rows[which]
        self.sign[q, which] *= -1

    def _move(self, t: np.ndarray, q: np.ndarray, v: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Each climb to the first constraint on its way, which becomes active; its number."""
        v = v / np.linalg.norm(v, axis=1, keepdims=True)
        heights = self.sign[q] * (t[q] @ self.rows.T + self.offsets)
        rates = self.sign[q] * (v @ self.rows.T)
        ahead = self.counts[q] & ~active[q] & (rates < -TINY)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(ahead, np.maximum(heights, 0.0) / -rates, np.inf)
        first = np.argmin(times, axis=1)
        t[q] += times[np.arange(len(q)), first][:, None] * v
        active[q, first] = True
        return first
